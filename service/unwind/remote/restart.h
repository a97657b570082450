/* SPDX-License-Identifier: Apache-2.0
 *
 * Which system calls a ptrace stop may interrupt without the program noticing. Any thread. */
#ifndef SONDE_SERVICE_UNWIND_REMOTE_RESTART_H
#define SONDE_SERVICE_UNWIND_REMOTE_RESTART_H

#include "service/machine/own/trace.h"
#include "service/unwind/remote/tracee.h"

/* Whether the kernel continues the call by itself, with the rest of its timeout. */
bool restart_is_transparent(pid_t pid, const struct tracee_snapshot *snapshot);
/* Whether the call returns EINTR after a stop but has no timeout, so that a restart makes no
 * difference. */
bool restart_has_no_timeout(const struct tracee_snapshot *snapshot);
/* Returns whether a stopped thread's call is about to return EINTR and may be restarted. (If the
 * thread ran a moment ago, the call's timeout has only just begun.) */
bool restart_was_interrupted(const struct user_regs_struct *registers);

#endif
