/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/sums.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix_text(const struct hash_index *index, uint64_t key,
                         const struct sonde_profile *profile, uint32_t string) {
    const char *text = sonde_profile_text(profile, string);
    return hash_index_mix(index, key, hash_index_data(index, text, strlen(text)));
}

static uint64_t key_of(const struct hash_index *index, const struct sonde_profile *profile,
                       const struct sonde_sample *sample) {
    uint64_t key = sample->location_count;
    for (uint32_t i = 0; i < sample->location_count; i++) {
        const struct sonde_location *location =
            sonde_profile_location(profile, sample->locations[i]);
        key = hash_index_mix(index, key, location->address);
        if (location->address == 0 && location->line_count)
            key = mix_text(index, key, profile,
                           sonde_profile_function(profile, location->lines[0].function)->name);
    }
    for (uint32_t i = 0; i < sample->label_count; i++) {
        const struct sonde_label *label = &sample->labels[i];
        key = mix_text(index, key, profile, label->key);
        key =
            mix_text(index, hash_index_mix(index, key, (uint64_t)label->num), profile, label->str);
    }
    return key;
}

static uint32_t find(const struct sonde_profile_sums *sums, uint64_t key) {
    struct hash_probe probe = hash_probe(hash_index_words(&sums->index, key, 0));
    uint32_t number;
    while ((number = hash_index_next(&sums->index, &probe)) != HASH_INDEX_NONE)
        if (sums->keys[number] == key)
            return number;
    return HASH_INDEX_NONE;
}

/* The caller has made room. */
static void add(struct sonde_profile_sums *sums, uint64_t key, const struct sonde_sample *sample,
                const size_t *types) {
    uint32_t number = find(sums, key);
    if (number == HASH_INDEX_NONE) {
        number = sums->count++;
        sums->keys[number] = key;
        (void)hash_index_add(&sums->index, hash_index_words(&sums->index, key, 0), number);
    }
    int64_t *values = &sums->values[number * sums->type_count];
    for (size_t i = 0; i < sums->type_count; i++)
        if (__builtin_add_overflow(values[i], sample->values[types[i]], &values[i]))
            values[i] = INT64_MAX;
}

sonde_err sonde_profile_sums_take(struct sonde_profile_sums *sums,
                                  const struct sonde_profile *profile, const size_t *types,
                                  size_t type_count) {
    size_t count = sonde_profile_sample_count(profile);
    sonde_profile_sums_finish(sums);
    hash_index_init(&sums->index);
    sums->type_count = type_count;
    sums->keys = calloc(count + 1, sizeof *sums->keys);
    sums->values = calloc((count + 1) * type_count, sizeof *sums->values);
    if (!sums->keys || !sums->values || !hash_index_reserve(&sums->index, (uint32_t)count)) {
        sonde_profile_sums_finish(sums);
        return SONDE_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        add(sums, key_of(&sums->index, profile, &sample), &sample, types);
    }
    return SONDE_OK;
}

void sonde_profile_sums_finish(struct sonde_profile_sums *sums) {
    hash_index_finish(&sums->index);
    free(sums->keys);
    free(sums->values);
    *sums = (struct sonde_profile_sums){0};
}

const int64_t *sonde_profile_sums_find(const struct sonde_profile_sums *sums,
                                       const struct sonde_profile *profile,
                                       const struct sonde_sample *sample) {
    uint32_t number = find(sums, key_of(&sums->index, profile, sample));
    return number == HASH_INDEX_NONE ? NULL : &sums->values[number * sums->type_count];
}
