/* SPDX-License-Identifier: Apache-2.0
 *
 * Installs our signal handlers in front of the application's: SIGTRAP (perf), one unused real-time
 * signal (timers) and SIGPROF (the process-wide clock). A handler stays installed until sonde_stop,
 * even without a capture, because a signal that was pending when its clock was disarmed must not
 * meet the default action. The action that the application had, or sets later, is kept in
 * signal/chain.h, and gets every signal that is not one of our ticks. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_INSTALL_H
#define SONDE_SERVICE_GUEST_SAMPLING_INSTALL_H

#include "service/guest/signal/chain.h"

#include <signal.h>

/* Chooses, once, the highest real-time signal without a handler. 0 = all have one. Control thread
 * only. */
int install_timer_signal(void);
/* 0 or an errno; EBUSY: the application handles SIGPROF itself. Control thread only. */
int install_handler(enum chain_signal which);
/* Whether the kernel still has our handler. A program can replace it by a raw system call. Control
 * thread only. */
bool install_holds(enum chain_signal which);
/* Restores the application's actions for the signals that are not pending in any thread. Control
 * thread, or after it has ended. */
void install_restore(void);
/* In the child of a fork. */
void install_after_fork(void);

/* sigaction for the application. Returns true if our handler is installed for this signal: then the
 * remembered action was read and changed. If not, call the kernel. Any thread; signal-safe. */
bool install_virtual(int signal, const struct sigaction *action, struct sigaction *old);

#endif
