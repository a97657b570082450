/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/diff/blocks.h"
#include "api/profile/copy.h"
#include "api/profile/diff/checks.h"
#include "api/profile/diff/common_types.h"
#include "api/profile/diff/join.h"
#include "api/profile/diff/match.h"
#include "api/profile/diff/weights.h"

#include <stdlib.h>
#include <string.h>

/* The first profile of each side or its whole, and what all others are compared by. */
struct first {
    struct common_types common;
    struct profile_pair pair;
    struct sonde_value_type type;
};

/* ---- Adding one block ---- */

static sonde_err find_type(const struct sonde_profile *profile, struct sonde_value_type wanted,
                           size_t *index, struct sonde_diag *diag) {
    for (*index = 0; *index < profile->type_count; ++*index) {
        struct sonde_value_type type = sonde_profile_type(profile, *index);
        if (strcmp(type.type, wanted.type) == 0 && strcmp(type.unit, wanted.unit) == 0)
            return SONDE_OK;
    }
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "one of the profiles does not measure %.60s",
                      wanted.type);
}

static sonde_err append(struct sonde_blocks *blocks, uint32_t sample, uint32_t block,
                        struct verdict_cell cell) {
    if (blocks->value_count == blocks->capacity) {
        size_t capacity = blocks->capacity ? 2 * blocks->capacity : 256;
        void *grown = reallocarray(blocks->values, capacity, sizeof *blocks->values);
        if (!grown)
            return SONDE_OUT_OF_MEMORY;
        blocks->values = grown;
        blocks->capacity = capacity;
    }
    blocks->values[blocks->value_count++] = (struct sonde_block_value){sample, block, cell};
    return SONDE_OK;
}

static sonde_err add_samples(struct sonde_blocks *blocks, const struct sonde_profile *from,
                             const struct profile_weights *weights, double scale, uint32_t block) {
    struct profile_copy copy;
    struct profile_copied_sample copied;
    size_t side = block < blocks->counts[0] ? 1 : 0; /* the new values are the first type */
    sonde_err err = profile_copy_init(&copy, blocks->both, from);
    for (size_t i = 0; i < sonde_profile_sample_count(from) && !err; i++) {
        struct sonde_sample sample = sonde_profile_sample(from, i);
        uint32_t added = 0;
        err = profile_copy_sample(&copy, i, 0, 0, &copied);
        copied.values[side] = sample.values[weights->type];
        copied.values[!side] = 0;
        if (!err)
            err = sonde_profile_add_sample_at(blocks->both, &copied.sample, &added);
        if (!err)
            err = append(blocks, added, block, profile_weights_cell(weights, &sample, scale));
    }
    profile_copy_finish(&copy);
    return err;
}

static sonde_err add_block(struct sonde_blocks *blocks, const struct sonde_profile *from,
                           const struct first *first, double scale, uint32_t block,
                           struct sonde_diag *diag) {
    struct profile_weights weights;
    size_t index;
    sonde_err err = find_type(from, first->type, &index, diag);
    if (err)
        return err;
    if (!profile_weights_find(&weights, from, index))
        blocks->is_counted = false;
    return add_samples(blocks, from, &weights, scale, block);
}

/* ---- The other blocks ---- */

static sonde_err check(const struct sonde_profile *base, const struct sonde_profile *now,
                       size_t type_index, struct sonde_diag *diag) {
    sonde_err err = diff_check_events(base, now, diag);
    if (!err && !diff_is_measure(now, type_index))
        err = diff_check_rates(base, now, diag);
    return err;
}

/* Adds a profile in terms of the first new one. */
static sonde_err add_matched(struct sonde_blocks *blocks, const struct sonde_profile *profile,
                             const struct first *first, double scale, uint32_t block,
                             struct sonde_diag *diag) {
    struct profile_pair pair;
    sonde_err err = profile_match(profile, first->pair.now, false, &pair);
    if (!err)
        err = add_block(blocks, pair.base, first, scale, block, diag);
    profile_pair_finish(&pair);
    return err;
}

/* Where the first new profile's code without names was named after its file, because the base is
 * another build, that of the other new ones is, too. */
static sonde_err add_named(struct sonde_blocks *blocks, const struct sonde_profile *profile,
                           const struct first *first, double scale, uint32_t block,
                           struct sonde_diag *diag) {
    struct profile_pair pair;
    if (!first->pair.owned_now)
        return add_matched(blocks, profile, first, scale, block, diag);
    sonde_err err = profile_match(first->common.base, profile, false, &pair);
    if (!err)
        err = add_matched(blocks, pair.now, first, scale, block, diag);
    profile_pair_finish(&pair);
    return err;
}

