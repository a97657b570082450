/* SPDX-License-Identifier: Apache-2.0
 *
 * A library with the guest's own sampler in it, and a door to it for a test that plays the control
 * thread: as in a host, the test's program imports malloc and the sampler does not belong to it. */
#ifndef SONDE_TESTS_UNIT_GUEST_HEAP_SAMPLER_FIXTURE_H
#define SONDE_TESTS_UNIT_GUEST_HEAP_SAMPLER_FIXTURE_H

#include "service/guest/heap/alloc_table.h"

#include <stdbool.h>
#include <stddef.h>

struct door_totals {
    uint64_t samples, drops[ALLOC_DROP_COUNT];
    double objects, bytes; /* of all stacks */
    uint32_t stacks, live;
};

struct door_live {
    uint32_t found; /* entries with that address */
    uint64_t size;
    double objects;
    uint32_t tid;
    uint64_t time_ns;
};

/* 0 or an errno. */
int door_open(uint64_t mean, double probability);
int door_open_windows(uint64_t mean, double probability);
void door_close(void);
void door_close_windows(void);
void door_forget(void);
/* As the control thread does every 100 ms. */
void door_look(void);
struct door_totals door_totals(void);
struct door_live door_find(const void *block);
/* Sum over live samples of that requested size. */
double door_live_objects(uint64_t size);
/* What stacks beginning in [low, high) were counted. */
struct door_totals door_totals_of(const void *low, const void *high);
const char *door_allocator(void);
uint32_t door_words(void);
bool door_has_memory(void);
/* The calling thread's luck, so that estimates are the same each time. */
void door_seed(uint64_t seed);
/* What stacks are walked by from now on, and the main thread's stack; for benches. */
struct walk_map;
struct walk_stack;
void door_publish(const struct walk_map *map, const struct walk_stack *main_stack);
/* Our backtrace in jemalloc's place (heap/hook.h), with the one it stands in for. */
typedef void door_backtrace(void **pcs, unsigned *count, unsigned most);
door_backtrace *door_hook(door_backtrace *original);
/* As the guest's handler does in the child of a fork. */
void door_after_fork(void);
/* The memfd of the table. */
int door_table_fd(void);
/* Takes the calling thread for the guest's own. */
void door_mute(void);

#endif
