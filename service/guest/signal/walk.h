/* SPDX-License-Identifier: Apache-2.0
 *
 * The stack walk of the signal handler, over compact unwind tables (service/unwind/table). It
 * takes no lock, calls nothing, and allocates nothing: modules, tables, cache and stacks are handed
 * in. sonded and the tests link it as any library.
 *
 * A walk begins at the interrupted registers and follows one rule per frame. The rule of a pc is
 * found in the thread's cache, else in the table of the pc's module; a pc without a table (JIT
 * code) is left by its frame pointer when what that says holds together. Through signal frames it
 * goes on in the interrupted context, on whichever known stack that was.
 *
 * Memory is read only inside the bounds of known stacks. They may still lie (an unmapped page, a
 * corrupt rbp into a guard page): each load is one instruction with an entry in a table of faults,
 * and a SIGSEGV/SIGBUS handler that finds its interrupted rip there goes on at
 * walk_fault_resume(rip), whereupon the walk ends with RING_END_BAD_STACK. For that, SIGSEGV and
 * SIGBUS must not be blocked while walking. Under 1 KiB of stack.
 *
 * Thread and signal safety: everything here is signal-safe. A walk_cache belongs to one thread and
 * to one kind of user (a nested signal handler must not use it while a walk is under way). A
 * walk_map is immutable while any walk reads it. */
#ifndef SONDE_SERVICE_GUEST_SIGNAL_WALK_H
#define SONDE_SERVICE_GUEST_SIGNAL_WALK_H

#include "service/unwind/step/registers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#ifndef SONDE_SIGSAFE
#define SONDE_SIGSAFE
#endif

#define WALK_CACHE_SLOTS 1024u
#define WALK_MAX_FRAMES  (256u << 10) /* a walk ends here, whatever the stack says */
#define WALK_MAX_SWITCH  16u          /* changes of stack in one walk */

struct unwind_rule;

/* One executable mapping, with its table's parts found beforehand. Fill it with walk_module_init.
 */
struct walk_module {
    uint64_t start, end; /* runtime addresses; [start, end) */
    uint64_t text;       /* runtime address of the table's row pc 0 */
    uint32_t text_bytes; /* 0 = no table */
    uint32_t rule_count;
    const uint32_t *pages;
    const uint16_t *rows;
    const uint8_t *pcs;
    const uint64_t *hot;
};

/* image: a table that unwind_table_check has passed, mapped as long as the module is used; NULL =
 * none yet, or JIT code. bias: runtime address - ELF vaddr. */
SONDE_SIGSAFE
void walk_module_init(struct walk_module *module, uint64_t start, uint64_t end, uint64_t bias,
                      const void *image);

/* All executable mappings of the process, sorted by start, not overlapping. A changed set is a new
 * walk_map with a higher generation, published by its owner; caches notice by the number. */
struct walk_map {
    uint64_t generation;
    uint64_t count;
    const struct walk_module *modules;
};

/* The module that holds address, NULL when none does. */
SONDE_SIGSAFE
const struct walk_module *walk_map_find(const struct walk_map *map, uint64_t address);

/* A thread's pc -> rule cache. Zeroed memory is an empty cache, good for any map. 16.1 KiB. */
struct walk_cache {
    uint64_t epoch;  /* high bits of the generation that the slots' tags belong to */
    uint64_t misses; /* for tests and benches */
    uint64_t reserved[6];
    struct walk_slot {
        uint64_t tag, rule;
    } slots[WALK_CACHE_SLOTS];
} __attribute__((aligned(64)));

struct walk_stack {
    uint64_t low, high; /* [low, high) */
};

/* The stacks a walk may read. The alternate signal stack the interrupted code ran on need not be
 * named: the kernel tells it in the ucontext. */
struct walk_bounds {
    struct walk_stack thread;
    const struct walk_stack *extra; /* registered ones: coroutines, fibers, alternate stacks */
    uint32_t extra_count;
    /* The process' SIGSEGV and SIGBUS handlers use walk_fault_resume. Then an unknown stack is
     * walked too, as far as it is mapped; otherwise it gives frame 0 only. */
    bool faults_resume;
};

