/* SPDX-License-Identifier: Apache-2.0
 *
 * Which system calls a ptrace stop may interrupt without the program's noticing. Any thread. */
#ifndef SONDE_SERVICE_UNWIND_REMOTE_RESTART_H
#define SONDE_SERVICE_UNWIND_REMOTE_RESTART_H

#include "service/unwind/remote/tracee.h"

/* The kernel goes on with the call by itself, what is left of its timeout included. */
bool restart_is_unseen(pid_t pid, const struct tracee_glance *glance);
/* It returns EINTR after a stop, but waits without a timeout: begun anew it is the same. */
bool restart_is_endless(const struct tracee_glance *glance);
/* Of a stopped thread: it is in a call that goes on afterwards if no handler runs meanwhile. */
bool restart_goes_on(const struct user_regs_struct *registers);
/* Of a stopped thread: a call that may be begun anew is about to return EINTR. (Of a thread that
 * ran a moment ago: its timeout has only just begun.) */
bool restart_was_interrupted(const struct user_regs_struct *registers);
/* Makes that call begin anew. */
void restart_registers(struct user_regs_struct *registers);

#endif
