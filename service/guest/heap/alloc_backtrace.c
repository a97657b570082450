/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/heap/alloc_backtrace.h"

#include "service/guest/held.h"
#include "service/guest/raw.h"
#include "service/guest/signal/bounds.h"
#include "service/guest/signal/handler_state.h"
#include "service/machine/own/here.h"

#include <string.h>

#define MAX_PCS    128u /* jemalloc's limit */
#define OWN_FRAME  1u
#define WALKED_PCS (2 * (MAX_PCS + OWN_FRAME)) /* a deeper stack keeps its whole leaf-most half */
#define MAX_OWN    8u                          /* our frames below the allocation's caller */
#define TRIES      1000u                       /* of alloc_backtrace_is_quiescent, per walk */

_Static_assert(ALLOC_END_NO_TABLE_YET == RING_END_COUNT, "the ends of walks, and one more");
_Static_assert(ALLOC_PLACE_SETTLED == HANDLER_PLACE_SETTLED, "stored as the handler says it");

struct shared_walk {
    _Atomic uint64_t state; /* grows at each take and return: odd = in use */
    uint64_t pcs[WALKED_PCS];
    struct walk_cache cache;
    struct walk_memo memo;
};

static struct shared_walk slots[ALLOC_BACKTRACE_CACHES];
static _Atomic(alloc_backtrace_function *) original;
static _Atomic bool uses_places;
static __thread struct walk_stack own_stack __attribute__((tls_model("initial-exec")));

void alloc_backtrace_set_original(alloc_backtrace_function *function) {
    atomic_store(&original, function);
}