static sonde_err add_others(struct sonde_blocks *blocks, const struct sonde_blocks_side sides[2],
                            const struct first *first, struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    for (uint32_t side = 0; side < 2; side++)
        for (size_t i = sides[side].whole ? 0 : 1; i < sides[side].count && !err; i++) {
            const struct sonde_profile *profile = sides[side].profiles[i];
            uint32_t block = (uint32_t)(i + side * sides[0].count);
            size_t index;
            err = find_type(profile, first->type, &index, diag);
            if (!err)
                err = check(first->common.now, profile, index, diag);
            if (!err)
                err = (side ? add_named : add_matched)(blocks, profile, first, sides[side].scale,
                                                       block, diag);
        }
    return err;
}

/* ---- The first blocks ---- */

static sonde_err create_both(const struct sonde_profile *now, struct sonde_value_type type,
                             struct sonde_profile **both) {
    struct sonde_value_type types[] = {type, {"before", type.unit}};
    struct sonde_profile *created = sonde_profile_create(types, 2, now->limit_bytes);
    *both = created;
    if (!created)
        return SONDE_OUT_OF_MEMORY;
    struct sonde_profile_info info = now->info;
    info.default_type = 0;
    sonde_profile_set_info(created, &info);
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < sonde_profile_comment_count(now) && !err; i++)
        err = sonde_profile_add_comment(created, sonde_profile_comment(now, i));
    return err;
}

static sonde_err add_all(struct sonde_blocks *blocks, const struct sonde_blocks_side sides[2],
                         struct first *first, struct sonde_diag *diag) {
    const struct profile_pair *pair = &first->pair;
    sonde_err err = profile_match(first->common.base, first->common.now, false, &first->pair);
    if (!err)
        err = create_both(pair->now, first->type, &blocks->both);
    if (!err && !sides[1].whole)
        err = add_block(blocks, pair->now, first, sides[1].scale, (uint32_t)sides[0].count, diag);
    if (!err && !sides[0].whole)
        err = add_block(blocks, pair->base, first, sides[0].scale, 0, diag);
    return err ? err : add_others(blocks, sides, first, diag);
}

static sonde_err compare_same_types(struct sonde_blocks *blocks,
                                    const struct sonde_blocks_side sides[2], const char *type,
                                    struct first *first, struct sonde_diag *diag) {
    const struct sonde_profile *base = first->common.base, *now = first->common.now;
    size_t index = 0;
    sonde_err err = diff_check_events(base, now, diag);
    if (!err)
        err = diff_choose_type(now, type, &index, diag);
    if (!err)
        err = check(base, now, index, diag);
    if (err)
        return err;
    first->type = sonde_profile_type(now, index);
    err = add_all(blocks, sides, first, diag);
    profile_pair_finish(&first->pair);
    return !err || err == SONDE_INVALID_ARGUMENT
               ? err
               : sonde_fail(diag, err, "the comparison: %s", sonde_diag_text(NULL, err));
}

static const struct sonde_profile *first_of(const struct sonde_blocks_side *side) {
    return side->whole ? side->whole : side->profiles[0];
}

static sonde_err set_exposures(struct sonde_blocks *blocks,
                               const struct sonde_blocks_side sides[2]) {
    size_t at = 0;
    blocks->exposures = calloc(sides[0].count + sides[1].count, sizeof *blocks->exposures);
    if (!blocks->exposures)
        return SONDE_OUT_OF_MEMORY;
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < sides[side].count; i++)
            blocks->exposures[at++] = sides[side].exposures ? sides[side].exposures[i] : 1;
    return SONDE_OK;
}

sonde_err sonde_profile_compare_blocks(const struct sonde_blocks_side sides[2], const char *type,
                                       struct sonde_blocks *blocks, struct sonde_diag *diag) {
    struct first first = {0};
    *blocks = (struct sonde_blocks){.counts = {sides[0].count, sides[1].count}, .is_counted = true};
    sonde_err err =
        common_types_find(first_of(&sides[0]), first_of(&sides[1]), &first.common, diag);
    if (!err)
        err = compare_same_types(blocks, sides, type, &first, diag);
    common_types_finish(&first.common);
    if (!err && (set_exposures(blocks, sides) ||
                 blocks_join(blocks, (const bool[]){sides[0].whole, sides[1].whole})))
        err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "the comparison: out of memory");
    if (err)
        sonde_blocks_finish(blocks);
    return err;
}

void sonde_blocks_finish(struct sonde_blocks *blocks) {
    sonde_profile_destroy(blocks->both);
    free(blocks->values);
    free(blocks->exposures);
    *blocks = (struct sonde_blocks){0};
}
