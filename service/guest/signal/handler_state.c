/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/signal/handler_state.h"

#include <time.h>

#define QUIESCENCE_TRIES 1000u

/* Zero: its pages are not touched before the first capture. */
struct handler_state handler_state;
__thread struct thread_tags thread_tags;

/* Whether a pc is in no known module. The walk has found no rule for such a pc. */
static bool has_missed(const struct walk_map *map, const uint64_t *pcs,
                       const struct walk_result *walked) {
    if (walked->end != RING_END_NO_TABLE && walked->fp_frames == 0)
        return false;
    for (uint32_t i = 0; i < walked->depth; i++)
        if (!walk_map_find(map, (pcs[i] & ~RING_PC_EXACT) - (i > 0)))
            return true;
    return false;
}

void handler_report_miss(const struct walk_map *map, const uint64_t *pcs,
                         const struct walk_result *walked) {
    if (!atomic_load_explicit(&handler_state.wants_miss, memory_order_relaxed))
        return;
    if (!has_missed(map, pcs, walked) || !atomic_exchange(&handler_state.wants_miss, 0))
        return;
    atomic_store_explicit(&handler_state.missed, 1, memory_order_release);
    handler_wake_control();
}

static uint32_t youngest(const struct module_map *map, const uint64_t *pcs, uint32_t depth) {
    uint32_t young = map->oldest;
    for (uint32_t i = 0; i < depth; i++) {
        uint64_t pc = (pcs[i] & ~RING_PC_EXACT) - (i > 0);
        if (pc < map->young_low || pc >= map->young_high)
            continue;
        const struct walk_module *module = walk_map_find(&map->walk, pc);
        uint32_t born = module ? map->born[module - map->walk.modules] : 0;
        young = born > young ? born : young;
    }
    return young;
}

void handler_place(const struct module_map *map, const uint64_t *pcs,
                   const struct walk_result *walked, struct handler_place *place) {
    uint32_t closes = atomic_load(&handler_state.closes);
    place->has_missed = has_missed(&map->walk, pcs, walked);
    if (place->has_missed || closes != atomic_load(&map->closes)) {
        place->generation = map->generation;
        place->closes = closes;
    } else {
        place->generation = youngest(map, pcs, walked->depth);
        place->closes = HANDLER_PLACE_SETTLED;
    }
}

static _Atomic(handler_clock_function *) clock_function;

void handler_set_clock(handler_clock_function *function) {
    atomic_store(&clock_function, function);
}

int64_t handler_clock_ns(int clock) {
    struct timespec now = {0};
    handler_clock_function *function = atomic_load_explicit(&clock_function, memory_order_relaxed);
    if (function)
        function(clock, &now);
    else
        system_call3(SYS_clock_gettime, clock, (long)&now, 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct sampled_thread *handler_find_thread(uint32_t tid) {
    if (!handler_state.thread_by_tid || tid >= HANDLER_TIDS)
        return NULL;
    uint32_t number = atomic_load_explicit(&handler_state.thread_by_tid[tid], memory_order_acquire);
    return number ? &handler_state.threads[number - 1] : NULL;
}

bool handler_is_quiescent(uint32_t limit) {
    if (atomic_load(&handler_state.process_handlers))
        return false;
    for (uint32_t i = 0; i < limit; i++)
        for (uint32_t tries = 0; atomic_load(&handler_state.threads[i].in_handler); tries++) {
            if (tries == QUIESCENCE_TRIES)
                return false;
            system_pause();
        }
    return true;
}
