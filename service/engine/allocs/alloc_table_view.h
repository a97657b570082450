/* SPDX-License-Identifier: Apache-2.0
 *
 * What the guest's own sampler has seen, read out of its memory (service/guest/heap/alloc_table.h)
 * while the guest goes on: nobody is asked, and nobody waits. The memory is hostile and may change
 * at any moment: every number is taken out once, and checked before it is used. Thread safety: any
 * thread; sums belong to one. */
#ifndef SONDE_SERVICE_ENGINE_ALLOCS_ALLOC_TABLE_VIEW_H
#define SONDE_SERVICE_ENGINE_ALLOCS_ALLOC_TABLE_VIEW_H

#include "api/error.h"
#include "service/guest/heap/alloc_table.h"

#include <stdbool.h>
#include <stddef.h>

struct alloc_view;

/* One stack, by its number. Objects and bytes are estimates of the whole. */
struct alloc_sum {
    uint32_t place;   /* 0 = no such stack */
    uint64_t samples; /* taken here, those freed since included */
    double objects, bytes;
    uint64_t live_samples;
    double live_objects, live_bytes;
};

struct alloc_sums {
    struct alloc_sum *items;
    uint32_t count;
    uint64_t samples, dropped; /* of the whole table */
};

/* fd: a memfd of the guest's; borrowed. SONDE_PROTOCOL when it is not such a table. */
SONDE_MUST_USE sonde_err alloc_view_open(int fd, uint32_t number, struct alloc_view **view);
/* Over memory of ALLOC_BYTES that outlives it, for fuzzers. NULL when out of memory. */
struct alloc_view *alloc_view_over(const void *memory);
struct alloc_view *alloc_view_retain(struct alloc_view *view);
void alloc_view_release(struct alloc_view *view);          /* NULL is fine */
uint32_t alloc_view_number(const struct alloc_view *view); /* NULL: 0 */
/* Samples that were dropped, and taken, since the table is there. NULL: 0. */
uint64_t alloc_view_dropped(const struct alloc_view *view);
uint64_t alloc_view_samples(const struct alloc_view *view);

/* What of live blocks is summed. */
struct alloc_choice {
    bool live;               /* otherwise totals only */
    uint64_t born_before_ns; /* CLOCK_MONOTONIC; UINT64_MAX = all */
};
SONDE_MUST_USE sonde_err alloc_view_read(const struct alloc_view *view,
                                         const struct alloc_choice *choice,
                                         struct alloc_sums *sums);
void alloc_sums_finish(struct alloc_sums *sums);
/* Takes what was there before off the totals; live sums stay. */
void alloc_sums_subtract(struct alloc_sums *sums, const struct alloc_sums *before);
/* The stack's return addresses into pcs; 0 when it cannot be read. */
uint32_t alloc_view_stack(const struct alloc_view *view, uint32_t place,
                          uint64_t pcs[ALLOC_MAX_DEPTH]);

#endif
