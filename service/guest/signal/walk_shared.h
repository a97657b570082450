/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the walker share. Only they and tests include it. */
#ifndef SONDE_SERVICE_GUEST_SIGNAL_WALK_SHARED_H
#define SONDE_SERVICE_GUEST_SIGNAL_WALK_SHARED_H

#include "service/guest/ring.h"
#include "service/guest/signal/walk.h"
#include "service/machine/own/system.h"
#include "service/unwind/step/step.h"

#define WALK_INLINE        static inline __attribute__((always_inline))
#define WALK_HIDDEN        __attribute__((visibility("hidden")))
#define WALK_LIKELY(x)     __builtin_expect(!!(x), 1)
#define WALK_UNLIKELY(x)   __builtin_expect(!!(x), 0)
#define WALK_NULL_PAGE     4096u
#define WALK_UNKNOWN_STACK (1u << 20) /* how far an unknown stack is followed */
#define WALK_LOST          1u         /* the value of a lost rbp, an address in no stack */

/* The rule of a pc without a table, in addition to enum unwind_cfa. */
#define WALK_CFA_POINTER 0x40u

/* One walk: its position, what it may read, and what it has written. */
struct walk {
    const struct walk_map *map;
    const struct walk_bounds *bounds;
    struct walk_stack alternate; /* empty unless frame 0 is on it */
    uint64_t low;                /* the current stack: loads stay in [low, low + span + 8) */
    uint64_t span;
    uint64_t delta; /* a copied stack: the copy's address - the stack's own; otherwise 0 */
    uint64_t *pcs;
    uint32_t max, at;
    uint32_t laps;     /* how often the root-most half was filled */
    uint32_t switches; /* how often the stack changed */
    uint8_t end;
    uint8_t fp_frames;
    bool has_exact;
};

#define WALK_ALWAYS_KNOWN (1ull << UNWIND_REG_SP | 1ull << UNWIND_REG_FP | 1ull << UNWIND_REG_PC)

/* A load with an entry in the table of faults. */
WALK_INLINE bool walk_load(uint64_t address, uint64_t *value) {
    return system_load(address, value);
}

/* Whether 8 bytes at address are in the current stack and not below sp. */
WALK_INLINE bool walk_holds(const struct walk *walk, uint64_t sp, uint64_t address) {
    return address >= sp && address - walk->low <= walk->span;
}

/* Loads for walks by whole rules, which may be of copied stacks. */
WALK_INLINE bool walk_load_stack(const struct walk *walk, uint64_t address, uint64_t *value) {
    return walk_load(address + walk->delta, value);
}

WALK_INLINE bool walk_load_bounded(const struct walk *walk, uint64_t address, uint64_t *value) {
    return address - walk->low <= walk->span && walk_load_stack(walk, address, value);
}

WALK_INLINE bool walk_is_code(uint64_t pc) {
    return pc - WALK_NULL_PAGE < UNWIND_USER_END - WALK_NULL_PAGE;
}

/* If the pcs are full, starts another lap through the root-most half. False after WALK_MAX_FRAMES.
 */
WALK_INLINE bool walk_has_room(struct walk *walk) {
    if (WALK_LIKELY(walk->at < walk->max))
        return true;
    walk->at = walk->max / 2;
    return ++walk->laps <= WALK_MAX_FRAMES / (walk->max - walk->max / 2);
}

/* Adds a pc, for which there must be room. False, with walk->end set, if the pc ends the walk. */
WALK_INLINE bool walk_push(struct walk *walk, uint64_t pc, uint64_t mark) {
    if (WALK_UNLIKELY(!walk_is_code(pc))) {
        walk->end = pc == 0 ? RING_END_ROOT : RING_END_BAD_STACK;
        return false;
    }
    walk->has_exact |= mark != 0;
    walk->pcs[walk->at++] = pc | mark;
    return true;
}

/* Makes the stack that holds sp the current one; false if it is unknown. */
WALK_HIDDEN bool walk_enter_stack(struct walk *walk, uint64_t sp);
/* For an address where the current stack cannot have the next frame: if it is in another known
 * stack, makes that one current and returns true. */
WALK_HIDDEN bool walk_change_stack(struct walk *walk, uint64_t address);

struct walk_position {
    const struct walk_module *module; /* NULL = in none */
    const struct unwind_rule *rule;   /* NULL = the module has no table */
};
WALK_HIDDEN struct walk_position walk_look_up(const struct walk_map *map, uint64_t key);

/* One frame by its whole rule, with all registers. key: the pc to look up. Sets walk->end for steps
 * that end the walk; a register that is needed and not known counts as RING_END_RULE. */
WALK_HIDDEN enum unwind_step walk_step(struct walk *walk, struct unwind_registers *registers,
                                       uint64_t key);
/* Finds the register that a rule needs; false if it cannot. */
typedef bool walk_on_need(struct walk *walk, const void *context,
                          struct unwind_registers *registers, uint64_t key);
/* The whole walk by walk_step, without the cache: for stacks whose rules need more registers than
 * rsp and rbp. on_need may be NULL. */
WALK_HIDDEN void walk_slowly(struct walk *walk, const struct unwind_registers *first,
                             walk_on_need *on_need, const void *context);

/* How every walk begins and ends. */
WALK_HIDDEN void walk_start(struct walk *walk, const struct unwind_registers *first);
WALK_HIDDEN void walk_finish(struct walk *walk, struct walk_result *result);

#endif
