/* SPDX-License-Identifier: Apache-2.0
 *
 * The registers of a thread that ptrace has stopped. Each machine has this header, and Bazel
 * chooses one as service/machine/own/trace.h. Any thread. */
#ifndef SONDE_SERVICE_MACHINE_OWN_TRACE_H
#define SONDE_SERVICE_MACHINE_OWN_TRACE_H

#include "service/machine/own/registers.h"

#include <stdbool.h>
#include <string.h>
#include <sys/user.h>

#define TRACE_CAN_RESTART   1 /* a call that returned EINTR, with trace_restart */
#define TRACE_SYSCALL_BYTES 2 /* 0f 05 */

/* All are known. */
static inline void trace_take_registers(struct unwind_registers *registers,
                                        const struct user_regs_struct *from) {
    const uint64_t in_order[UNWIND_REGISTERS] = {
        from->rax, from->rdx, from->rcx, from->rbx, from->rsi, from->rdi,
        from->rbp, from->rsp, from->r8,  from->r9,  from->r10, from->r11,
        from->r12, from->r13, from->r14, from->r15, from->rip};
    memcpy(registers->value, in_order, sizeof in_order);
    registers->known = UNWIND_ALL_KNOWN;
}

/* The system call that the thread is in; -1 = none. */
static inline int64_t trace_call(const struct user_regs_struct *registers) {
    return (int64_t)registers->orig_rax;
}

/* Whether the kernel restarts that call if no handler runs before: it returns -ERESTARTSYS,
 * -ERESTARTNOINTR, -ERESTARTNOHAND or -ERESTART_RESTARTBLOCK. */
static inline bool trace_is_restarted(const struct user_regs_struct *registers) {
    int64_t result = (int64_t)registers->rax;
    return trace_call(registers) >= 0 &&
           (result == -512 || result == -513 || result == -514 || result == -516);
}

/* Whether trace_restart can be used, and the call returns `result` to the program. */
static inline bool trace_returns(const struct user_regs_struct *registers, int64_t result) {
    return (int64_t)registers->rax == result;
}

/* Changes the registers so that the call starts again. */
static inline void trace_restart(struct user_regs_struct *registers) {
    registers->rip -= TRACE_SYSCALL_BYTES;
    registers->rax = registers->orig_rax;
    registers->orig_rax = (unsigned long long)-1;
}

#endif
