/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/diff/common_types.h"
#include "api/profile/copy.h"

#include <string.h>

/* Indices of the types that stay. */
struct choice {
    size_t of_base[SONDE_PROFILE_MAX_TYPES], of_now[SONDE_PROFILE_MAX_TYPES];
    size_t count;
};

static size_t find(const struct sonde_profile *profile, struct sonde_value_type wanted) {
    for (size_t i = 0; i < profile->type_count; i++) {
        struct sonde_value_type type = sonde_profile_type(profile, i);
        if (strcmp(type.type, wanted.type) == 0 && strcmp(type.unit, wanted.unit) == 0)
            return i;
    }
    return SONDE_PROFILE_NO_TYPE;
}

static struct choice choose(const struct sonde_profile *base, const struct sonde_profile *now) {
    struct choice choice = {.count = 0};
    for (size_t i = 0; i < now->type_count; i++) {
        size_t other = find(base, sonde_profile_type(now, i));
        if (other == SONDE_PROFILE_NO_TYPE)
            continue;
        choice.of_base[choice.count] = other;
        choice.of_now[choice.count++] = i;
    }
    return choice;
}

/* Appends the names of the types that `other` lacks; other NULL: of all. */
static void list_types(struct sonde_buf *text, const struct sonde_profile *of,
                       const struct sonde_profile *other) {
    for (size_t i = 0; i < of->type_count; i++) {
        struct sonde_value_type type = sonde_profile_type(of, i);
        if (!other || find(other, type) == SONDE_PROFILE_NO_TYPE)
            sonde_buf_printf(text, "%s%s (%s)", text->len ? ", " : "", type.type, type.unit);
    }
}

static sonde_err refuse(const struct sonde_profile *base, const struct sonde_profile *now,
                        struct sonde_diag *diag) {
    struct sonde_buf before = {0}, after = {0};
    list_types(&before, base, NULL);
    list_types(&after, now, NULL);
    sonde_err err = sonde_fail(
        diag, SONDE_INVALID_ARGUMENT, "the profiles measure different things: %.100s; and %.100s",
        before.data ? before.data : "nothing", after.data ? after.data : "nothing");
    sonde_buf_finish(&before);
    sonde_buf_finish(&after);
    return err;
}

/* The default stays if it is a common type; otherwise it is the last one, as pprof has it. */
static void set_info(struct sonde_profile *into, const struct sonde_profile *from,
                     const size_t *chosen, size_t count) {
    struct sonde_profile_info info = from->info;
    info.default_type = (uint32_t)count - 1;
    for (size_t i = 0; i < count; i++) {
        if (chosen[i] == from->info.default_type)
            info.default_type = (uint32_t)i;
    }
    sonde_profile_set_info(into, &info);
}

static sonde_err copy_samples(struct sonde_profile *into, const struct sonde_profile *from,
                              const size_t *chosen, size_t count) {
    struct profile_copy copy;
    struct profile_copied_sample copied;
    sonde_err err = profile_copy_init(&copy, into, from);
    for (size_t i = 0; i < sonde_profile_sample_count(from) && !err; i++) {
        const int64_t *values = sonde_profile_sample(from, i).values;
        err = profile_copy_sample(&copy, i, 0, 0, &copied);
        for (size_t k = 0; k < count; k++)
            copied.values[k] = values[chosen[k]];
        if (!err)
            err = sonde_profile_add_sample(into, &copied.sample);
    }
    profile_copy_finish(&copy);
    return err;
}

static sonde_err copy_some(const struct sonde_profile *from, const size_t *chosen, size_t count,
                           struct sonde_profile **result) {
    struct sonde_value_type types[SONDE_PROFILE_MAX_TYPES] = {{0}};
    for (size_t i = 0; i < count; i++)
        types[i] = sonde_profile_type(from, chosen[i]);
    struct sonde_profile *into = sonde_profile_create(types, count, from->limit_bytes);
    *result = into;
    if (!into)
        return SONDE_OUT_OF_MEMORY;
    set_info(into, from, chosen, count);
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < sonde_profile_comment_count(from) && !err; i++)
        err = sonde_profile_add_comment(into, sonde_profile_comment(from, i));
    return err ? err : copy_samples(into, from, chosen, count);
}

static sonde_err add_comment(struct common_types *common, const struct sonde_profile *base,
                             const struct sonde_profile *now) {
    struct sonde_buf types = {0}, text = {0};
    list_types(&types, now, base);
    list_types(&types, base, now);
    sonde_buf_printf(&text, "left out: sample types of one profile only: %s",
                     types.data ? types.data : "");
    sonde_err err = types.failed || text.failed
                        ? SONDE_OUT_OF_MEMORY
                        : sonde_profile_add_comment(common->own_now, text.data);
    sonde_buf_finish(&types);
    sonde_buf_finish(&text);
    return err;
}

sonde_err common_types_find(const struct sonde_profile *base, const struct sonde_profile *now,
                            struct common_types *common, struct sonde_diag *diag) {
    *common = (struct common_types){.base = base, .now = now};
    if (profile_same_types(base, now))
        return SONDE_OK;
    struct choice choice = choose(base, now);
    if (choice.count == 0)
        return refuse(base, now, diag);
    sonde_err err = copy_some(base, choice.of_base, choice.count, &common->own_base);
    if (!err)
        err = copy_some(now, choice.of_now, choice.count, &common->own_now);
    bool has_more = choice.count < base->type_count || choice.count < now->type_count;
    if (!err && has_more)
        err = add_comment(common, base, now);
    common->base = common->own_base;
    common->now = common->own_now;
    return err ? sonde_fail(diag, err, "the difference: %s", sonde_diag_text(NULL, err)) : SONDE_OK;
}

void common_types_finish(struct common_types *common) {
    sonde_profile_destroy(common->own_base);
    sonde_profile_destroy(common->own_now);
    *common = (struct common_types){0};
}
