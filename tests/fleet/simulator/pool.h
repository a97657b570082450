/* SPDX-License-Identifier: Apache-2.0
 *
 * What simulated hosts run: services, each with a fixed set of functions and of stacks. Stacks are
 * drawn with Zipf's distribution, so that few are hot and most are rare, as in real programs. The
 * same seed makes the same pool. Numbers of definitions are the same on every call, which spares
 * each simulated host a table of its own.
 *
 * Thread safety: any thread, once it is filled. */
#ifndef SONDE_TESTS_FLEET_SIMULATOR_POOL_H
#define SONDE_TESTS_FLEET_SIMULATOR_POOL_H

#include <stddef.h>
#include <stdint.h>

#define POOL_FUNCTIONS    120 /* per service */
#define POOL_MAX_DEPTH    24
#define POOL_MAX_SERVICES 400
#define POOL_TEXTS        (POOL_FUNCTIONS + 3)
/* Texts that do not belong to a service; 0 is "". */
enum pool_text { TEXT_NONE, TEXT_ON_CPU, TEXT_OFF_CPU, TEXT_CLOCK, TEXT_WORKER, TEXT_SERVICES };

struct pool_stack {
    uint64_t id;
    uint32_t depth;
    uint8_t functions[POOL_MAX_DEPTH]; /* leaf first */
};

struct pool_service {
    char name[32], build_id[41], module[48];
    uint64_t frame_ids[POOL_FUNCTIONS];
    struct pool_stack *stacks;
};

struct pool {
    size_t service_count, stack_count; /* stacks: per service */
    struct pool_service *services;
    double *zipf; /* [stack]: the probability of this one and those before it */
};

void pool_init(struct pool *pool, uint64_t seed, size_t services, size_t stacks);
void pool_finish(struct pool *pool);
/* A stack, for a number that is uniform over all 64 bits. */
uint32_t pool_draw(const struct pool *pool, uint64_t random);
/* The stack's index of a service, or SIZE_MAX. */
size_t pool_find(const struct pool *pool, size_t service, uint64_t id);

/* Numbers of definitions on a call, for the host's n-th process; `which` of texts: 0 build-id, 1
 * module, 2 file, 3 + function. */
uint32_t pool_text_number(size_t process, uint32_t which);
uint32_t pool_frame_number(size_t process, uint32_t function);
uint32_t pool_stack_number(const struct pool *pool, size_t process, uint32_t stack);

/* A generator (splitmix64) and a hash for seeds. */
uint64_t pool_random(uint64_t *state);
uint64_t pool_mix(uint64_t a, uint64_t b);

#endif
