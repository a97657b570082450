/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/signal/handler_state.h"

#include <time.h>

#define QUIESCENCE_TRIES 1000u

/* Zero: its pages are not touched before the first capture. */
struct handler_state handler_state;
__thread struct thread_tags thread_tags;

void handler_report_miss(const struct walk_map *map, const uint64_t *pcs,
                         const struct walk_result *walked) {
    if (walked->end != RING_END_NO_TABLE && walked->fp_frames == 0)
        return;
    if (!atomic_load_explicit(&handler_state.wants_miss, memory_order_relaxed))
        return;
    bool known = true;
    for (uint32_t i = 0; i < walked->depth && known; i++)
        known = walk_map_find(map, (pcs[i] & ~RING_PC_EXACT) - (i > 0)) != NULL;
    if (known || !atomic_exchange(&handler_state.wants_miss, 0))
        return;
    atomic_store_explicit(&handler_state.missed, 1, memory_order_release);
    handler_wake_control();
}

int64_t handler_clock_ns(int clock) {
    struct timespec now = {0};
    clock_gettime(clock, &now);
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
            __builtin_ia32_pause();
        }
    return true;
}
