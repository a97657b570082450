/* SPDX-License-Identifier: Apache-2.0
 *
 * The address space of one target over time: which file was mapped where in each generation of the
 * guest's module map.
 *
 * A mapping is one executable mapping. Equal mappings of consecutive generations are one object,
 * which generations and stacks share, so a frame keeps its module after a dlclose. A worker fills
 * in a mapping once (module and bias) and publishes it; all other threads only read it. Thread
 * safety: a space belongs to the engine thread; mappings are reference-counted. */
#ifndef SONDE_SERVICE_ENGINE_REPORT_ADDRESS_SPACE_H
#define SONDE_SERVICE_ENGINE_REPORT_ADDRESS_SPACE_H

#include "api/error.h"
#include "service/process/memory_share.h"
#include "service/symbol/symbol.h"
#include "service/unwind/table/table_view.h"

#include <stdatomic.h>

/* Of one generation. Code beyond them has no tables and names; profiles report their number. */
#define SPACE_MAX_MAPPINGS 8192u
/* Of all generations. Beyond them, the oldest generations are forgotten early, and profiles report
 * the number of samples that were taken in one of these. */
#define SPACE_MAX_HELD    16384u
#define SPACE_GENERATIONS 64u   /* generations whose samples may still arrive */
#define SPACE_CACHE       4096u /* pc -> mapping, direct-mapped */

struct mapping {
    _Atomic uint32_t refs;
    uint64_t start, end, offset, inode;
    uint64_t inode_generation; /* 0 = unknown */
    uint64_t born;             /* number of the guest's generation that first had it; 0 = unknown */
    struct mapping *origin; /* of a stand-in (memory_report/heap_places.h): where it was mapped */
    uint32_t device_major, device_minor;
    char path[256];
    bool is_kernel, is_deleted; /* see symbol_mapping */

    /* Written by one worker, then published by the release store of module. */
    _Atomic(struct symbol_module *) module;
    uint64_t bias;
    bool has_bias;
    char *program; /* of the program: its path as users know it, if that differs; or NULL */
    /* Its unwind table in this process, for copied stacks; NULL = none. Written by the same worker;
     * other threads read it when is_opened is set. */
    const struct unwind_view *view;
    struct unwind_views *views; /* what it is released to */
    _Atomic(char *) problem; /* why its unwind table could not be loaded; NULL = nothing failed */
    _Atomic bool has_names;  /* the module's symbol table is loaded, or there is none */

    /* Engine thread only. */
    bool is_opening;        /* a worker is opening the file */
    struct proc_maps *maps; /* while it does: what it may read; the job\'s */
    bool is_opened;         /* the worker has finished, with or without a module */
    uint64_t served_serial; /* serial of the last generation that the guest got an answer for */
    bool is_loading_names;
    uint32_t stacks_serial, stacks_id; /* this mapping's number in the stacks with that serial */

    struct memory_share share; /* empty if it was not made for a guest */
};

/* Cuts " (deleted)" from the path. */
struct mapping *mapping_create(const struct symbol_mapping *from);
/* The kernel. Bit 63, which all its addresses have, is RING_PC_EXACT in stacks, so stacks and this
 * mapping hold its addresses without it, and profiles show them with it. */
struct mapping *mapping_create_kernel(void);
struct mapping *mapping_retain(struct mapping *mapping);
void mapping_release(struct mapping *mapping);
/* Whether both are the same part of the same file at the same address. */
bool mapping_is_same(const struct mapping *a, const struct mapping *b);
/* Before a worker has opened the mapping: NULL and SYMBOL_MODULE_NONE. */
struct symbol_module *mapping_module(const struct mapping *mapping);
enum symbol_module_kind mapping_kind(const struct mapping *mapping);
/* The path that profiles show; "" = anonymous memory. */
const char *mapping_shown_path(const struct mapping *mapping);
/* The base name of the program as users know it; NULL if that is the file's own. */
const char *mapping_program_name(const struct mapping *mapping);
/* Keeps the reason why the mapping's unwind table could not be loaded. SONDE_OK, and files that
 * have no such table (SONDE_NOT_AVAILABLE, SONDE_INVALID_ARGUMENT), are not a problem. Any
 * thread. */
void mapping_set_problem(struct mapping *mapping, sonde_err err, const struct sonde_diag *diag);
/* NULL = none. */
const char *mapping_problem(const struct mapping *mapping);
/* The mapping as service/symbol takes it; borrows the path. */
struct symbol_mapping mapping_as_symbol(const struct mapping *mapping);

struct generation {
    uint64_t number;           /* the guest's, which may repeat */
    uint64_t serial;           /* ours, from 1 */
    struct mapping **mappings; /* sorted by start, not overlapping */
    uint32_t count, capacity;
    uint32_t fresh;   /* mappings that are not shared with the previous generation */
    uint32_t ignored; /* those beyond SPACE_MAX_MAPPINGS, or for which the user has no memory */
    bool is_guests;   /* its mappings count as memory of `uid`, the guest's user */
    uid_t uid;
    uint32_t asked,
        served;   /* mappings that were given to workers; that the guest got answers for */
    bool is_done; /* TablesDone was sent */
};

struct space_slot {
    uint64_t pc;
    uint32_t generation;
    struct mapping *mapping;
};

struct space {
    struct generation *generations[SPACE_GENERATIONS]; /* [0] is the newest */
    struct generation *incoming;                       /* some of its parts are missing */
    uint64_t last_serial;
    struct space_slot *cache;
    bool is_guests;            /* of its generations, as is uid */
    struct memory_share share; /* of the cache */
};

void space_finish(struct space *space);
/* A part of a generation, as the guest sends it. */
struct space_part {
    uint64_t generation;
    bool last;
    const struct symbol_mapping *mappings;
    size_t count;
    const uint64_t *born; /* of each mapping; NULL = unknown */
};
/* The last part makes the generation the newest one and sets *complete to it; other parts set
 * *complete to NULL. */
SONDE_MUST_USE sonde_err space_add_part(struct space *space, const struct space_part *part,
                                        struct generation **complete);
/* False if the guest never sent that generation, or too long ago. */
bool space_knows(const struct space *space, uint32_t generation);
/* NULL if pc is outside of all mappings, or if the generation is unknown or too old. */
struct mapping *space_find(struct space *space, uint32_t generation, uint64_t pc);
struct mapping *generation_find(const struct generation *generation, uint64_t pc);
/* The first mapping that starts above that address, or else the first; NULL if there is none. */
struct mapping *generation_next(const struct generation *generation, uint64_t start);
void generation_destroy(struct generation *generation);
struct generation *generation_create(uint64_t number);
/* Ignores empty mappings, and counts and ignores those beyond SPACE_MAX_MAPPINGS or the memory of
 * the guest's user. Call generation_sort after the last one. */
SONDE_MUST_USE sonde_err generation_add(struct generation *generation,
                                        const struct symbol_mapping *from);
/* Sorts the mappings, drops those that overlap an earlier one, and replaces each that equals a
 * mapping of `previous` (may be NULL) by that object. */
void generation_sort(struct generation *generation, const struct generation *previous);

#endif
