/* SPDX-License-Identifier: Apache-2.0
 *
 * Creation, destruction and accessors of a profile. Adding is in build.c. */
#include "api/profile/profile_tables.h"
#include "api/profile/timeline.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_LIMIT ((size_t)1 << 30)

int64_t profile_add(int64_t a, int64_t b) {
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return b > 0 ? INT64_MAX : INT64_MIN;
}

int64_t profile_multiply(int64_t a, int64_t b) {
    int64_t product;
    if (!__builtin_mul_overflow(a, b, &product))
        return product;
    return (a > 0) == (b > 0) ? INT64_MAX : INT64_MIN;
}

size_t sonde_profile_bytes(const struct sonde_profile *profile) {
    const struct profile_table *const tables[] = {&profile->strings,   &profile->mappings,
                                                  &profile->functions, &profile->locations,
                                                  &profile->samples,   &profile->comments};
    size_t used = profile->arena.total + profile->adopted_bytes;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        used += profile_table_bytes(tables[i]);
    return used;
}

sonde_err profile_reserve(const struct sonde_profile *profile, const struct profile_table *table,
                          size_t bytes) {
    size_t used = sonde_profile_bytes(profile) + profile_table_growth(table);
    if (bytes > profile->limit_bytes || used > profile->limit_bytes - bytes)
        return SONDE_TOO_LARGE;
    return SONDE_OK;
}

static sonde_err intern_text(struct sonde_profile *profile, const char *text, uint32_t *id) {
    return sonde_profile_string(profile, text ? text : "", text ? strlen(text) : 0, id);
}

static sonde_err intern_type(struct sonde_profile *profile, struct sonde_value_type from,
                             struct profile_type *to) {
    sonde_err err = intern_text(profile, from.type, &to->type);
    return err ? err : intern_text(profile, from.unit, &to->unit);
}

static sonde_err start(struct sonde_profile *profile, const struct sonde_value_type *types) {
    uint32_t empty;
    sonde_err err = intern_text(profile, "", &empty);
    for (size_t i = 0; i < profile->type_count && !err; i++)
        err = intern_type(profile, types[i], &profile->types[i]);
    return err;
}

struct sonde_profile *sonde_profile_create(const struct sonde_value_type *types, size_t type_count,
                                           size_t limit_bytes) {
    if (type_count == 0 || type_count > SONDE_PROFILE_MAX_TYPES)
        return NULL;
    struct sonde_profile *profile = calloc(1, sizeof *profile);
    if (!profile)
        return NULL;
    profile->owners = 1;
    profile->type_count = type_count;
    profile->limit_bytes = limit_bytes ? limit_bytes : DEFAULT_LIMIT;
    profile_table_init(&profile->strings, sizeof(struct profile_text));
    profile_table_init(&profile->mappings, sizeof(struct sonde_mapping));
    profile_table_init(&profile->functions, sizeof(struct sonde_function));
    profile_table_init(&profile->locations, sizeof(struct sonde_location));
    profile_table_init(&profile->samples, sizeof(struct profile_sample));
    profile_table_init(&profile->comments, sizeof(uint32_t));
    if (start(profile, types) != SONDE_OK) {
        sonde_profile_destroy(profile);
        return NULL;
    }
    sonde_profile_set_info(profile, &(struct sonde_profile_info){0});
    return profile;
}

void sonde_profile_destroy(struct sonde_profile *profile) {
    if (!profile || atomic_fetch_sub(&profile->owners, 1) > 1)
        return;
    profile_table_finish(&profile->strings);
    profile_table_finish(&profile->mappings);
    profile_table_finish(&profile->functions);
    profile_table_finish(&profile->locations);
    profile_table_finish(&profile->samples);
    profile_table_finish(&profile->comments);
    sonde_arena_finish(&profile->arena);
    for (size_t i = 0; i < profile->adopted_count; i++)
        free(profile->adopted[i]);
    free(profile->adopted);
    sonde_timeline_destroy(profile->timeline);
    free(profile);
}

struct sonde_profile *sonde_profile_share(struct sonde_profile *profile) {
    atomic_fetch_add(&profile->owners, 1);
    return profile;
}

