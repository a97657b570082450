/* SPDX-License-Identifier: Apache-2.0
 *
 * The registers of a thread that ptrace has stopped. Each machine has this header, and Bazel
 * chooses one as service/machine/own/trace.h. Any thread.
 *
 * Before a tracer sees a thread that the kernel will restart, the kernel has put back x0 and the
 * pc, so nothing shows that it was in a call. A call that fails has lost its first argument, x0. */
#ifndef SONDE_SERVICE_MACHINE_OWN_TRACE_H
#define SONDE_SERVICE_MACHINE_OWN_TRACE_H

#include "service/machine/own/registers.h"

#include <stdbool.h>
#include <string.h>
#include <sys/user.h>

#define TRACE_CAN_RESTART 0 /* a call that returned EINTR, with trace_restart */

/* All are known. */
static inline void trace_take_registers(struct unwind_registers *registers,
                                        const struct user_regs_struct *from) {
    memcpy(registers->value, from->regs, sizeof from->regs);
    registers->value[UNWIND_REG_SP] = from->sp;
    registers->value[UNWIND_REG_PC] = from->pc;
    registers->known = UNWIND_ALL_KNOWN;
}

/* The system call that the thread is in, or was in last. */
static inline int64_t trace_call(const struct user_regs_struct *registers) {
    return (int64_t)registers->regs[8];
}

/* Whether the kernel may restart a call if no handler runs before. */
static inline bool trace_is_restarted(const struct user_regs_struct *registers) {
    return true;
}

/* Whether trace_restart can be used, and the call returns `result` to the program. */
static inline bool trace_returns(const struct user_regs_struct *registers, int64_t result) {
    return false;
}

static inline void trace_restart(struct user_regs_struct *registers) {
}

#endif
