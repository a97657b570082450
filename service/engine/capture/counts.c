/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/capture/counts.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t hash) {
    hash ^= hash >> 32;
    hash *= 0xd6e8feb86659fd93ull;
    hash ^= hash >> 32;
    hash *= 0xd6e8feb86659fd93ull;
    return hash ^ hash >> 32;
}

static struct count_entry *find(const struct counts *counts, const struct count_key *key) {
    uint64_t at =
        mix(key->request + mix(key->stack + mix(((uint64_t)key->thread << 32) | key->label)));
    for (;; at++) {
        struct count_entry *entry = &counts->slots[at & (counts->capacity - 1)];
        if (entry->count == 0 ||
            (entry->key.stack == key->stack && entry->key.thread == key->thread &&
             entry->key.label == key->label && entry->key.request == key->request))
            return entry;
    }
}

static sonde_err grow(struct counts *counts) {
    struct counts grown = {.capacity = counts->capacity ? counts->capacity * 2 : 256};
    grown.slots = calloc(grown.capacity, sizeof *grown.slots);
    if (!grown.slots)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < counts->capacity; i++) {
        if (counts->slots[i].count != 0)
            *find(&grown, &counts->slots[i].key) = counts->slots[i];
    }
    free(counts->slots);
    counts->slots = grown.slots;
    counts->capacity = grown.capacity;
    return SONDE_OK;
}

sonde_err counts_add(struct counts *counts, const struct count_key *key, uint64_t n) {
    if (n == 0)
        return SONDE_OK;
    if (n > COUNTS_MAX_TOTAL - counts->total)
        return SONDE_TOO_LARGE;
    if (counts->used >= counts->capacity / 4 * 3) {
        sonde_err err = grow(counts);
        if (err)
            return err;
    }
    struct count_key kept = *key;
    struct count_entry *entry = find(counts, &kept);
    if (entry->count == 0 && counts->used >= COUNTS_MAX_REQUESTS && kept.request != 0) {
        kept.request = 0; /* rather the label than the sample */
        entry = find(counts, &kept);
    }
    if (entry->count == 0) {
        if (counts->used >= COUNTS_MAX)
            return SONDE_TOO_LARGE;
        entry->key = kept;
        counts->used++;
    }
    entry->count += n;
    counts->total += n;
    return SONDE_OK;
}

void counts_finish(struct counts *counts) {
    free(counts->slots);
    memset(counts, 0, sizeof *counts);
}

void thinner_init(struct thinner *thinner, uint64_t period_ns, uint64_t seed) {
    *thinner = (struct thinner){.period_ns = period_ns, .random = mix(seed) | 1};
}

void thinner_finish(struct thinner *thinner) {
    free(thinner->slots);
    thinner->slots = NULL;
    thinner->capacity = thinner->used = 0;
}

static uint64_t random_below(struct thinner *thinner, uint64_t bound) {
    thinner->random ^= thinner->random << 13;
    thinner->random ^= thinner->random >> 7;
    thinner->random ^= thinner->random << 17;
    return mix(thinner->random) % bound;
}

static struct thinner_slot *slot_of(const struct thinner *thinner, uint32_t tid) {
    for (uint64_t at = mix(tid);; at++) {
        struct thinner_slot *slot = &thinner->slots[at & (thinner->capacity - 1)];
        if (slot->tid == 0 || slot->tid == tid)
            return slot;
    }
}

static bool thinner_grow(struct thinner *thinner) {
    struct thinner grown = {.capacity = thinner->capacity ? thinner->capacity * 2 : 64};
    if (grown.capacity > 2 * THINNER_MAX)
        return false;
    grown.slots = calloc(grown.capacity, sizeof *grown.slots);
    if (!grown.slots)
        return false;
    for (uint32_t i = 0; i < thinner->capacity; i++) {
        if (thinner->slots[i].tid != 0)
            *slot_of(&grown, thinner->slots[i].tid) = thinner->slots[i];
    }
    free(thinner->slots);
    thinner->slots = grown.slots;
    thinner->capacity = grown.capacity;
    return true;
}

uint64_t thinner_take(struct thinner *thinner, uint32_t tid, uint64_t weight_ns) {
    bool has_room = thinner->used < thinner->capacity / 4 * 3 || thinner_grow(thinner);
    struct thinner_slot *slot = thinner->capacity ? slot_of(thinner, tid) : NULL;
    uint64_t lot = 0;
    uint64_t *gathered_ns = &lot;
    if (slot && tid != 0 && slot->tid == tid) {
        gathered_ns = &slot->gathered_ns;
    } else {
        lot = random_below(thinner, thinner->period_ns);
        if (slot && tid != 0 && has_room) {
            *slot = (struct thinner_slot){.tid = tid, .gathered_ns = lot};
            thinner->used++;
            gathered_ns = &slot->gathered_ns;
        }
    }
    *gathered_ns += weight_ns;
    uint64_t n = *gathered_ns / thinner->period_ns;
    *gathered_ns -= n * thinner->period_ns;
    return n;
}
