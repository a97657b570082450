/* SPDX-License-Identifier: Apache-2.0 */
#include "service/watch/slots.h"

#include "api/base/array.h"

#include <stdlib.h>
#include <string.h>

#define BATCH      8192 /* stacks that are asked for at once */
#define FNV_OFFSET 0xcbf29ce484222325u
#define FNV_PRIME  0x100000001b3u

/* ---- Names ---- */

/* FNV-1a. Two functions with one hash would count as one. */
static uint64_t hash_more(uint64_t hash, const char *text) {
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * FNV_PRIME;
    return hash;
}

uint64_t slots_hash(const char *name) {
    return hash_more(FNV_OFFSET, name);
}

uint64_t slots_hash_module(const char *path) {
    const char *slash = strrchr(path, '/');
    return hash_more(hash_more(FNV_OFFSET, "\x01"), slash ? slash + 1 : path);
}

static uint64_t hash_frame(const struct store_frame *frame) {
    return frame->line_count ? slots_hash(frame->lines[0].function)
                             : slots_hash_module(frame->module);
}

/* ---- Memory ---- */

struct slots *slots_create(const char *service) {
    struct slots *slots = calloc(1, sizeof *slots);
    if (!slots)
        return NULL;
    hash_index_init(&slots->leaf_index);
    hash_index_init(&slots->stack_index);
    slots->last = SLOTS_UNKNOWN_NUMBER;
    slots->service = strdup(service);
    if (slots->service)
        return slots;
    slots_destroy(slots);
    return NULL;
}

void slots_destroy(struct slots *slots) {
    if (!slots)
        return;
    hash_index_finish(&slots->leaf_index);
    hash_index_finish(&slots->stack_index);
    free(slots->service);
    free(slots->names);
    free(slots->values);
    free(slots->leaves);
    free(slots->stacks);
    free(slots);
}

void slots_forget_stacks(struct slots *slots) {
    hash_index_finish(&slots->leaf_index);
    hash_index_finish(&slots->stack_index);
    free(slots->leaves);
    free(slots->stacks);
    slots->leaves = NULL;
    slots->stacks = NULL;
    slots->leaf_count = slots->leaf_capacity = 0;
    slots->stack_count = slots->stack_capacity = 0;
}

/* ---- Stacks ---- */

static uint32_t series_of(const struct slots *slots, uint64_t name) {
    for (uint32_t i = 0; i < slots->series_count; i++)
        if (slots->names[i] == name)
            return i;
    return HASH_INDEX_NONE;
}

static struct slots_leaf *leaf_of(struct slots *slots, uint64_t name) {
    uint32_t hash = hash_index_words(&slots->leaf_index, name, 0), number;
    struct hash_probe probe = hash_probe(hash);
    while ((number = hash_index_next(&slots->leaf_index, &probe)) != HASH_INDEX_NONE)
        if (slots->leaves[number].name == name)
            return &slots->leaves[number];
    if (!array_room(&slots->leaves, &slots->leaf_capacity, slots->leaf_count, 1) ||
        !hash_index_add(&slots->leaf_index, hash, slots->leaf_count))
        return NULL;
    slots->leaves[slots->leaf_count] = (struct slots_leaf){name, series_of(slots, name), 0};
    return &slots->leaves[slots->leaf_count++];
}

static const struct slots_stack *find_stack(const struct slots *slots, uint64_t id) {
    uint32_t hash = hash_index_words(&slots->stack_index, id, 0), number;
    struct hash_probe probe = hash_probe(hash);
    while ((number = hash_index_next(&slots->stack_index, &probe)) != HASH_INDEX_NONE)
        if (slots->stacks[number].id == id)
            return &slots->stacks[number];
    return NULL;
}

static sonde_err add_stack(struct slots *slots, uint64_t id, uint64_t name) {
    uint32_t hash = hash_index_words(&slots->stack_index, id, 0);
    struct slots_leaf *leaf = leaf_of(slots, name);
    if (!leaf || !array_room(&slots->stacks, &slots->stack_capacity, slots->stack_count, 1) ||
        !hash_index_add(&slots->stack_index, hash, slots->stack_count))
        return SONDE_OUT_OF_MEMORY;
    slots->stacks[slots->stack_count++] =
        (struct slots_stack){id, (uint32_t)(leaf - slots->leaves)};
    return SONDE_OK;
}

