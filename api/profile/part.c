/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies some types and samples of a profile. */
#include "api/profile/copy.h"
#include "api/profile/sums.h"

#include <string.h>

static struct sonde_profile *create(const struct sonde_profile *from,
                                    const struct sonde_profile_part *part) {
    struct sonde_value_type types[SONDE_PROFILE_MAX_TYPES];
    struct sonde_profile_info info = from->info;
    info.default_type = 0;
    for (size_t i = 0; i < part->type_count; i++) {
        types[i] = sonde_profile_type(from, part->types[i]);
        if (part->types[i] == from->info.default_type)
            info.default_type = (uint32_t)i;
    }
    struct sonde_profile *into = sonde_profile_create(types, part->type_count, from->limit_bytes);
    if (into)
        sonde_profile_set_info(into, &info);
    return into;
}

static bool is_left_out(const char *key, const char *const *keys) {
    for (; keys && *keys; keys++)
        if (strcmp(key, *keys) == 0)
            return true;
    return false;
}

static void drop_labels(const struct sonde_profile *into, const char *const *keys,
                        struct profile_copied_sample *copied) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < copied->sample.label_count; i++)
        if (!is_left_out(sonde_profile_text(into, copied->labels[i].key), keys))
            copied->labels[kept++] = copied->labels[i];
    copied->sample.label_count = kept;
}

/* Whether one of the values is positive. */
static bool read_values(const struct sonde_profile *from, const struct sonde_profile_part *part,
                        const struct sonde_sample *sample, int64_t *values) {
    const int64_t *before =
        part->before ? sonde_profile_sums_find(part->before, from, sample) : NULL;
    bool has_positive = false;
    for (size_t i = 0; i < part->type_count; i++) {
        values[i] = sample->values[part->types[i]];
        if (before)
            values[i] = values[i] > before[i] ? values[i] - before[i] : 0;
        has_positive = has_positive || values[i] > 0;
    }
    return has_positive;
}

static sonde_err copy_sample(struct profile_copy *copy, const struct sonde_profile_part *part,
                             size_t index) {
    const struct sonde_sample sample = sonde_profile_sample(copy->from, index);
    struct profile_copied_sample copied;
    int64_t values[SONDE_PROFILE_MAX_TYPES];
    if (!read_values(copy->from, part, &sample, values))
        return SONDE_OK;
    sonde_err err = profile_copy_sample(copy, index, 0, 0, &copied);
    memcpy(copied.values, values, part->type_count * sizeof *values);
    if (!err)
        drop_labels(copy->into, part->without_labels, &copied);
    return err ? err : sonde_profile_add_sample(copy->into, &copied.sample);
}

struct sonde_profile_part sonde_profile_everything(const struct sonde_profile *profile) {
    struct sonde_profile_part part = {.type_count = profile->type_count, .end = SIZE_MAX};
    for (size_t i = 0; i < part.type_count; i++)
        part.types[i] = i;
    return part;
}

sonde_err sonde_profile_copy_part(const struct sonde_profile *profile,
                                  const struct sonde_profile_part *part,
                                  struct sonde_profile **result) {
    struct profile_copy copy;
    size_t count = sonde_profile_sample_count(profile);
    size_t end = part->end < count ? part->end : count;
    *result = NULL;
    if (part->type_count == 0 || part->type_count > SONDE_PROFILE_MAX_TYPES)
        return SONDE_INVALID_ARGUMENT;
    for (size_t i = 0; i < part->type_count; i++)
        if (part->types[i] >= profile->type_count)
            return SONDE_INVALID_ARGUMENT;
    struct sonde_profile *into = create(profile, part);
    if (!into)
        return SONDE_OUT_OF_MEMORY;
    sonde_err err = profile_copy_init(&copy, into, profile);
    for (size_t i = part->first; i < end && !err; i++)
        err = copy_sample(&copy, part, i);
    profile_copy_finish(&copy);
    if (err)
        sonde_profile_destroy(into);
    else
        *result = into;
    return err;
}
