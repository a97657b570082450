/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/heap/alloc_backtrace.h"

#include "service/guest/held.h"
#include "service/guest/raw.h"
#include "service/guest/signal/bounds.h"
#include "service/guest/signal/handler_state.h"

#include <string.h>

#define MAX_PCS    128u /* jemalloc's limit */
#define OWN_FRAME  1u
#define WALKED_PCS (2 * (MAX_PCS + OWN_FRAME)) /* a deeper stack keeps its whole leaf-most half */
#define MAX_OWN    8u                          /* our frames below the allocation's caller */
#define TRIES      1000u                       /* of alloc_backtrace_is_quiescent, per walk */

struct shared_walk {
    _Atomic uint64_t state; /* grows at each take and return: odd = in use */
    uint64_t pcs[WALKED_PCS];
    struct walk_cache cache;
    struct walk_memo memo;
};

static struct shared_walk slots[ALLOC_BACKTRACE_CACHES];
static _Atomic(alloc_backtrace_function *) original;
static __thread struct walk_stack own_stack __attribute__((tls_model("initial-exec")));

void alloc_backtrace_set_original(alloc_backtrace_function *function) {
    atomic_store(&original, function);
}

/* The exchange comes before the load of handler_state.map, as a publication comes before the loads
 * in alloc_backtrace_is_quiescent: one of the two sees the other. */
static bool enter(struct shared_walk *slot) {
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    return state % 2 == 0 && atomic_compare_exchange_strong(&slot->state, &state, state + 1);
}

static void leave(struct shared_walk *slot) {
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    atomic_store_explicit(&slot->state, state + 1, memory_order_release);
}

static struct shared_walk *take_slot(uint64_t sp) {
    if (held_from_calls()) /* the stack's bounds are found by system calls */
        return NULL;
    uint64_t first =
        (sp >> 16) * 0x9e3779b97f4a7c15ull >> 58; /* usually the same for all of a thread's calls */
    for (uint32_t i = 0; i < ALLOC_BACKTRACE_CACHES; i++) {
        struct shared_walk *slot = &slots[(first + i) % ALLOC_BACKTRACE_CACHES];
        if (enter(slot))
            return slot;
    }
    return NULL;
}

/* Walks into slot->pcs. Returns the number of leaf-most pcs before the first gap. */
static uint32_t walk_callers(struct shared_walk *slot, const struct walk_map *map,
                             const struct unwind_registers *here, bool *has_exact) {
    struct walk_bounds bounds;
    struct walk_stack extra;
    struct walk_result walked;
    bounds_find_call(here->value[UNWIND_REG_RSP], &own_stack, &extra, &bounds);
    walk_from_call(here, map, &slot->cache, &slot->memo, &bounds, slot->pcs, WALKED_PCS, &walked);
    handler_report_miss(map, slot->pcs, &walked);
    *has_exact = walked.has_exact;
    return walked.gap_at ? walked.gap_at : walked.depth;
}

/* Writes the callers without our own frame. Returns 0 when there are none. */
static uint32_t walk(struct shared_walk *slot, const struct walk_map *map,
                     const struct unwind_registers *here, void **pcs, uint32_t most) {
    bool has_exact;
    uint32_t whole = walk_callers(slot, map, here, &has_exact);
    uint32_t count = whole > OWN_FRAME ? whole - OWN_FRAME : 0;
    if (count > most)
        count = most;
    for (uint32_t i = 0; has_exact && i < whole; i++)
        slot->pcs[i] &= ~RING_PC_EXACT;
    memcpy(pcs, slot->pcs + OWN_FRAME, count * sizeof *pcs);
    return count > 1 ? count : 0; /* one pc is the allocator itself */
}

__attribute__((noinline)) void alloc_backtrace_hook(void **pcs, unsigned *count, unsigned most) {
    struct unwind_registers here;
    unwind_registers_here(&here);
    struct shared_walk *slot = take_slot(here.value[UNWIND_REG_RSP]);
    uint32_t depth = 0;
    if (slot) {
        const struct module_map *map = atomic_load(&handler_state.map);
        depth = map ? walk(slot, &map->walk, &here, pcs, most) : 0;
        leave(slot);
    }
    alloc_backtrace_function *function = atomic_load_explicit(&original, memory_order_relaxed);
    if (depth == 0 && function)
        function(pcs, count, most);
    else
        *count = depth;
}

/* Index of the return address `caller`, below which all frames are ours. */
static uint32_t skip_own(const uint64_t *pcs, uint32_t count, uint64_t caller) {
    for (uint32_t i = 0; i < count && i < MAX_OWN; i++)
        if (pcs[i] == caller)
            return i;
    return count;
}

uint32_t alloc_backtrace_take(const struct unwind_registers *here, uint64_t caller, uint64_t *pcs,
                              uint32_t most) {
    struct shared_walk *slot = take_slot(here->value[UNWIND_REG_RSP]);
    uint32_t depth = 0;
    if (slot) {
        const struct module_map *map = atomic_load(&handler_state.map);
        bool has_exact;
        uint32_t whole = map ? walk_callers(slot, &map->walk, here, &has_exact) : 0;
        uint32_t first = skip_own(slot->pcs, whole, caller);
        for (; first < whole && depth < most; depth++)
            pcs[depth] = slot->pcs[first++];
        leave(slot);
    }
    if (depth == 0)
        pcs[depth++] = caller;
    return depth;
}

bool alloc_backtrace_is_quiescent(void) {
    for (uint32_t i = 0; i < ALLOC_BACKTRACE_CACHES; i++) {
        uint64_t state = atomic_load(&slots[i].state);
        uint32_t tries = 0;
        while (state % 2 && atomic_load(&slots[i].state) == state && tries < TRIES)
            tries++;
        if (tries == TRIES)
            return false;
    }
    return true;
}

void alloc_backtrace_after_fork(void) {
    for (uint32_t i = 0; i < ALLOC_BACKTRACE_CACHES; i++)
        atomic_store(&slots[i].state, 0);
}