static int compare_ids(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static int compare_frames(const void *a, const void *b) {
    return compare_ids(&((const struct store_frame *)a)->id, &((const struct store_frame *)b)->id);
}

/* What one reading of a slot shares. */
struct reading {
    struct slots *slots;
    struct store *store;
    const struct store_stop *stop;
    struct sonde_arena arena;
    struct sonde_diag *diag;
};

/* Stacks whose frames the store does not have count as one function. */
static sonde_err add_stacks(struct reading *reading, const uint64_t *ids, size_t count) {
    struct store_stack *stacks = NULL;
    struct store_frame *frames = NULL;
    size_t stack_count = 0, frame_count = 0;
    const struct store_ops *ops = reading->store->ops;
    sonde_err err = ops->stacks(reading->store, reading->slots->service, ids, count, reading->stop,
                                &reading->arena, &stacks, &stack_count, reading->diag);
    uint64_t *leaves = sonde_arena_alloc(&reading->arena, (stack_count + 1) * sizeof *leaves);
    if (err || !leaves)
        return err ? err : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < stack_count; i++)
        leaves[i] = stacks[i].frame_count ? stacks[i].frames[0] : 0;
    err = ops->frames(reading->store, leaves, stack_count, reading->stop, &reading->arena, &frames,
                      &frame_count, reading->diag);
    if (!err && frame_count)
        qsort(frames, frame_count, sizeof *frames, compare_frames);
    for (size_t i = 0; i < stack_count && !err; i++) {
        const struct store_frame key = {.id = leaves[i]};
        const struct store_frame *frame =
            frame_count ? bsearch(&key, frames, frame_count, sizeof *frames, compare_frames) : NULL;
        if (!find_stack(reading->slots, stacks[i].id))
            err = add_stack(reading->slots, stacks[i].id,
                            frame ? hash_frame(frame) : slots_hash_module(""));
    }
    return err;
}

static sonde_err learn_stacks(struct reading *reading, const struct store_merge *merge) {
    struct slots *slots = reading->slots;
    sonde_err err = SONDE_OK;
    if (slots->stack_count + merge->row_count > SLOTS_MAX_STACKS)
        slots_forget_stacks(slots);
    uint64_t *ids = sonde_arena_alloc(&reading->arena, BATCH * sizeof *ids);
    size_t count = 0;
    if (!ids)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < merge->row_count && !err; i++) {
        if (find_stack(slots, merge->rows[i].stack))
            continue;
        ids[count++] = merge->rows[i].stack;
        if (count < BATCH)
            continue;
        err = add_stacks(reading, ids, count);
        count = 0;
    }
    return err || count == 0 ? err : add_stacks(reading, ids, count);
}

/* ---- Values ---- */

static double sum_rows(struct slots *slots, const struct store_merge *merge) {
    double whole = 0;
    for (uint32_t i = 0; i < slots->leaf_count; i++)
        slots->leaves[i].sum = 0;
    for (size_t i = 0; i < merge->row_count; i++) {
        const struct slots_stack *stack = find_stack(slots, merge->rows[i].stack);
        whole += (double)merge->rows[i].value;
        if (stack)
            slots->leaves[stack->leaf].sum += (double)merge->rows[i].value;
    }
    return whole;
}

/* Moves everything by some slots towards the past. */
static void shift(struct slots *slots, int64_t number) {
    int64_t passed = slots->last == SLOTS_UNKNOWN_NUMBER ? LEVEL_SLOTS : number - slots->last;
    size_t by = passed < LEVEL_SLOTS ? (size_t)passed : LEVEL_SLOTS, rest = LEVEL_SLOTS - by;
    memmove(slots->wholes, slots->wholes + by, rest * sizeof slots->wholes[0]);
    memmove(slots->weights, slots->weights + by, rest * sizeof slots->weights[0]);
    memset(slots->wholes + rest, 0, by * sizeof slots->wholes[0]);
    memset(slots->weights + rest, 0, by * sizeof slots->weights[0]);
    for (uint32_t i = 0; i < slots->series_count; i++) {
        float *values = &slots->values[i * LEVEL_SLOTS];
        memmove(values, values + by, rest * sizeof *values);
        memset(values + rest, 0, by * sizeof *values);
    }
    slots->last = number;
}

