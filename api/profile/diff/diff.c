/* SPDX-License-Identifier: Apache-2.0
 *
 * A difference takes three steps. First base gets the files, names and addresses of the new
 * profile. Then all samples of both are added to one profile, which merges equal stacks. Then the
 * samples that are not zero are copied to the result. */
#include "api/profile/diff/diff.h"
#include "api/profile/copy.h"
#include "api/profile/diff/blocks.h"
#include "api/profile/diff/checks.h"
#include "api/profile/diff/common_types.h"
#include "api/profile/diff/match.h"

#include <math.h>
#include <string.h>

/* Where the scaled values of a sample go in a sample of the result. */
struct placing {
    double scales[SONDE_PROFILE_MAX_TYPES];
    size_t from[SONDE_PROFILE_MAX_TYPES]; /* SONDE_PROFILE_NO_TYPE = the value is 0 */
};

static int64_t scaled(int64_t value, double scale) {
    double product = round((double)value * scale);
    if (scale == 1 || scale == -1)
        return profile_multiply(value, (int64_t)scale);
    if (product >= 9.2e18 || product <= -9.2e18)
        return product > 0 ? INT64_MAX : INT64_MIN;
    return (int64_t)product;
}

static void place(const struct placing *placing, size_t type_count,
                  struct profile_copied_sample *copied) {
    int64_t values[SONDE_PROFILE_MAX_TYPES];
    for (size_t i = 0; i < type_count; i++)
        values[i] = placing->from[i] == SONDE_PROFILE_NO_TYPE
                        ? 0
                        : scaled(copied->values[placing->from[i]], placing->scales[i]);
    memcpy(copied->values, values, type_count * sizeof *values);
}

static sonde_err add_all(struct sonde_profile *into, const struct sonde_profile *from,
                         const struct placing *placing) {
    struct profile_copy copy;
    struct profile_copied_sample copied;
    sonde_err err = profile_copy_init(&copy, into, from);
    for (size_t i = 0; i < sonde_profile_sample_count(from) && !err; i++) {
        err = profile_copy_sample(&copy, i, 0, 0, &copied);
        if (err)
            break;
        place(placing, into->type_count, &copied);
        err = sonde_profile_add_sample(into, &copied.sample);
    }
    profile_copy_finish(&copy);
    return err;
}

static bool is_wanted(const struct sonde_profile *profile, size_t index, bool growth_only) {
    struct sonde_sample sample = sonde_profile_sample(profile, index);
    if (growth_only)
        return sample.values[profile->info.default_type] > 0;
    for (size_t i = 0; i < profile->type_count; i++)
        if (sample.values[i])
            return true;
    return false;
}

/* Creates a profile with the samples that is_wanted accepts. */
static sonde_err filter(const struct sonde_profile *from, bool growth_only,
                        struct sonde_profile **filtered) {
    struct profile_copy copy;
    struct profile_copied_sample copied;
    struct sonde_profile *into = profile_copy_empty(from);
    if (!into)
        return SONDE_OUT_OF_MEMORY;
    sonde_err err = profile_copy_init(&copy, into, from);
    for (size_t i = 0; i < sonde_profile_sample_count(from) && !err; i++) {
        if (!is_wanted(from, i, growth_only))
            continue;
        err = profile_copy_sample(&copy, i, 0, 0, &copied);
        if (!err)
            err = sonde_profile_add_sample(into, &copied.sample);
    }
    profile_copy_finish(&copy);
    if (err)
        sonde_profile_destroy(into);
    else
        *filtered = into;
    return err;
}

static double ratio(const struct sonde_profile *base, const struct sonde_profile *now,
                    size_t type_index) {
    double before = (double)sonde_profile_total(base, type_index);
    double after = (double)sonde_profile_total(now, type_index);
    return before && after ? before / after : 1;
}