void alloc_backtrace_use_places(bool uses) {
    atomic_store(&uses_places, uses);
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

/* Walks into slot->pcs. The place's gap_at is left to keep_halves. */
static void walk_callers(struct shared_walk *slot, const struct module_map *map,
                         const struct unwind_registers *here, struct walk_result *walked,
                         struct alloc_place *place) {
    struct walk_bounds bounds;
    struct walk_stack extra;
    struct handler_place where;
    bounds_find_call(here->value[UNWIND_REG_SP], &own_stack, &extra, &bounds);
    walk_from_call(here, &map->walk, &slot->cache, &slot->memo, &bounds, slot->pcs, WALKED_PCS,
                   walked);
    handler_report_miss(&map->walk, slot->pcs, walked);
    handler_place(map, slot->pcs, walked, &where);
    *place = (struct alloc_place){where.generation, where.closes, walked->end, 0};
    if (walked->end == RING_END_NO_TABLE && (where.has_missed || !map->is_complete))
        place->end = ALLOC_END_NO_TABLE_YET;
}

/* Copies the walked pcs from number `first` on. If they are too many, or the walk has left some
 * out, only the leaf-most and the root-most half of `most` are copied. Returns their number. */
static uint32_t keep_halves(const uint64_t *from, uint32_t first, const struct walk_result *walked,
                            uint64_t *pcs, uint32_t most, struct alloc_place *place) {
    uint32_t count = walked->depth > first ? walked->depth - first : 0;
    bool has_root = (walked->end != RING_END_DEPTH || walked->gap_at > 0) &&
                    atomic_load_explicit(&uses_places, memory_order_relaxed);
    if (count > most || walked->gap_at > first) {
        uint32_t most_leaf = walked->gap_at > first ? walked->gap_at - first : count;
        uint32_t leaf = has_root ? most / 2 : most < most_leaf ? most : most_leaf;
        uint32_t root = has_root ? most - leaf : 0;
        memcpy(pcs, from + first, leaf * sizeof *pcs);
        memcpy(pcs + leaf, from + walked->depth - root, root * sizeof *pcs);
        place->end = RING_END_DEPTH;
        place->gap_at = (uint8_t)(has_root ? leaf : 0);
        return leaf + root;
    }
    memcpy(pcs, from + first, count * sizeof *pcs);
    return count;
}

/* A settled place in the oldest generation needs no tag if the stack is complete. map: NULL = there
 * is none. */
static uint32_t append_tags(const struct module_map *map, const struct alloc_place *place,
                            uint64_t *pcs, uint32_t count) {
    bool is_settled = map && place->closes == ALLOC_PLACE_SETTLED;
    if (!atomic_load_explicit(&uses_places, memory_order_relaxed))
        return count;
    if (is_settled && place->end == RING_END_ROOT && place->generation == map->oldest)
        return count;
    if (!is_settled)
        pcs[count++] = alloc_closes_tag_of(place);
    pcs[count++] = alloc_tag_of(place);
    return count;
}

/* Writes the callers without our own frame. Returns 0 when there are none. */
static uint32_t walk(struct shared_walk *slot, const struct module_map *map,
                     const struct unwind_registers *here, uint64_t *pcs, uint32_t most) {
    struct walk_result walked;
    struct alloc_place place;
    if (most <= ALLOC_TAGS)
        return 0;
    walk_callers(slot, map, here, &walked, &place);
    uint32_t count = keep_halves(slot->pcs, OWN_FRAME, &walked, pcs, most - ALLOC_TAGS, &place);
    for (uint32_t i = 0; walked.has_exact && i < count; i++)
        pcs[i] &= ~RING_PC_EXACT;
    if (count <= 1) /* one pc is the allocator itself */
        return 0;
    return append_tags(map, &place, pcs, count);
}

/* Takes jemalloc's own backtrace instead. */
static uint32_t walk_originally(const struct module_map *map, uint64_t *pcs, uint32_t most) {
    alloc_backtrace_function *function = atomic_load_explicit(&original, memory_order_relaxed);
    struct handler_place where = {.closes = atomic_load(&handler_state.closes)};
    unsigned count = 0;
    if (!function || most <= ALLOC_TAGS)
        return 0;
    function((void **)pcs, &count, most - ALLOC_TAGS);
    if (count == 0)
        return 0;
    struct walk_result walked = {.depth = count, .fp_frames = 1}; /* any pc may be unknown */
    if (map) {
        handler_report_miss(&map->walk, pcs, &walked);
        handler_place(map, pcs, &walked, &where);
    }
    /* Without a generation the closes tell nothing, and would make other stacks of equal ones. */
    uint32_t closes = where.generation ? where.closes : 0;
    struct alloc_place place = {where.generation, closes, RING_END_ROOT, 0};
    return append_tags(map, &place, pcs, count);
}

__attribute__((noinline)) void alloc_backtrace_hook(void **pcs, unsigned *count, unsigned most) {
    struct unwind_registers here;
    unwind_registers_here(&here);
    struct shared_walk *slot = take_slot(here.value[UNWIND_REG_SP]);
    const struct module_map *map = slot ? atomic_load(&handler_state.map) : NULL;
    uint32_t depth = map ? walk(slot, map, &here, (uint64_t *)pcs, most) : 0;
    *count = depth ? depth : walk_originally(map, (uint64_t *)pcs, most);
    if (slot)
        leave(slot);
}

/* Index of the return address `caller`, below which all frames are ours. */
static uint32_t skip_own(const uint64_t *pcs, uint32_t count, uint64_t caller) {
    for (uint32_t i = 0; i < count && i < MAX_OWN; i++)
        if (pcs[i] == caller)
            return i;
    return count;
}

uint32_t alloc_backtrace_take(const struct unwind_registers *here, uint64_t caller, uint64_t *pcs,
                              uint32_t most, struct alloc_place *place) {
    struct shared_walk *slot = take_slot(here->value[UNWIND_REG_SP]);
    uint32_t depth = 0;
    if (slot) {
        const struct module_map *map = atomic_load(&handler_state.map);
        struct walk_result walked = {0};
        if (map)
            walk_callers(slot, map, here, &walked, place);
        uint32_t first = skip_own(slot->pcs, walked.depth, caller);
        depth = keep_halves(slot->pcs, first, &walked, pcs, most, place);
        leave(slot);
    }
    if (depth > 0)
        return depth;
    *place = (struct alloc_place){.end = RING_END_BAD_STACK};
    pcs[0] = caller;
    return 1;
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
