/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler's memory: the table shared with sonded (alloc_table.h), and an index of the guest's
 * own that maps a block's address to its entry. A small filter in front of the index lets the free
 * of a block that was not sampled cost one load.
 *
 *     free(p) ── filter[p] == 0 ──▶ not sampled
 *                   └─▶ two buckets of 8 slots, one cache line each ──▶ entry
 *
 * A slot holds an address and an entry's number in one word. A block can be in any slot of its two
 * front buckets. The front's 64 KiB stay in the CPU's cache and hold 4 GB of live heap at a mean of
 * 512 KiB. A block that finds no free slot there has two more buckets in the large back, whose
 * pages are not touched before.
 *
 * There are no locks: a block is added before the allocation returns and removed before the real
 * free, so only one thread at a time handles an address. When all buckets are full, the block is
 * dropped and counted.
 *
 * The kernel zeroes index and filter in the child of a fork (MADV_WIPEONFORK). Functions are
 * signal-safe, except where they say control thread. */
#ifndef SONDE_SERVICE_GUEST_HEAP_SAMPLE_TABLE_H
#define SONDE_SERVICE_GUEST_HEAP_SAMPLE_TABLE_H

#include "service/guest/heap/alloc_table.h"

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(hidden)

#define SAMPLE_TABLE_FILTER 65536u
#define SAMPLE_TABLE_FRONT  8192u
#define SAMPLE_TABLE_BACK   (1u << 21)
/* The smallest table is 1/32 of the full one: 6 MiB, 32768 live samples, 4 MiB of stacks. */
#define SAMPLE_TABLE_MAX_SHIFT 5u

struct sample {
    uint64_t size, objects, time_ns; /* objects: bits of a double */
    uint32_t stack, tid;
};

/* How many indexed blocks share a byte; 255 stays, since more cannot be counted. */
extern _Atomic uint8_t sample_table_filter[SAMPLE_TABLE_FILTER];

/* Neighbouring blocks have neighbouring bytes, so the filter is cached where the program works. */
static inline uint32_t sample_table_filter_index(const void *block) {
    uint64_t address = (uint64_t)block;
    return (uint32_t)((address >> 4 ^ address >> 20) % SAMPLE_TABLE_FILTER);
}

/* Returns false if the block is not in the index. */
static inline bool sample_table_may_hold(const void *block) {
    return __builtin_expect(
        atomic_load_explicit(&sample_table_filter[sample_table_filter_index(block)],
                             memory_order_relaxed) != 0,
        0);
}

/* Allocates the memory unless it is there; 0 or an errno. The full table takes 194 MiB of address
 * space. Under RLIMIT_AS or RLIMIT_DATA it is halved until it takes at most a sixteenth of what is
 * free; ENOMEM if the smallest takes more. Control thread only. */
int sample_table_open(void);
bool sample_table_is_open(void);
/* The sealed memfd for sonded, borrowed; -1 = none, or the application has closed it. Control
 * thread only. */
int sample_table_fd(void);
/* Removes everything. Control thread only, and only after sampler_is_quiescent. */
void sample_table_empty(void);
/* Removes everything and frees the memory. Control thread only, and only after
 * sampler_is_quiescent. */
void sample_table_close(void);
/* Removes all live blocks and keeps the stacks' totals. Control thread only. */
void sample_table_forget_live(void);
/* In the child of a fork: forgets the memory, which is not mapped there. */
void sample_table_after_fork(void);

/* Finds or adds a stack: its offset / 8, or 0 when there is no room, which is counted. */
uint32_t sample_table_stack(const uint64_t *pcs, uint32_t depth, const struct alloc_place *place);
/* Adds an estimate to the stack's totals. */
void sample_table_count(uint32_t stack, double objects, double bytes);
/* Adds a live block. When there is no room, that is counted. */
void sample_table_put(const void *block, const struct sample *sample);
/* Removes a live block and returns what was noted; false when it is not in the index. */
bool sample_table_take(const void *block, struct sample *sample);
void sample_table_drop(enum alloc_drop cause);

#pragma GCC visibility pop

#endif
