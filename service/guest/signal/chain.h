/* SPDX-License-Identifier: Apache-2.0
 *
 * The application's own actions for the signals that we use. While our handler is installed,
 * sigaction and signal (hooks/signal_hooks.c) read and write these records, and a signal that is
 * not one of our ticks is handled as the kernel would have done it. A sequence number protects a
 * record: writers hold a lock with all signals masked; a reader tries again while a write is under
 * way. */
#ifndef SONDE_SERVICE_GUEST_SIGNAL_CHAIN_H
#define SONDE_SERVICE_GUEST_SIGNAL_CHAIN_H

#include "service/guest/signal/handler_state.h"

#pragma GCC visibility push(hidden)

enum chain_signal { CHAIN_TRAP, CHAIN_TIMER, CHAIN_PROF, CHAIN_COUNT };

struct chain_action {
    uint64_t handler; /* SIG_DFL, SIG_IGN or a function */
    uint64_t flags;
    uint64_t mask;
};

struct chain {
    _Atomic bool ours; /* our handler is installed */
    _Atomic uint32_t sequence;
    _Atomic uint64_t handler, flags, mask;
};

extern struct chain chains[CHAIN_COUNT];

/* Any thread; signal-safe. */
SONDE_SIGSAFE
struct chain_action chain_read(struct chain *chain);
/* With the lock of sampling/install.c and all signals masked. */
SONDE_SIGSAFE
void chain_write(struct chain *chain, const struct chain_action *action);

/* Handles a signal that is not ours as the application's action says. Signal-safe; does not return
 * if the action ends the process. */
SONDE_SIGSAFE
void chain_pass_on(struct chain *chain, int signal, siginfo_t *info, void *context);

#pragma GCC visibility pop

#endif
