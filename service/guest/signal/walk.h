/* SPDX-License-Identifier: Apache-2.0
 *
 * The stack walk of the signal handler, over compact unwind tables (service/unwind/table/table.h).
 * It takes no lock, makes no system call and allocates nothing: the caller provides modules,
 * tables, cache and stacks. sonded and the tests link it as an ordinary library.
 *
 * A walk starts at the interrupted registers and applies one rule per frame. The rule of a pc comes
 * from the thread's cache, else from the table of the pc's module. A pc without a table (JIT code)
 * is left by its frame pointer, if that is plausible. At a signal frame the walk continues with the
 * interrupted registers, on whichever known stack they were.
 *
 * The walk reads memory only inside the bounds of known stacks. Even there a page may be unmapped,
 * or a corrupt rbp may point at a guard page. So each load is one instruction with an entry in a
 * table of faults: if a SIGSEGV or SIGBUS handler finds its interrupted rip there, it continues at
 * walk_fault_resume(rip), and the walk ends with RING_END_BAD_STACK. Therefore SIGSEGV and SIGBUS
 * must not be blocked during a walk. A walk needs less than 1 KiB of stack.
 *
 * Thread and signal safety: everything here is signal-safe. A walk_cache belongs to one thread and
 * one kind of caller: a nested signal handler must not use it during a walk. A walk_map must not
 * change while any walk reads it. */
#ifndef SONDE_SERVICE_GUEST_SIGNAL_WALK_H
#define SONDE_SERVICE_GUEST_SIGNAL_WALK_H

#include "service/machine/own/registers.h"

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

/* One executable mapping and where the parts of its table are. walk_module_init fills it. */
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

/* image: a table that has passed unwind_table_check and stays mapped as long as the module is used;
 * NULL: no table yet, or JIT code. bias: runtime address - ELF vaddr. */
SONDE_SIGSAFE
void walk_module_init(struct walk_module *module, uint64_t start, uint64_t end, uint64_t bias,
                      const void *image);

/* All executable mappings of the process, sorted by start, not overlapping. When the set changes
 * its owner publishes a new walk_map with a higher generation, by which caches notice. */
struct walk_map {
    uint64_t generation;
    uint64_t count;
    const struct walk_module *modules;
};

/* The module that holds address; NULL if there is none. */
SONDE_SIGSAFE
const struct walk_module *walk_map_find(const struct walk_map *map, uint64_t address);

/* A thread's cache from pc to rule. Zeroed memory is an empty cache for any map. 16.1 KiB. */
struct walk_cache {
    uint64_t epoch;  /* high bits of the generation of the tags */
    uint64_t misses; /* for tests and benches */
    uint64_t reserved[6];
    struct walk_slot {
        uint64_t tag, rule;
    } slots[WALK_CACHE_SLOTS];
} __attribute__((aligned(64)));

struct walk_stack {
    uint64_t low, high; /* [low, high) */
};

/* The stacks that a walk may read. The alternate signal stack that the interrupted code ran on need
 * not be listed: it is in the ucontext. */
struct walk_bounds {
    struct walk_stack thread;
    const struct walk_stack *extra; /* registered ones: coroutines, fibers, alternate stacks */
    uint32_t extra_count;
    /* The process's SIGSEGV and SIGBUS handlers use walk_fault_resume. Then unknown stacks are also
     * walked, as far as they are mapped; otherwise a walk there has frame 0 only. */
    bool faults_resume;
};

struct walk_result {
    uint32_t depth;    /* pcs written */
    uint8_t end;       /* enum ring_stack_end, service/guest/ring.h */
    uint8_t fp_frames; /* frames found by frame pointer, at most 255 */
    uint16_t gap_at; /* RING_END_DEPTH: index of the first root-most pc; 0 if WALK_MAX_FRAMES frames
                        did not reach the root */
    bool has_exact;  /* some pcs are marked RING_PC_EXACT */
    uint32_t frames; /* frames walked, including those that were left out */
};

/* Writes at most max_depth (2 to 65535) pcs, leaf first. pcs[0] is the interrupted pc; the others
 * are return addresses, except those below a signal frame, which are marked RING_PC_EXACT. Of a
 * deeper stack the leaf-most and the root-most half are kept. */
SONDE_SIGSAFE
void walk_from_context(const ucontext_t *context, const struct walk_map *map,
                       struct walk_cache *cache, const struct walk_bounds *bounds, uint64_t *pcs,
                       uint32_t max_depth, struct walk_result *result);

/* Walks from given registers, of which rip, rsp and rbp must be known. rip is treated as an
 * interrupted pc. */
SONDE_SIGSAFE
void walk_from_registers(const struct unwind_registers *registers, const struct walk_map *map,
                         struct walk_cache *cache, const struct walk_bounds *bounds, uint64_t *pcs,
                         uint32_t max_depth, struct walk_result *result);

/* The frames of a thread's last walk, for callers that walk again and again from the same depths (a
 * heap hook). Where a walk reaches a frame that is in the memo, it does not look up rules for the
 * frames above; it compares each word that the last walk found them by with the stack. So the
 * result is that of a walk without a memo, whatever happened to the stack meanwhile. Zeroed memory
 * is an empty memo. It belongs to the user of its cache. 8 KiB. */
#define WALK_MEMO_FRAMES 127u
struct walk_memo {
    uint64_t generation;
    uint32_t last; /* index of the last walk's path; the next walk writes the other one */
    struct walk_memo_path {
        uint32_t count;
        struct walk_memo_frame {
            uint64_t key, sp, bp; /* the pc that was looked up, rsp and rbp */
            uint64_t rbp_place;   /* where rbp is saved, or the return address's place if it is not;
                                     0 in the path's last frame */
        } frames[WALK_MEMO_FRAMES + 1];
    } paths[2];
};
SONDE_SIGSAFE
void walk_from_call(const struct unwind_registers *registers, const struct walk_map *map,
                    struct walk_cache *cache, struct walk_memo *memo,
                    const struct walk_bounds *bounds, uint64_t *pcs, uint32_t max_depth,
                    struct walk_result *result);

/* Walks the stack of a thread that is blocked in the kernel, from a copy of its top, without
 * stopping or signalling it. Only rip and rsp of such a thread are known. If a rule needs rbp
 * before any frame has saved it, the walk searches upwards from rsp for the first place where a
 * frame of that rule would have the return address of a call to this very function, or of a call
 * through a pointer with a plausible frame pointer beside it. Such frames count in fp_frames.
 * `read` copies code for the search and returns whether it could. A copy that is too short gives
 * RING_END_BAD_STACK; a longer one gives more frames. Not for handlers: a search takes long. */
struct walk_copy {
    uint64_t low, high; /* where the bytes were */
    const void *bytes;  /* aligned to 8 */
    bool (*read)(void *context, uint64_t address, void *to, uint32_t len);
    void *context;
};
void walk_from_copy(uint64_t pc, uint64_t sp, const struct walk_map *map,
                    const struct walk_copy *copy, uint64_t *pcs, uint32_t max_depth,
                    struct walk_result *result);

/* For SIGSEGV and SIGBUS handlers: where to continue if rip is a load of the walker; 0 if it is
 * not, and the fault is the application's own. */
SONDE_SIGSAFE
uint64_t walk_fault_resume(uint64_t rip);

#endif