void sonde_profile_set_info(struct sonde_profile *profile, const struct sonde_profile_info *info) {
    struct profile_type period_type = {0};
    if (intern_type(profile, info->period_type, &period_type) != SONDE_OK)
        period_type = (struct profile_type){0};
    profile->info = *info;
    profile->period_type = period_type;
    profile->info.period_type =
        (struct sonde_value_type){sonde_profile_text(profile, period_type.type),
                                  sonde_profile_text(profile, period_type.unit)};
    if (info->default_type >= profile->type_count)
        profile->info.default_type = 0;
}

const struct sonde_profile_info *sonde_profile_info(const struct sonde_profile *profile) {
    return &profile->info;
}

size_t sonde_profile_type_count(const struct sonde_profile *profile) {
    return profile->type_count;
}

struct sonde_value_type sonde_profile_type(const struct sonde_profile *profile, size_t index) {
    if (index >= profile->type_count)
        return (struct sonde_value_type){"", ""};
    return (struct sonde_value_type){sonde_profile_text(profile, profile->types[index].type),
                                     sonde_profile_text(profile, profile->types[index].unit)};
}

size_t sonde_profile_find_type(const struct sonde_profile *profile, const char *type) {
    for (size_t i = 0; i < profile->type_count; i++)
        if (strcmp(sonde_profile_type(profile, i).type, type) == 0)
            return i;
    return SONDE_PROFILE_NO_TYPE;
}

size_t sonde_profile_string_count(const struct sonde_profile *profile) {
    return profile->strings.count;
}

const char *sonde_profile_text(const struct sonde_profile *profile, uint32_t id) {
    if (id >= profile->strings.count)
        return "";
    return ((const struct profile_text *)profile_table_item(&profile->strings, id))->data;
}

size_t sonde_profile_mapping_count(const struct sonde_profile *profile) {
    return profile->mappings.count;
}

size_t sonde_profile_function_count(const struct sonde_profile *profile) {
    return profile->functions.count;
}

size_t sonde_profile_location_count(const struct sonde_profile *profile) {
    return profile->locations.count;
}

size_t sonde_profile_sample_count(const struct sonde_profile *profile) {
    return profile->samples.count;
}

size_t sonde_profile_comment_count(const struct sonde_profile *profile) {
    return profile->comments.count;
}

/* For tables whose ids count from 1. */
static const void *item(const struct profile_table *table, uint32_t id) {
    return id == 0 || id > table->count ? NULL : profile_table_item(table, id - 1);
}

const struct sonde_mapping *sonde_profile_mapping(const struct sonde_profile *profile,
                                                  uint32_t id) {
    return item(&profile->mappings, id);
}

const struct sonde_function *sonde_profile_function(const struct sonde_profile *profile,
                                                    uint32_t id) {
    return item(&profile->functions, id);
}

const struct sonde_location *sonde_profile_location(const struct sonde_profile *profile,
                                                    uint32_t id) {
    return item(&profile->locations, id);
}

struct sonde_sample profile_stored_sample(const struct sonde_profile *profile,
                                          const struct profile_sample *stored) {
    const void *labels = stored->block + profile->type_count;
    return (struct sonde_sample){.locations = stored->locations,
                                 .location_count = stored->location_count,
                                 .label_count = stored->label_count,
                                 .values = stored->block,
                                 .sampled = stored->sampled,
                                 .labels = labels};
}

struct sonde_sample sonde_profile_sample(const struct sonde_profile *profile, size_t index) {
    if (index >= profile->samples.count)
        return (struct sonde_sample){0};
    return profile_stored_sample(profile, profile_table_item(&profile->samples, (uint32_t)index));
}

const char *sonde_profile_comment(const struct sonde_profile *profile, size_t index) {
    if (index >= profile->comments.count)
        return "";
    const uint32_t *id = profile_table_item(&profile->comments, (uint32_t)index);
    return sonde_profile_text(profile, *id);
}

int64_t sonde_profile_total(const struct sonde_profile *profile, size_t type_index) {
    int64_t total = 0;
    if (type_index >= profile->type_count)
        return 0;
    for (size_t i = 0; i < profile->samples.count; i++)
        total = profile_add(total, sonde_profile_sample(profile, i).values[type_index]);
    return total;
}

const char *sonde_sample_label(const struct sonde_profile *profile,
                               const struct sonde_sample *sample, const char *key) {
    for (uint32_t i = 0; i < sample->label_count; i++) {
        const struct sonde_label *label = &sample->labels[i];
        if (label->str && strcmp(sonde_profile_text(profile, label->key), key) == 0)
            return sonde_profile_text(profile, label->str);
    }
    return "";
}
