/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/stack_room.h"

#include "service/guest/signal/tick.h"
#include "service/machine/own/signal_frame.h"

#include <stdatomic.h>
#include <sys/auxv.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

size_t stack_room_needed(void) {
    static _Atomic size_t known; /* CPUID is slow in a virtual machine */
    size_t needed = atomic_load_explicit(&known, memory_order_relaxed);
    if (needed)
        return needed;
    size_t frame = getauxval(AT_MINSIGSTKSZ);
    needed = (frame ? frame : signal_frame_bytes()) - signal_frame_unused() + TICK_STACK;
    atomic_store_explicit(&known, needed, memory_order_relaxed);
    return needed;
}
