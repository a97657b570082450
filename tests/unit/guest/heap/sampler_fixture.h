/* SPDX-License-Identifier: Apache-2.0
 *
 * A shared library with Sonde's sampler in it, and functions for a test that plays the control
 * thread. As in a real target, the test program imports malloc and does not contain the sampler. */
#ifndef SONDE_TESTS_UNIT_GUEST_HEAP_SAMPLER_FIXTURE_H
#define SONDE_TESTS_UNIT_GUEST_HEAP_SAMPLER_FIXTURE_H

#include "service/guest/heap/alloc_table.h"

#include <stdbool.h>
#include <stddef.h>

struct fixture_totals {
    uint64_t samples, drops[ALLOC_DROP_COUNT];
    double objects, bytes; /* sums over stacks */
    uint32_t stacks, live;
};

struct fixture_live {
    uint32_t found; /* entries with that address */
    uint64_t size;
    double objects;
    uint32_t tid;
    uint64_t time_ns;
};

/* Heap profiling and windows of allocations: 0 or an errno. */
int fixture_start(uint64_t mean, double probability);
int fixture_start_window(uint64_t mean, double probability);
void fixture_stop(void);
void fixture_stop_window(void);
void fixture_forget_live(void);
/* What the control thread does every 100 ms. */
void fixture_tick(void);

struct fixture_totals fixture_totals(void);
/* Of the stacks whose leaf is in [low, high). */
struct fixture_totals fixture_totals_of(const void *low, const void *high);
struct fixture_live fixture_find(const void *block);
/* Sum of the estimates of live samples of that requested size. */
double fixture_live_objects(uint64_t size);
const char *fixture_allocator(void);
uint32_t fixture_patched_words(void);
bool fixture_has_memory(void);
/* Looks for jemalloc by its names, and at this address. */
bool fixture_find_mallctl(const void *address);
/* The memfd of the table. */
int fixture_table_fd(void);

/* Seeds the calling thread's random numbers, so that its samples are the same in each run. */
void fixture_seed(uint64_t seed);
/* Treats the calling thread as the guest's own. */
void fixture_exclude_self(void);
/* What the guest does in the child of a fork. */
void fixture_after_fork(void);

/* For benches: the module map and the main stack to walk by from now on. */
struct walk_map;
struct walk_stack;
void fixture_publish(const struct walk_map *map, const struct walk_stack *main_stack);
/* For benches: the hook for jemalloc (heap/alloc_backtrace.h), which falls back to `original`. */
typedef void fixture_backtrace(void **pcs, unsigned *count, unsigned most);
fixture_backtrace *fixture_hook(fixture_backtrace *original);

#endif
