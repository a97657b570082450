/* SPDX-License-Identifier: Apache-2.0
 *
 * The signal handlers of the sampling clocks. sampling/install.c installs them with every signal
 * masked. A signal that is not a tick is passed on to the application's own action (chain.h). Errno
 * is preserved. Signal-safe. */
#ifndef SONDE_SERVICE_GUEST_SIGNAL_TICK_H
#define SONDE_SERVICE_GUEST_SIGNAL_TICK_H

#include "service/guest/signal/handler_state.h"

/* Bytes of stack that a handler may use below the kernel's frame. */
#define TICK_STACK 2048u

#pragma GCC visibility push(hidden)

SONDE_SIGSAFE
void tick_on_trap(int signal, siginfo_t *info, void *context); /* SIGTRAP of a perf event */
SONDE_SIGSAFE
void tick_on_timer(int signal, siginfo_t *info, void *context); /* a thread's CPU-time timer */
SONDE_SIGSAFE
void tick_on_prof(int signal, siginfo_t *info, void *context); /* SIGPROF, the process-wide clock */

/* Records a sample at `start` for ticks that a new thread missed because its clock was not armed
 * yet. weight_ns is their CPU time. Called by the thread itself, before its clock runs. */
SONDE_SIGSAFE
void tick_record_start(struct sampled_thread *thread, const struct unwind_registers *start,
                       uint64_t weight_ns);

/* Whether a SIGTRAP is one of our ticks, late ones included. */
SONDE_SIGSAFE
bool tick_is_ours(const siginfo_t *info);

#pragma GCC visibility pop

#endif
