/* SPDX-License-Identifier: Apache-2.0
 *
 * Adding to a profile. Each function checks the ids, looks for an equal item, and otherwise
 * reserves memory and adds the item. Nothing changes before the reservation succeeds, so the
 * profile stays valid on errors. */
#include "api/profile/profile_tables.h"
#include "api/text/utf8.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LINES 1024 /* inlined functions at one address */

/* What samples are compared by. */
struct sample_key {
    const struct sonde_sample *sample;
    const struct sonde_label *labels; /* sorted */
};

static bool equal_text(const void *context, const void *item, const void *key) {
    const struct profile_text *a = item, *b = key;
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

static sonde_err add_text(struct sonde_profile *profile, struct profile_text text, uint32_t *id) {
    uint32_t hash = hash_index_data(&profile->strings.index, text.data, text.len);
    *id = profile_table_find(&profile->strings, hash, equal_text, NULL, &text);
    if (*id != PROFILE_TABLE_NONE)
        return SONDE_OK;
    *id = 0;
    sonde_err err = profile_reserve(profile, &profile->strings, text.len + 1);
    if (err)
        return err;
    char *copy = sonde_arena_dup(&profile->arena, text.data, text.len);
    struct profile_text *item = copy ? profile_table_add(&profile->strings, hash) : NULL;
    if (!item)
        return SONDE_OUT_OF_MEMORY;
    *item = (struct profile_text){copy, text.len};
    *id = profile->strings.count - 1;
    return SONDE_OK;
}

sonde_err sonde_profile_string(struct sonde_profile *profile, const char *text, size_t len,
                               uint32_t *id) {
    if (len == 0)
        text = "";
    if (sonde_utf8_is_clean(text, len))
        return add_text(profile, (struct profile_text){text, len}, id);
    struct sonde_buf clean = {.limit = profile->limit_bytes};
    sonde_utf8_clean(&clean, text, len);
    *id = 0;
    sonde_err err = clean.failed
                        ? SONDE_TOO_LARGE
                        : add_text(profile, (struct profile_text){clean.data, clean.len}, id);
    sonde_buf_finish(&clean);
    return err;
}

static bool has_string(const struct sonde_profile *profile, uint32_t id) {
    return id < profile->strings.count;
}

static bool equal_mapping(const void *context, const void *item, const void *key) {
    const struct sonde_mapping *a = item, *b = key;
    return a->start == b->start && a->limit == b->limit && a->offset == b->offset &&
           a->filename == b->filename && a->build_id == b->build_id &&
           a->has_functions == b->has_functions && a->has_filenames == b->has_filenames &&
           a->has_line_numbers == b->has_line_numbers &&
           a->has_inline_frames == b->has_inline_frames;
}

/* Stores the number of the equal item, or of a new one that is a copy of key. */
static sonde_err intern(struct sonde_profile *profile, struct profile_table *table, uint32_t hash,
                        profile_table_equal *equal, const void *key, uint32_t *id) {
    uint32_t number = profile_table_find(table, hash, equal, profile, key);
    *id = 0;
    if (number == PROFILE_TABLE_NONE) {
        sonde_err err = profile_reserve(profile, table, 0);
        if (err)
            return err;
        void *item = profile_table_add(table, hash);
        if (!item)
            return SONDE_OUT_OF_MEMORY;
        memcpy(item, key, table->item_size);
        number = table->count - 1;
    }
    *id = number + 1;
    return SONDE_OK;
}

sonde_err sonde_profile_add_mapping(struct sonde_profile *profile,
                                    const struct sonde_mapping *mapping, uint32_t *id) {
    if (!has_string(profile, mapping->filename) || !has_string(profile, mapping->build_id))
        return SONDE_INVALID_ARGUMENT;
    uint64_t key[] = {mapping->start, mapping->limit, mapping->offset, mapping->filename};
    uint32_t hash = hash_index_data(&profile->mappings.index, key, sizeof key);
    return intern(profile, &profile->mappings, hash, equal_mapping, mapping, id);
}

static bool equal_function(const void *context, const void *item, const void *key) {
    const struct sonde_function *a = item, *b = key;
    return a->name == b->name && a->system_name == b->system_name && a->filename == b->filename &&
           a->start_line == b->start_line;
}

sonde_err sonde_profile_add_function(struct sonde_profile *profile,
                                     const struct sonde_function *function, uint32_t *id) {
    if (!has_string(profile, function->name) || !has_string(profile, function->system_name) ||
        !has_string(profile, function->filename))
        return SONDE_INVALID_ARGUMENT;
    uint64_t key[] = {function->name, function->system_name, function->filename,
                      (uint64_t)function->start_line};
    uint32_t hash = hash_index_data(&profile->functions.index, key, sizeof key);
    return intern(profile, &profile->functions, hash, equal_function, function, id);
}

static bool equal_location(const void *context, const void *item, const void *key) {
    const struct sonde_location *a = item, *b = key;
    if (a->mapping != b->mapping || a->address != b->address || a->line_count != b->line_count ||
        a->is_folded != b->is_folded || a->kind != b->kind)
        return false;
    for (uint32_t i = 0; i < a->line_count; i++)
        if (a->lines[i].function != b->lines[i].function || a->lines[i].line != b->lines[i].line)
            return false;
    return true;
}

static sonde_err check_location(const struct sonde_profile *profile,
                                const struct sonde_location *location) {
    if (location->mapping > profile->mappings.count)
        return SONDE_INVALID_ARGUMENT;
    if (location->line_count > MAX_LINES)
        return SONDE_TOO_LARGE;
    for (uint32_t i = 0; i < location->line_count; i++)
        if (!sonde_profile_function(profile, location->lines[i].function))
            return SONDE_INVALID_ARGUMENT;
    return SONDE_OK;
}

static uint32_t hash_location(const struct sonde_profile *profile,
                              const struct sonde_location *location) {
    uint64_t key[] = {location->mapping, location->address, location->line_count,
                      location->line_count ? location->lines[0].function : 0,
                      location->line_count ? (uint64_t)location->lines[0].line : 0};
    return hash_index_data(&profile->locations.index, key, sizeof key);
}

/* The lines are only copied for a new location. */
sonde_err sonde_profile_add_location(struct sonde_profile *profile,
                                     const struct sonde_location *location, uint32_t *id) {
    *id = 0;
    sonde_err err = check_location(profile, location);
    if (err)
        return err;
    uint32_t hash = hash_location(profile, location);
    uint32_t number = profile_table_find(&profile->locations, hash, equal_location, NULL, location);
    if (number == PROFILE_TABLE_NONE) {
        size_t bytes = location->line_count * sizeof *location->lines;
        if ((err = profile_reserve(profile, &profile->locations, bytes)))
            return err;
        struct sonde_line *lines = bytes ? sonde_arena_alloc(&profile->arena, bytes) : NULL;
        struct sonde_location *item = NULL;
        if (lines || !bytes)
            item = profile_table_add(&profile->locations, hash);
        if (!item)
            return SONDE_OUT_OF_MEMORY;
        *item = *location;
        item->lines = bytes ? memcpy(lines, location->lines, bytes) : NULL;
        number = profile->locations.count - 1;
    }
    *id = number + 1;
    return SONDE_OK;
}

static bool label_before(const struct sonde_label *a, const struct sonde_label *b) {
    if (a->key != b->key)
        return a->key < b->key;
    if (a->str != b->str)
        return a->str < b->str;
    if (a->num != b->num)
        return a->num < b->num;
    return a->num_unit < b->num_unit;
}

/* Sorts labels, whose order must not distinguish samples. */
static void sort_labels(struct sonde_label *sorted, const struct sonde_label *labels,
                        uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct sonde_label label = labels[i];
        uint32_t at = i;
        for (; at > 0 && label_before(&label, &sorted[at - 1]); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = label;
    }
}

static bool equal_sample(const void *context, const void *item, const void *key) {
    const struct sonde_profile *profile = context;
    const struct profile_sample *stored = item;
    const struct sample_key *wanted = key;
    const struct sonde_sample *sample = wanted->sample;
    if (stored->location_count != sample->location_count ||
        stored->label_count != sample->label_count)
        return false;
    const struct sonde_label *labels = (const void *)(stored->block + profile->type_count);
    for (uint32_t i = 0; i < stored->label_count; i++)
        if (label_before(&labels[i], &wanted->labels[i]) ||
            label_before(&wanted->labels[i], &labels[i]))
            return false;
    return stored->location_count == 0 ||
           memcmp(stored->locations, sample->locations,
                  stored->location_count * sizeof *sample->locations) == 0;
}

static sonde_err check_sample(const struct sonde_profile *profile,
                              const struct sonde_sample *sample) {
    if (sample->location_count > SONDE_PROFILE_MAX_DEPTH ||
        sample->label_count > SONDE_PROFILE_MAX_LABELS)
        return SONDE_TOO_LARGE;
    uint32_t known = profile->locations.count, unknown = 0;
    const uint32_t *end = sample->locations + sample->location_count;
    for (const uint32_t *id = sample->locations; id < end; id++)
        unknown |= *id - 1 >= known; /* 0 wraps and is unknown, too */
    for (uint32_t i = 0; i < sample->label_count; i++)
        unknown |= !has_string(profile, sample->labels[i].key) ||
                   !has_string(profile, sample->labels[i].str) ||
                   !has_string(profile, sample->labels[i].num_unit);
    return unknown ? SONDE_INVALID_ARGUMENT : SONDE_OK;
}

static uint32_t hash_sample(const struct sonde_profile *profile, const struct sample_key *key) {
    const struct hash_index *index = &profile->samples.index;
    uint32_t labels = 0;
    for (uint32_t i = 0; i < key->sample->label_count; i++) {
        const struct sonde_label *label = &key->labels[i];
        uint64_t words[] = {label->key, label->str, (uint64_t)label->num, label->num_unit};
        labels = hash_index_words(index, labels, hash_index_data(index, words, sizeof words));
    }
    size_t bytes = key->sample->location_count * sizeof *key->sample->locations;
    uint32_t stack = hash_index_data(index, key->sample->locations, bytes);
    return labels ? hash_index_words(index, labels, stack) : stack;
}

static uint32_t hash_stored(const void *context, const void *item) {
    const struct sonde_profile *profile = context;
    struct sonde_sample sample = profile_stored_sample(profile, item);
    return hash_sample(profile, &(struct sample_key){&sample, sample.labels});
}

/* Size of the values and labels. */
static size_t block_size(const struct sonde_profile *profile, const struct sonde_sample *sample) {
    return profile->type_count * sizeof(int64_t) + sample->label_count * sizeof *sample->labels;
}

/* Copies values and labels to block. The locations are borrowed. */
static void fill_sample(struct sonde_profile *profile, struct profile_sample *item, char *block,
                        const struct sample_key *key) {
    const struct sonde_sample *sample = key->sample;
    size_t values = profile->type_count * sizeof(int64_t);
    memcpy(block, sample->values, values);
    if (sample->label_count)
        memcpy(block + values, key->labels, sample->label_count * sizeof *sample->labels);
    *item = (struct profile_sample){.block = (int64_t *)(void *)block,
                                    .locations = sample->locations,
                                    .sampled = sample->sampled,
                                    .location_count = sample->location_count,
                                    .label_count = sample->label_count};
}

static sonde_err add_new_sample(struct sonde_profile *profile, uint32_t hash,
                                const struct sample_key *key) {
    size_t fixed = block_size(profile, key->sample);
    size_t stack = key->sample->location_count * sizeof *key->sample->locations;
    sonde_err err = profile_reserve(profile, &profile->samples, fixed + stack);
    if (err)
        return err;
    char *block = sonde_arena_alloc(&profile->arena, fixed + stack);
    struct profile_sample *item = block ? profile_table_add(&profile->samples, hash) : NULL;
    if (!item)
        return SONDE_OUT_OF_MEMORY;
    fill_sample(profile, item, block, key);
    item->locations = (const uint32_t *)(const void *)(block + fixed);
    if (stack)
        memcpy(block + fixed, key->sample->locations, stack);
    return SONDE_OK;
}

sonde_err sonde_profile_add_sample(struct sonde_profile *profile,
                                   const struct sonde_sample *sample) {
    uint32_t index;
    return sonde_profile_add_sample_at(profile, sample, &index);
}

sonde_err sonde_profile_add_sample_at(struct sonde_profile *profile,
                                      const struct sonde_sample *sample, uint32_t *index) {
    sonde_err err = check_sample(profile, sample);
    if (err)
        return err;
    struct sonde_label sorted[SONDE_PROFILE_MAX_LABELS];
    sort_labels(sorted, sample->labels, sample->label_count);
    struct sample_key key = {sample, sorted};
    uint32_t hash = hash_sample(profile, &key);
    if (!profile_table_index(&profile->samples, hash_stored, profile))
        return SONDE_OUT_OF_MEMORY;
    uint32_t number = profile_table_find(&profile->samples, hash, equal_sample, profile, &key);
    *index = number == PROFILE_TABLE_NONE ? profile->samples.count : number;
    if (number == PROFILE_TABLE_NONE)
        return add_new_sample(profile, hash, &key);
    struct profile_sample *stored = profile_table_item(&profile->samples, number);
    if (__builtin_add_overflow(stored->sampled, sample->sampled, &stored->sampled))
        stored->sampled = UINT64_MAX;
    for (size_t i = 0; i < profile->type_count; i++)
        stored->block[i] = profile_add(stored->block[i], sample->values[i]);
    return SONDE_OK;
}

sonde_err sonde_profile_adopt(struct sonde_profile *profile, void *memory, size_t bytes) {
    if (profile_reserve(profile, &profile->samples, bytes) != SONDE_OK)
        return SONDE_TOO_LARGE;
    size_t count = profile->adopted_count;
    void **adopted = realloc(profile->adopted, (count + 1) * sizeof *adopted);
    if (!adopted)
        return SONDE_OUT_OF_MEMORY;
    adopted[count] = memory;
    profile->adopted = adopted;
    profile->adopted_count = count + 1;
    profile->adopted_bytes += bytes;
    return SONDE_OK;
}

sonde_err sonde_profile_append_sample(struct sonde_profile *profile,
                                      const struct sonde_sample *sample) {
    size_t bytes = block_size(profile, sample);
    sonde_err err = check_sample(profile, sample);
    if (!err)
        err = profile_reserve(profile, &profile->samples, bytes);
    if (err)
        return err;
    struct sonde_label sorted[SONDE_PROFILE_MAX_LABELS];
    sort_labels(sorted, sample->labels, sample->label_count);
    char *block = sonde_arena_alloc(&profile->arena, bytes);
    struct profile_sample *item = block ? profile_table_append(&profile->samples) : NULL;
    if (!item)
        return SONDE_OUT_OF_MEMORY;
    fill_sample(profile, item, block, &(struct sample_key){sample, sorted});
    return SONDE_OK;
}

sonde_err sonde_profile_expect_samples(struct sonde_profile *profile, uint32_t count) {
    size_t bytes = count * profile->samples.item_size;
    if (profile_reserve(profile, &profile->samples, bytes) != SONDE_OK)
        return SONDE_TOO_LARGE;
    return profile_table_expect(&profile->samples, count) ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

sonde_err sonde_profile_add_comment(struct sonde_profile *profile, const char *text) {
    uint32_t id;
    sonde_err err = sonde_profile_string(profile, text, strlen(text), &id);
    if (!err)
        err = profile_reserve(profile, &profile->comments, 0);
    if (err)
        return err;
    uint32_t *item = profile_table_append(&profile->comments);
    if (!item)
        return SONDE_OUT_OF_MEMORY;
    *item = id;
    return SONDE_OK;
}
