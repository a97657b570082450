/* SPDX-License-Identifier: Apache-2.0
 *
 * The index against a model that searches linearly. Each input byte is one operation; the hash is
 * masked to a few bits, so that entries with equal hashes and full runs of slots are common. */
#include "api/hash_index.h"

#include <stdlib.h>
#include <string.h>

#define MAX_KEYS 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct model {
    struct hash_index index;
    uint16_t keys[MAX_KEYS];
    uint32_t count, mask; /* of hashes */
};

static uint32_t hash_of(const struct model *model, uint16_t key) {
    return hash_index_data(&model->index, &key, sizeof key) & model->mask;
}

static uint32_t find_in_index(const struct model *model, uint16_t key) {
    struct hash_probe probe = hash_probe(hash_of(model, key));
    uint32_t number;
    while ((number = hash_index_next(&model->index, &probe)) != HASH_INDEX_NONE) {
        if (number >= model->count)
            abort();
        if (model->keys[number] == key)
            break;
    }
    return number;
}

static uint32_t find_in_model(const struct model *model, uint16_t key) {
    for (uint32_t i = 0; i < model->count; i++)
        if (model->keys[i] == key)
            return i;
    return HASH_INDEX_NONE;
}

static void look_up_and_add(struct model *model, uint16_t key) {
    uint32_t number = find_in_model(model, key);
    if (find_in_index(model, key) != number)
        abort();
    if (number != HASH_INDEX_NONE || model->count == MAX_KEYS)
        return;
    size_t bytes = hash_index_bytes(&model->index) + hash_index_growth(&model->index);
    if (!hash_index_add(&model->index, hash_of(model, key), model->count))
        abort();
    if (hash_index_bytes(&model->index) != bytes)
        abort();
    model->keys[model->count++] = key;
}

static void empty(struct model *model, uint8_t how) {
    if (how == 0)
        hash_index_clear(&model->index);
    else
        hash_index_finish(&model->index);
    model->count = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct model *model = calloc(1, sizeof *model);
    if (!model || size == 0)
        return free(model), 0;
    hash_index_init(&model->index);
    model->mask = UINT32_MAX >> data[0] % 32;
    for (size_t i = 1; i + 1 < size; i += 2) {
        if (data[i] < 250)
            look_up_and_add(model, (uint16_t)(data[i] << 8 | data[i + 1]));
        else if (data[i] < 252)
            empty(model, data[i] - 250);
        else if (!hash_index_reserve(&model->index, data[i + 1] * 8u))
            abort();
    }
    for (uint32_t i = 0; i < model->count; i++)
        if (find_in_index(model, model->keys[i]) != i)
            abort();
    hash_index_finish(&model->index);
    free(model);
    return 0;
}
