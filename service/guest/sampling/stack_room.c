/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/stack_room.h"

#include "service/guest/signal/tick.h"

#include <cpuid.h>
#include <sys/auxv.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
#define FRAME_HEAD 1024u /* of the kernel's frame: siginfo, context, red zone, alignment */
#define XSAVE_LEAF 13u

static size_t frame_of_cpu(void) {
    unsigned enabled = 512, b = 0, c = 0, d = 0; /* FXSAVE's area */
    unsigned eax;
    if (__get_cpuid_count(XSAVE_LEAF, 0, &eax, &b, &c, &d) && b > enabled)
        enabled = b;
    return FRAME_HEAD + enabled;
}

size_t stack_room_needed(void) {
    size_t frame = getauxval(AT_MINSIGSTKSZ);
    return (frame ? frame : frame_of_cpu()) + TICK_STACK;
}
