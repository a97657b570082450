/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process in a container calls its threads. Thread safety: any thread. */
#ifndef SONDE_SERVICE_PROCESS_INNER_PID_H
#define SONDE_SERVICE_PROCESS_INNER_PID_H

#include <sys/types.h>

/* Returns the thread's id in its innermost pid namespace, as gettid() returns it there; tid if that
 * cannot be read. For the process itself, tid is pid. */
pid_t process_inner_tid(pid_t pid, pid_t tid);

#endif
