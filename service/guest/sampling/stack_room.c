/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/stack_room.h"

#include "service/guest/signal/tick.h"

#include <cpuid.h>
#include <stdatomic.h>
#include <sys/auxv.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
#define FRAME_HEAD 1024u /* of the kernel's frame: siginfo, context, red zone, alignment */
#define XSAVE_LEAF 13u
#define TILES      18 /* XSAVE's component of AMX's tile data */

static size_t frame_of_cpu(void) {
    unsigned enabled = 512, b = 0, c = 0, d = 0; /* FXSAVE's area */
    unsigned eax;
    if (__get_cpuid_count(XSAVE_LEAF, 0, &eax, &b, &c, &d) && b > enabled)
        enabled = b;
    return FRAME_HEAD + enabled;
}

/* The area for AMX's tiles, if the kernel lets programs ask for them. A bit of XCR0 says so. */
static size_t tiles_of_cpu(void) {
    unsigned a, b, c, d, enabled, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    __asm__("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
    if (!(enabled >> TILES & 1) || !__get_cpuid_count(XSAVE_LEAF, TILES, &a, &b, &c, &d))
        return 0;
    return a;
}

size_t stack_room_needed(void) {
    static _Atomic size_t known; /* CPUID is slow in a virtual machine */
    size_t needed = atomic_load_explicit(&known, memory_order_relaxed);
    if (needed)
        return needed;
    size_t frame = getauxval(AT_MINSIGSTKSZ);
    needed = (frame ? frame : frame_of_cpu()) - tiles_of_cpu() + TICK_STACK;
    atomic_store_explicit(&known, needed, memory_order_relaxed);
    return needed;
}