static sonde_err add_both(const struct sonde_profile *base, const struct sonde_profile *now,
                          bool normalise, struct sonde_profile *sum) {
    struct placing plus = {{0}, {0}}, minus = {{0}, {0}};
    for (size_t i = 0; i < now->type_count; i++) {
        plus.from[i] = minus.from[i] = i;
        plus.scales[i] = normalise ? ratio(base, now, i) : 1;
        minus.scales[i] = -1;
    }
    sonde_err err = add_all(sum, now, &plus);
    return err ? err : add_all(sum, base, &minus);
}

static sonde_err subtract_functions(const struct profile_pair *pair,
                                    const struct sonde_diff_options *options,
                                    struct sonde_profile *sum) {
    struct sonde_profile *base, *now = NULL;
    sonde_err err = profile_by_function(pair->base, options->merge_threads, &base);
    if (!err)
        err = profile_by_function(pair->now, options->merge_threads, &now);
    if (!err)
        err = add_both(base, now, options->normalise, sum);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
    return err;
}

static sonde_err subtract(const struct sonde_profile *base, const struct sonde_profile *now,
                          const struct sonde_diff_options *options, struct sonde_profile *sum) {
    struct profile_pair pair;
    sonde_err err = profile_match(base, now, options->keep_addresses, &pair);
    if (!err && options->by_function)
        err = subtract_functions(&pair, options, sum);
    else if (!err)
        err = add_both(pair.base, pair.now, options->normalise, sum);
    profile_pair_finish(&pair);
    return err;
}

static sonde_err diff_same_types(const struct sonde_profile *base, const struct sonde_profile *now,
                                 const struct sonde_diff_options *options,
                                 struct sonde_profile **diff, struct sonde_diag *diag) {
    size_t index = 0;
    sonde_err err = diff_check_events(base, now, diag);
    if (!err)
        err = diff_check_rates(base, now, diag);
    if (!err)
        err = diff_choose_type(now, options->type, &index, diag);
    if (err)
        return err;
    struct sonde_profile *sum = profile_copy_empty(now);
    err = sum ? subtract(base, now, options, sum) : SONDE_OUT_OF_MEMORY;
    if (!err)
        sum->info.default_type = (uint32_t)index;
    if (!err)
        err = filter(sum, options->growth_only, diff);
    sonde_profile_destroy(sum);
    return err ? sonde_fail(diag, err, "the difference: %s", sonde_diag_text(NULL, err)) : SONDE_OK;
}

sonde_err sonde_profile_diff(const struct sonde_profile *base, const struct sonde_profile *now,
                             const struct sonde_diff_options *options, struct sonde_profile **diff,
                             struct sonde_diag *diag) {
    const struct sonde_diff_options defaults = {0};
    struct common_types common;
    *diff = NULL;
    sonde_err err = common_types_find(base, now, &common, diag);
    if (!err)
        err = diff_same_types(common.base, common.now, options ? options : &defaults, diff, diag);
    common_types_finish(&common);
    return err;
}

sonde_err sonde_profile_compare(const struct sonde_profile *base, const struct sonde_profile *now,
                                const char *type, struct sonde_profile **both,
                                struct sonde_diag *diag) {
    const struct sonde_blocks_side sides[] = {{.profiles = &base, .count = 1, .scale = 1},
                                              {.profiles = &now, .count = 1, .scale = 1}};
    struct sonde_blocks blocks;
    sonde_err err = sonde_profile_compare_blocks(sides, type, &blocks, diag);
    *both = blocks.both;
    blocks.both = NULL;
    sonde_blocks_finish(&blocks);
    return err;
}

sonde_err sonde_profile_scaled(const struct sonde_profile *profile, double scale,
                               struct sonde_profile **copy) {
    struct placing all = {{0}, {0}};
    struct sonde_profile *into = profile_copy_empty(profile);
    *copy = NULL;
    if (!into)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < profile->type_count; i++) {
        all.from[i] = i;
        all.scales[i] = scale;
    }
    sonde_err err = add_all(into, profile, &all);
    if (err)
        sonde_profile_destroy(into);
    else
        *copy = into;
    return err;
}
