/* SPDX-License-Identifier: Apache-2.0
 *
 * How much stack the kernel takes for a signal's frame. Each machine has this header, and Bazel
 * chooses one as service/machine/own/signal_frame.h. Any thread. */
#ifndef SONDE_SERVICE_MACHINE_OWN_SIGNAL_FRAME_H
#define SONDE_SERVICE_MACHINE_OWN_SIGNAL_FRAME_H

#include <cpuid.h>
#include <stddef.h>

#define FRAME_HEAD  1024u /* siginfo, context, red zone, alignment */
#define FRAME_XSAVE 13u   /* CPUID's leaf */
#define FRAME_TILES 18    /* XSAVE's component of AMX's tile data */

/* Bytes of a frame, if the kernel does not say it (AT_MINSIGSTKSZ). */
static inline size_t signal_frame_bytes(void) {
    unsigned enabled = 512, b = 0, c = 0, d = 0; /* FXSAVE's area */
    unsigned eax;
    if (__get_cpuid_count(FRAME_XSAVE, 0, &eax, &b, &c, &d) && b > enabled)
        enabled = b;
    return FRAME_HEAD + enabled;
}

/* Of AT_MINSIGSTKSZ, what only threads that have asked for it need: the area for AMX's tiles, if
 * the kernel lets programs ask. A bit of XCR0 says so. */
static inline size_t signal_frame_unused(void) {
    unsigned a, b, c, d, enabled, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    __asm__("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
    if (!(enabled >> FRAME_TILES & 1) ||
        !__get_cpuid_count(FRAME_XSAVE, FRAME_TILES, &a, &b, &c, &d))
        return 0;
    return a;
}

#endif
