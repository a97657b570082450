/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/counting/downsampler.h"

#include <stdlib.h>

#define FIRST_CAPACITY 64u

static uint64_t scramble(uint64_t word) {
    return hash_fold(word ^ 0xa5a3564e27f88a63u, 0xd6e8feb86659fd93u);
}

void downsampler_init(struct downsampler *downsampler, uint64_t period_ns, uint64_t seed) {
    *downsampler = (struct downsampler){.period_ns = period_ns, .random = scramble(seed) | 1};
    hash_index_init(&downsampler->index);
}

void downsampler_finish(struct downsampler *downsampler) {
    free(downsampler->threads);
    hash_index_finish(&downsampler->index);
    downsampler->threads = NULL;
    downsampler->capacity = downsampler->used = 0;
}

static uint64_t random_below(struct downsampler *downsampler, uint64_t bound) {
    downsampler->random ^= downsampler->random << 13;
    downsampler->random ^= downsampler->random >> 7;
    downsampler->random ^= downsampler->random << 17;
    return scramble(downsampler->random) % bound;
}

static struct downsampler_thread *find_thread(const struct downsampler *downsampler, uint32_t hash,
                                              uint32_t tid) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&downsampler->index, &probe)) != HASH_INDEX_NONE)
        if (downsampler->threads[number].tid == tid)
            return &downsampler->threads[number];
    return NULL;
}

static bool has_room(struct downsampler *downsampler) {
    if (downsampler->used < downsampler->capacity)
        return true;
    uint32_t capacity = downsampler->capacity ? downsampler->capacity * 2 : FIRST_CAPACITY;
    struct downsampler_thread *threads =
        capacity <= DOWNSAMPLER_MAX ? realloc(downsampler->threads, capacity * sizeof *threads)
                                    : NULL;
    if (!threads)
        return false;
    downsampler->threads = threads;
    downsampler->capacity = capacity;
    return true;
}

/* NULL when there is no room. */
static struct downsampler_thread *add_thread(struct downsampler *downsampler, uint32_t hash,
                                             uint32_t tid, uint64_t start_ns) {
    if (tid == 0 || !has_room(downsampler) ||
        !hash_index_add(&downsampler->index, hash, downsampler->used))
        return NULL;
    struct downsampler_thread *thread = &downsampler->threads[downsampler->used++];
    *thread = (struct downsampler_thread){.tid = tid, .accumulated_ns = start_ns};
    return thread;
}

uint64_t downsampler_take(struct downsampler *downsampler, uint32_t tid, uint64_t weight_ns) {
    uint32_t hash = hash_index_words(&downsampler->index, tid, 0);
    struct downsampler_thread *thread = find_thread(downsampler, hash, tid);
    struct downsampler_thread unlisted = {0};
    if (!thread) {
        unlisted.accumulated_ns = random_below(downsampler, downsampler->period_ns);
        thread = add_thread(downsampler, hash, tid, unlisted.accumulated_ns);
        thread = thread ? thread : &unlisted;
    }
    thread->accumulated_ns += weight_ns;
    uint64_t n = thread->accumulated_ns / downsampler->period_ns;
    thread->accumulated_ns -= n * downsampler->period_ns;
    return n;
}