static bool is_small(const struct slots *slots, uint32_t series) {
    for (size_t i = 0; i < LEVEL_SLOTS; i++)
        if (slots->values[series * LEVEL_SLOTS + i] > SLOTS_LEAST_SHARE * slots->wholes[i])
            return false;
    return true;
}

/* Removes the functions that were small in all slots. */
static void prune(struct slots *slots) {
    for (uint32_t i = 0; i < slots->leaf_count; i++)
        slots->leaves[i].series = HASH_INDEX_NONE;
    for (uint32_t i = 0; i < slots->series_count;) {
        if (!is_small(slots, i)) {
            i++;
            continue;
        }
        uint32_t last = --slots->series_count;
        slots->names[i] = slots->names[last];
        memmove(&slots->values[i * LEVEL_SLOTS], &slots->values[last * LEVEL_SLOTS],
                LEVEL_SLOTS * sizeof *slots->values);
    }
    for (uint32_t i = 0; i < slots->series_count; i++) {
        struct slots_leaf *leaf = leaf_of(slots, slots->names[i]);
        if (leaf)
            leaf->series = i;
    }
}

static sonde_err add_series(struct slots *slots, struct slots_leaf *leaf) {
    uint32_t count = slots->series_count;
    if (count == SLOTS_MAX_FUNCTIONS)
        return SONDE_OK;
    if (!array_room(&slots->names, &slots->series_capacity, count, 1) ||
        !array_room(&slots->values, &slots->value_capacity, count * LEVEL_SLOTS, LEVEL_SLOTS))
        return SONDE_OUT_OF_MEMORY;
    slots->names[count] = leaf->name;
    memset(&slots->values[count * LEVEL_SLOTS], 0, LEVEL_SLOTS * sizeof *slots->values);
    leaf->series = slots->series_count++;
    return SONDE_OK;
}

static sonde_err set_values(struct slots *slots, double whole) {
    sonde_err err = SONDE_OK;
    for (uint32_t i = 0; i < slots->leaf_count && !err; i++) {
        struct slots_leaf *leaf = &slots->leaves[i];
        if (leaf->series == HASH_INDEX_NONE && leaf->sum > SLOTS_LEAST_SHARE * whole)
            err = add_series(slots, leaf);
        if (leaf->series != HASH_INDEX_NONE)
            slots->values[leaf->series * LEVEL_SLOTS + LEVEL_SLOTS - 1] = (float)leaf->sum;
    }
    return err;
}

sonde_err slots_read(struct slots *slots, struct store *store, int64_t number,
                     const struct store_stop *stop, struct sonde_diag *diag) {
    struct reading reading = {.slots = slots, .store = store, .stop = stop, .diag = diag};
    const struct store_query query = {.service = slots->service,
                                      .event = SLOTS_EVENT,
                                      .from_unix_s = number * LEVEL_SLOT_S,
                                      .until_unix_s = (number + 1) * LEVEL_SLOT_S,
                                      .stop = stop};
    struct store_merge merge;
    sonde_err err = store->ops->merge(store, &query, &reading.arena, &merge, diag);
    if (!err)
        err = learn_stacks(&reading, &merge);
    if (!err) {
        double whole = sum_rows(slots, &merge);
        shift(slots, number);
        slots->wholes[LEVEL_SLOTS - 1] = whole;
        slots->weights[LEVEL_SLOTS - 1] = merge.samples ? whole / (double)merge.samples : 0;
        err = set_values(slots, whole);
        prune(slots);
    }
    sonde_arena_finish(&reading.arena);
    return err;
}

sonde_err slots_find(const struct slots *slots, struct level_result *result) {
    const struct level_input input = {LEVEL_SLOTS, slots->wholes, slots->weights,
                                      slots->series_count, slots->values};
    return level_find(&input, result);
}

sonde_err slots_stacks_of(const struct slots *slots, size_t function, uint64_t **stacks,
                          size_t *count) {
    *count = 0;
    *stacks = malloc((slots->stack_count + 1) * sizeof **stacks);
    if (!*stacks)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < slots->stack_count; i++)
        if (slots->leaves[slots->stacks[i].leaf].series == function)
            (*stacks)[(*count)++] = slots->stacks[i].id;
    qsort(*stacks, *count, sizeof **stacks, compare_ids);
    return SONDE_OK;
}
