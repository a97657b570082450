/* SPDX-License-Identifier: Apache-2.0
 *
 * Putting our handlers in front of the application's. SIGTRAP (perf), one free real-time signal
 * (timer), SIGPROF (process clock). Once installed a handler stays until sonde_stop, capture or
 * not: a signal that was pending when its clock went away must never meet the default action. What
 * the application had, or sets later through sigaction and signal, is kept in signal/chain.h and
 * gets every signal that is not a tick of ours. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_INSTALL_H
#define SONDE_SERVICE_GUEST_SAMPLING_INSTALL_H

#include "service/guest/signal/chain.h"

#include <signal.h>

/* A real-time signal that nobody handles, from SIGRTMAX down; chosen once. 0 = none is free.
 * Control thread. */
int install_timer_signal(void);
/* 0 or an errno. EBUSY: SIGPROF is the application's own. Control thread. */
int install_handler(enum chain_signal which);
/* Whether the kernel still has our handler (somebody may go around our sigaction). Control
 * thread. */
bool install_holds(enum chain_signal which);
/* Puts the application's actions back where no signal is pending in any thread; others stay.
 * Control thread. */
void install_restore(void);
/* In the child of a fork. */
void install_after_fork(void);

/* sigaction for the signals above while our handler is in place; false = not ours, ask the
 * kernel. */
bool install_virtual(int signal, const struct sigaction *action, struct sigaction *old);

#endif
