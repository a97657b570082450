/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/guest.h"
#include "service/guest/held.h"
#include "service/guest/hooks/hooks.h"
#include "service/guest/libc.h"
#include "service/guest/signal/handler_state.h"

static int (*real_dlclose)(void *);

__attribute__((constructor(101))) static void find_real(void) {
    real_dlclose = (int (*)(void *))libc_find_next("dlclose");
}

HOOK int dlclose(void *library) {
    if (!real_dlclose)
        find_real();
    atomic_fetch_add(&handler_state.closes, 1);
    int result = real_dlclose ? real_dlclose(library) : -1;
    atomic_fetch_add(&handler_state.closes, 1); /* a reading of the maps in between is outdated */
    bool uses_maps = atomic_load_explicit(&handler_state.sampling, memory_order_relaxed) ||
                     atomic_load_explicit(&guest.keeps_maps, memory_order_relaxed);
    if (uses_maps && !held_from_calls() &&
        !atomic_exchange(&guest.reread_maps, true)) /* one wake-up for many */
        handler_wake_control();
    return result;
}