struct walk_result {
    uint32_t depth;    /* pcs written */
    uint8_t end;       /* enum ring_stack_end, service/guest/ring.h */
    uint8_t fp_frames; /* frames that came by frame pointer, capped at 255 */
    uint16_t gap_at; /* RING_END_DEPTH: index of the first root-most pc; 0 when even WALK_MAX_FRAMES
                        did not reach the root */
    bool has_exact;  /* some pcs are marked RING_PC_EXACT */
    uint32_t frames; /* frames walked, also those between leaf-most and root-most */
};

/* Writes at most max_depth (2 ... 65535) pcs, leaf first; pcs[0] is the interrupted pc, the others
 * return addresses, except those marked RING_PC_EXACT (below a signal frame). A deeper stack keeps
 * its leaf-most and its root-most half. */
SONDE_SIGSAFE
void walk_from_context(const ucontext_t *context, const struct walk_map *map,
                       struct walk_cache *cache, const struct walk_bounds *bounds, uint64_t *pcs,
                       uint32_t max_depth, struct walk_result *result);

/* The same walk from given registers, of which rip, rsp and rbp must be known. rip is taken as an
 * interrupted pc. */
SONDE_SIGSAFE
void walk_from_registers(const struct unwind_registers *registers, const struct walk_map *map,
                         struct walk_cache *cache, const struct walk_bounds *bounds, uint64_t *pcs,
                         uint32_t max_depth, struct walk_result *result);

/* The way that walks of one thread took the last time, for callers who walk from the same depths
 * again and again: where a walk comes to a frame it met before, the frames above are not looked up
 * anew, but each word they were found by is compared with what stands there now. The result is
 * that of the walk without, whatever the stack did meanwhile. Zeroed memory is an empty trail; it
 * belongs to its cache's user. 8 KiB. */
#define WALK_TRAIL_STEPS 127u
struct walk_trail {
    uint64_t generation;
    uint32_t which; /* of the two ways: the last one; the other is written by the next walk */
    struct walk_way {
        uint32_t count;
        struct walk_trail_step {
            uint64_t key, sp, bp; /* before this frame: what is looked up, and its registers */
            uint64_t rbp_place;   /* in it; the return address's = not saved; 0 = the way ends */
        } steps[WALK_TRAIL_STEPS + 1];
    } ways[2];
};
SONDE_SIGSAFE
void walk_from_call(const struct unwind_registers *registers, const struct walk_map *map,
                    struct walk_cache *cache, struct walk_trail *trail,
                    const struct walk_bounds *bounds, uint64_t *pcs, uint32_t max_depth,
                    struct walk_result *result);

/* The stack of a thread that is blocked in the kernel, from a copy of its top: nobody is stopped or
 * signalled. Only rip and rsp are known of such a thread. A rule that wants rbp while nobody has
 * saved it yet has it looked for: upwards from rsp, the first place where a frame of that rule
 * would hold a return address behind a call of this very function, or a call through a pointer with
 * a plausible frame pointer beside it. Frames found so are counted in fp_frames. `read` copies code
 * for that, and says whether it could. A copy that ends too early gives RING_END_BAD_STACK, a
 * longer one more frames. Not for handlers: it takes the time of a search. */
struct walk_copy {
    uint64_t low, high; /* where the bytes were */
    const void *bytes;  /* aligned to 8 */
    bool (*read)(void *context, uint64_t address, void *to, uint32_t len);
    void *context;
};
void walk_from_copy(uint64_t pc, uint64_t sp, const struct walk_map *map,
                    const struct walk_copy *copy, uint64_t *pcs, uint32_t max_depth,
                    struct walk_result *result);

/* For the SIGSEGV/SIGBUS handler: where to go on when a load of the walker at rip has faulted, 0
 * when rip is none of its loads (then the fault is the application's own). */
SONDE_SIGSAFE
uint64_t walk_fault_resume(uint64_t rip);

#endif
