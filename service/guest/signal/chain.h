/* SPDX-License-Identifier: Apache-2.0
 *
 * The application's own idea of the signals we use. While our handler is the kernel's, sigaction
 * and signal (interposed, see service/guest/hooks) read and write these records instead, and a
 * signal that is not one of our ticks is passed on as the kernel would have done it. A record is
 * guarded by a sequence number: written outside handlers, under a lock and with all signals masked;
 * read here without waiting for longer than such a write takes. */
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
    _Atomic bool ours; /* the kernel's handler is ours */
    _Atomic uint32_t sequence;
    _Atomic uint64_t handler, flags, mask;
};

extern struct chain chains[CHAIN_COUNT];

/* Any thread; signal-safe. */
SONDE_SIGSAFE
struct chain_action chain_read(struct chain *chain);
/* Under the writers' lock only; signals masked. */
SONDE_SIGSAFE
void chain_write(struct chain *chain, const struct chain_action *action);

/* Does with a foreign signal what the application asked for. May not return (default action). */
SONDE_SIGSAFE
void chain_pass_on(struct chain *chain, int signal, siginfo_t *info, void *context);

#pragma GCC visibility pop

#endif
