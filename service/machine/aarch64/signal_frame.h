/* SPDX-License-Identifier: Apache-2.0
 *
 * How much stack the kernel takes for a signal's frame. Each machine has this header, and Bazel
 * chooses one as service/machine/own/signal_frame.h. Any thread. */
#ifndef SONDE_SERVICE_MACHINE_OWN_SIGNAL_FRAME_H
#define SONDE_SERVICE_MACHINE_OWN_SIGNAL_FRAME_H

#include "service/machine/own/registers.h"

#include <signal.h>
#include <stddef.h>

_Static_assert(offsetof(ucontext_t, uc_mcontext.regs) == UNWIND_CONTEXT_REGISTERS,
               "walks read the interrupted registers there");

/* Bytes of a frame without SVE: siginfo, context and their records. For old kernels that do not
 * report the size (AT_MINSIGSTKSZ). */
static inline size_t signal_frame_bytes(void) {
    return 128 + sizeof(ucontext_t) + 64;
}

/* Of AT_MINSIGSTKSZ, what only threads that have asked for it need. */
static inline size_t signal_frame_unused(void) {
    return 0;
}

#endif
