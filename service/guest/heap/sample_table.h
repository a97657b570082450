/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler's memory: what is shared with sonded (alloc_table.h), and the guest's own index from
 * a block's address to its entry, with a small filter in front of it, so that a free of a block
 * that was not sampled costs one load.
 *
 *     free(p) ── filter[p] == 0 ──▶ nothing of ours
 *                   └─▶ two buckets of 8 slots, one line each ──▶ entry
 *
 * A slot is address and entry number in one word; a block can stand in any slot of its two buckets.
 * They are in the front, 64 KiB that stay in the cache and hold 4 GB of live heap at a mean of 512
 * KiB; what finds no room there has two in the large part behind it, whose pages are not touched
 * before. Nothing is locked, and nothing waits: a block is put in before the allocation returns and
 * taken out before the real free, so one thread at a time has to do with an address. A full bucket
 * is a counted drop.
 *
 * Index and filter are gone (zero) in the child of a fork, by the kernel's hand. Thread and signal
 * safety: signal-safe, but for what says control thread. */
#ifndef SONDE_SERVICE_GUEST_HEAP_SAMPLE_TABLE_H
#define SONDE_SERVICE_GUEST_HEAP_SAMPLE_TABLE_H

#include "service/guest/heap/alloc_table.h"

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(hidden)

#define SAMPLES_FILTER 65536u
#define SAMPLES_FRONT  8192u
#define SAMPLES_SLOTS  (1u << 21)

struct sample {
    uint64_t size, objects, time_ns; /* objects: bits of a double */
    uint32_t stack, tid;
};

/* How many blocks of the index share a byte; 255 = too many to count, for ever. */
extern _Atomic uint8_t samples_filter[SAMPLES_FILTER];

/* Neighbours stay neighbours, so that the filter is in the cache where the program is. */
static inline uint32_t samples_place(const void *block) {
    uint64_t address = (uint64_t)block;
    return (uint32_t)((address >> 4 ^ address >> 20) % SAMPLES_FILTER);
}

static inline bool samples_may_hold(const void *block) {
    return __builtin_expect(
        atomic_load_explicit(&samples_filter[samples_place(block)], memory_order_relaxed) != 0, 0);
}

/* Control thread. Makes the memory when there is none; 0 or an errno. */
int samples_open(void);
bool samples_is_open(void);
/* The memfd for sonded, sealed; -1 = none, or somebody closed it. */
int samples_fd(void);
/* Control thread; only when nobody is inside the sampler: everything empty. */
void samples_empty(void);
/* Control thread; as samples_empty, and the memory is given back. */
void samples_close(void);
/* Control thread. Forgets all live blocks, and nothing else. */
void samples_forget_live(void);
/* In the child of a fork. */
void samples_after_fork(void);

/* The stack's place, 0 when there is no room: counted. */
uint32_t samples_stack(const uint64_t *pcs, uint32_t depth);
/* Adds an estimate to the stack's totals. */
void samples_count(uint32_t stack, double objects, double bytes);
/* Puts a block in; where there is no room it is counted. */
void samples_put(const void *block, const struct sample *sample);
/* Takes it out; false when it is not there. */
bool samples_take(const void *block, struct sample *sample);
void samples_drop(enum alloc_drop cause);

#pragma GCC visibility pop

#endif
