/* SPDX-License-Identifier: Apache-2.0
 *
 * The address space of one target over time: which file lay where under which generation of the
 * guest's module map.
 *
 * A mapping is one executable mapping; equal ones of consecutive generations are one object, shared
 * by generations and by the stacks that were sampled in them, so that a frame keeps its module
 * after a dlclose. A worker fills a mapping once (module, bias, unwind table) and publishes it;
 * everybody else only reads. Thread safety: a space belongs to the engine thread; mappings are
 * shared by reference count. */
#ifndef SONDE_SERVICE_ENGINE_REPORT_ADDRESS_SPACE_H
#define SONDE_SERVICE_ENGINE_REPORT_ADDRESS_SPACE_H

#include "api/error.h"
#include "service/symbol/symbol.h"

#include <stdatomic.h>

#define MAPS_MAX_MAPPINGS 8192u /* of one generation; the rest has no table and no name */
#define MAPS_KEPT         64u   /* generations whose samples may still come */
#define MAPS_CACHE        4096u /* pc -> mapping, direct mapped */

struct mapping {
    _Atomic uint32_t refs;
    uint64_t start, end, offset, inode;
    uint32_t device_major, device_minor;
    char path[256];

    /* Written by one worker, then published by the release store of module. */
    _Atomic(struct symbol_module *) module;
    uint64_t bias;
    bool has_bias;
    _Atomic bool is_warm; /* its names are at hand */

    /* Engine thread only. */
    bool is_opening;            /* a worker is at it */
    bool is_opened;             /* what can be known is known */
    uint64_t served_generation; /* whose table was sent, or could not be made; plus one */
    bool is_warming;
    uint32_t stacks_serial, stacks_id; /* its number in the stacks of that serial */
};

struct mapping *mapping_create(const struct symbol_mapping *from);
struct mapping *mapping_retain(struct mapping *mapping);
void mapping_release(struct mapping *mapping);
/* NULL and SYMBOL_MODULE_NONE until a worker has opened it. */
struct symbol_module *mapping_module(const struct mapping *mapping);
enum symbol_module_kind mapping_kind(const struct mapping *mapping);
/* The mapping as service/symbol wants it; borrows the path. */
struct symbol_mapping mapping_as_symbol(const struct mapping *mapping);

struct generation {
    uint64_t number;
    struct mapping **mappings; /* by start, not overlapping */
    uint32_t count, capacity;
    bool is_done; /* TablesDone was sent */
};

struct space_slot {
    uint64_t pc;
    uint32_t generation;
    struct mapping *mapping;
};

struct space {
    struct generation *kept[MAPS_KEPT]; /* [0] is the newest */
    struct generation *growing;         /* parts of it are still to come */
    struct space_slot *cache;
};

void space_finish(struct space *space);
/* One part of a generation. */
struct space_part {
    uint64_t generation;
    bool last;
    const struct symbol_mapping *mappings;
    size_t count;
};
/* With the last part the generation becomes the newest: *complete is it, otherwise NULL. */
SONDE_MUST_USE sonde_err space_add_part(struct space *space, const struct space_part *part,
                                        struct generation **complete);
/* NULL: in no mapping of that generation, or the generation is not known (any more). */
struct mapping *space_find(struct space *space, uint32_t generation, uint64_t pc);
struct mapping *generation_find(const struct generation *generation, uint64_t pc);
void generation_destroy(struct generation *generation);
struct generation *generation_create(uint64_t number);
/* Ignores what is over the limit. Call generation_sort when all are in. */
SONDE_MUST_USE sonde_err generation_add(struct generation *generation,
                                        const struct symbol_mapping *from);
/* Sorts, drops overlaps, and takes equal mappings over from `previous` (may be NULL). */
void generation_sort(struct generation *generation, const struct generation *previous);

#endif
