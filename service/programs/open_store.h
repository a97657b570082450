/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a store that may be on another machine, so that a signal ends the program meanwhile. Main
 * thread only. */
#ifndef SONDE_SERVICE_PROGRAMS_OPEN_STORE_H
#define SONDE_SERVICE_PROGRAMS_OPEN_STORE_H

#include "service/store/store.h"

#include <signal.h>

/* store_open on a thread of its own. awaited: the signals that serve_block_signals has blocked;
 * end: the same as limits->end. SIGTERM, SIGINT, and SIGHUP with a terminal start the exit watchdog
 * and stop *end; then it returns SONDE_CANCELLED. Otherwise it returns what store_open does, but a
 * server that is unavailable is a store that opens later (service/programs/late_store.h), with a
 * line of log. */
SONDE_MUST_USE sonde_err open_store(const char *program, const char *name,
                                    const struct store_limits *limits, struct store_stop *end,
                                    const sigset_t *awaited, void (*log)(const char *line),
                                    struct store **store, struct sonde_diag *diag);

#endif
