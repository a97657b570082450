/* SPDX-License-Identifier: Apache-2.0
 *
 * What the last LEVEL_SLOTS slots had of one service's functions, without what they call. A slot is
 * read once. Functions are known by a hash of their names, and stacks by their innermost function,
 * so a service of 2,000 functions costs some 100 KB. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_WATCH_SLOTS_H
#define SONDE_SERVICE_WATCH_SLOTS_H

#include "api/hash_index.h"
#include "service/store/store.h"
#include "service/watch/level.h"

#define SLOTS_EVENT          "on-cpu"
#define SLOTS_LEAST_SHARE    0.001 /* of a slot: functions with less in all slots are left out */
#define SLOTS_MAX_FUNCTIONS  4096  /* with a share; further ones are left out */
#define SLOTS_MAX_STACKS     (1u << 18) /* of one service; then all are read again */
#define SLOTS_UNKNOWN_NUMBER INT64_MIN

struct slots_stack {
    uint64_t id;
    uint32_t leaf; /* index into leaves */
};

struct slots_leaf {
    uint64_t name;   /* slots_hash of the function's name */
    uint32_t series; /* index into series; HASH_INDEX_NONE = too small */
    double sum;      /* of the slot that is being read */
};

struct slots {
    char *service;
    int64_t last; /* number of the last slot: its begin / LEVEL_SLOT_S */
    double wholes[LEVEL_SLOTS], weights[LEVEL_SLOTS];
    uint64_t *names; /* of the functions with a share */
    float *values;   /* as in level_input */
    uint32_t series_count, series_capacity, value_capacity;
    struct hash_index leaf_index, stack_index;
    struct slots_leaf *leaves;
    struct slots_stack *stacks;
    uint32_t leaf_count, leaf_capacity, stack_count, stack_capacity;
};

/* NULL when out of memory. */
struct slots *slots_create(const char *service);
void slots_destroy(struct slots *slots); /* NULL is fine */

/* Reads a slot; earlier ones that were not read count as empty. Errors: the store's. Nothing has
 * changed then. */
SONDE_MUST_USE sonde_err slots_read(struct slots *slots, struct store *store, int64_t number,
                                    const struct store_stop *stop, struct sonde_diag *diag);
SONDE_MUST_USE sonde_err slots_find(const struct slots *slots, struct level_result *result);
/* The ids of the known stacks with that innermost function, ascending; memory from malloc. */
SONDE_MUST_USE sonde_err slots_stacks_of(const struct slots *slots, size_t function,
                                         uint64_t **stacks, size_t *count);
/* Forgets the stacks, which are then read again. */
void slots_forget_stacks(struct slots *slots);

/* Of a function's name; of code without a name, of its file's base name. */
uint64_t slots_hash(const char *name);
uint64_t slots_hash_module(const char *path);

#endif
