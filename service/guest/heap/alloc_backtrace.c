/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/heap/alloc_backtrace.h"

#include "service/guest/raw.h"
#include "service/guest/signal/bounds.h"
#include "service/guest/signal/handler_state.h"

#include <string.h>

#define MOST_PCS   128u /* jemalloc's limit */
#define OWN_FRAME  1u
#define WALKED_PCS (2 * (MOST_PCS + OWN_FRAME)) /* the leaf-most half of a deeper stack is whole */
#define MOST_OWN   8u                           /* frames of ours above the allocation's caller */
#define PATIENCE   1000u

struct place {
    _Atomic uint64_t state; /* grows at each entry and exit: odd = taken */
    uint64_t pcs[WALKED_PCS];
    struct walk_cache cache;
    struct walk_trail trail;
};

static struct place places[ALLOC_BACKTRACE_CACHES];
static _Atomic(alloc_backtrace_function *) original;
static __thread struct walk_stack own_stack __attribute__((tls_model("initial-exec")));

void alloc_backtrace_set_original(alloc_backtrace_function *function) {
    atomic_store(&original, function);
}

/* Ordered before the look at handler_state.map, as a publication is before the look at the
 * states. */
static bool enter(struct place *place) {
    uint64_t state = atomic_load_explicit(&place->state, memory_order_relaxed);
    return state % 2 == 0 && atomic_compare_exchange_strong(&place->state, &state, state + 1);
}

static void leave(struct place *place) {
    uint64_t state = atomic_load_explicit(&place->state, memory_order_relaxed);
    atomic_store_explicit(&place->state, state + 1, memory_order_release);
}

static struct place *take_place(uint64_t sp) {
    uint64_t first = (sp >> 16) * 0x9e3779b97f4a7c15ull >> 58; /* a thread's own, mostly */
    for (uint32_t i = 0; i < ALLOC_BACKTRACE_CACHES; i++) {
        struct place *place = &places[(first + i) % ALLOC_BACKTRACE_CACHES];
        if (enter(place))
            return place;
    }
    return NULL;
}

/* How many of place->pcs are the leaf-most ones without a gap. */
static uint32_t walk_whole(struct place *place, const struct walk_map *map,
                           const struct walk_registers *here, bool *has_exact) {
    struct walk_bounds bounds;
    struct walk_stack extra;
    struct walk_result walked;
    bounds_find_call(here->value[WALK_RSP], &own_stack, &extra, &bounds);
    walk_from_call(here, map, &place->cache, &place->trail, &bounds, place->pcs, WALKED_PCS,
                   &walked);
    handler_report_miss(map, place->pcs, &walked);
    *has_exact = walked.has_exact;
    return walked.gap_at ? walked.gap_at : walked.depth;
}

/* The callers, without our own frame; 0 when there are none. */
static uint32_t walk(struct place *place, const struct walk_map *map,
                     const struct walk_registers *here, void **pcs, uint32_t most) {
    bool has_exact;
    uint32_t whole = walk_whole(place, map, here, &has_exact);
    uint32_t count = whole > OWN_FRAME ? whole - OWN_FRAME : 0;
    if (count > most)
        count = most;
    for (uint32_t i = 0; has_exact && i < whole; i++)
        place->pcs[i] &= ~RING_PC_EXACT;
    memcpy(pcs, place->pcs + OWN_FRAME, count * sizeof *pcs);
    return count > 1 ? count : 0; /* one is the allocator's own */
}

__attribute__((noinline)) void alloc_backtrace_hook(void **pcs, unsigned *count, unsigned most) {
    struct walk_registers here;
    walk_registers_here(&here);
    struct place *place = take_place(here.value[WALK_RSP]);
    uint32_t depth = 0;
    if (place) {
        const struct module_map *map = atomic_load(&handler_state.map);
        depth = map ? walk(place, &map->walk, &here, pcs, most) : 0;
        leave(place);
    }
    alloc_backtrace_function *function = atomic_load_explicit(&original, memory_order_relaxed);
    if (depth == 0 && function)
        function(pcs, count, most);
    else
        *count = depth;
}

/* Where the frames of others begin: at the return address into `caller`. */
static uint32_t skip_own(const uint64_t *pcs, uint32_t count, uint64_t caller) {
    for (uint32_t i = 0; i < count && i < MOST_OWN; i++)
        if (pcs[i] == caller)
            return i;
    return count;
}

uint32_t alloc_backtrace_take(const struct walk_registers *here, uint64_t caller, uint64_t *pcs,
                              uint32_t most) {
    struct place *place = take_place(here->value[WALK_RSP]);
    uint32_t depth = 0;
    if (place) {
        const struct module_map *map = atomic_load(&handler_state.map);
        bool has_exact;
        uint32_t whole = map ? walk_whole(place, &map->walk, here, &has_exact) : 0;
        uint32_t first = skip_own(place->pcs, whole, caller);
        for (; first < whole && depth < most; depth++)
            pcs[depth] = place->pcs[first++];
        leave(place);
    }
    if (depth == 0)
        pcs[depth++] = caller;
    return depth;
}

bool alloc_backtrace_is_quiescent(void) {
    for (uint32_t i = 0; i < ALLOC_BACKTRACE_CACHES; i++) {
        uint64_t state = atomic_load(&places[i].state);
        uint32_t tries = 0;
        while (state % 2 && atomic_load(&places[i].state) == state && tries < PATIENCE)
            tries++;
        if (tries == PATIENCE)
            return false;
    }
    return true;
}

void alloc_backtrace_after_fork(void) {
    for (uint32_t i = 0; i < ALLOC_BACKTRACE_CACHES; i++)
        atomic_store(&places[i].state, 0);
}
