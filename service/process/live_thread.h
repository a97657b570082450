/* SPDX-License-Identifier: Apache-2.0
 *
 * When the main thread ends before the others, the kernel shows no memory, mappings, program or
 * root under the process's own pid any more. It still shows them under the other threads. */
#ifndef SONDE_SERVICE_PROCESS_LIVE_THREAD_H
#define SONDE_SERVICE_PROCESS_LIVE_THREAD_H

#include <sys/types.h>

/* The main thread, or another one if the main thread has ended; pid if all have ended. Any
 * thread. */
pid_t process_live_thread(pid_t pid);

#endif
