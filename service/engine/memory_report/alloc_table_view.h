/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the table of the guest's allocation sampler (service/guest/heap/alloc_table.h) while the
 * guest keeps writing to it, without asking or stopping it. The memory is hostile and may change at
 * any moment, so every number is read once and checked before it is used. Thread safety: any
 * thread; a set of sums belongs to one. */
#ifndef SONDE_SERVICE_ENGINE_MEMORY_REPORT_ALLOC_TABLE_VIEW_H
#define SONDE_SERVICE_ENGINE_MEMORY_REPORT_ALLOC_TABLE_VIEW_H

#include "api/error.h"
#include "service/guest/heap/alloc_table.h"

#include <stdbool.h>
#include <stddef.h>

struct alloc_view;

/* The sums of one stack. Objects and bytes are estimates of the totals, not of the samples. */
struct alloc_sum {
    uint32_t place;   /* 0 = not a stack */
    uint64_t samples; /* samples taken, including blocks freed since */
    double objects, bytes;
    uint64_t live_samples;
    double live_objects, live_bytes;
};

struct alloc_sums {
    struct alloc_sum *items;
    uint32_t count;
    uint64_t samples, dropped; /* for the whole table */
};

/* fd is a memfd from the guest, borrowed. SONDE_PROTOCOL if it is not such a table. */
SONDE_MUST_USE sonde_err alloc_view_open(int fd, uint32_t number, struct alloc_view **view);
/* For fuzzers: a view of ALLOC_BYTES of memory that outlives it. NULL when out of memory. */
struct alloc_view *alloc_view_over(const void *memory);
struct alloc_view *alloc_view_retain(struct alloc_view *view);
void alloc_view_release(struct alloc_view *view);          /* NULL is allowed */
uint32_t alloc_view_number(const struct alloc_view *view); /* 0 for NULL */
/* Samples dropped, and samples taken, since the table was created. 0 for NULL. */
uint64_t alloc_view_dropped(const struct alloc_view *view);
uint64_t alloc_view_samples(const struct alloc_view *view);

/* Which live blocks to sum. */
struct alloc_choice {
    bool live;               /* otherwise only totals */
    uint64_t born_before_ns; /* CLOCK_MONOTONIC; UINT64_MAX = all */
};
SONDE_MUST_USE sonde_err alloc_view_read(const struct alloc_view *view,
                                         const struct alloc_choice *choice,
                                         struct alloc_sums *sums);
void alloc_sums_finish(struct alloc_sums *sums);
/* Subtracts earlier totals from the totals. Live sums stay. */
void alloc_sums_subtract(struct alloc_sums *sums, const struct alloc_sums *before);
/* Copies the stack's return addresses to pcs and its place to *where, and returns the number of
 * pcs; 0 if it cannot be read. */
uint32_t alloc_view_stack(const struct alloc_view *view, uint32_t place,
                          uint64_t pcs[ALLOC_MAX_DEPTH], struct alloc_place *where);

#endif
