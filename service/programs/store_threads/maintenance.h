/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that maintains a store: it deletes what is too old or too much, and lets the engine
 * rebuild its rollups. Thread safety: one thread starts and stops. */
#ifndef SONDE_SERVICE_PROGRAMS_STORE_THREADS_MAINTENANCE_H
#define SONDE_SERVICE_PROGRAMS_STORE_THREADS_MAINTENANCE_H

#include "service/store/store.h"

#define MAINTENANCE_S 60

struct maintenance;

/* Begins at once, then every interval_s. log gets one line when maintenance begins to fail, and one
 * when it works again. The store must outlive the thread. */
SONDE_MUST_USE sonde_err maintenance_start(struct store *store, uint32_t interval_s,
                                           void (*log)(const char *line),
                                           struct maintenance **maintenance,
                                           struct sonde_diag *diag);
/* Waits for a run in progress. NULL is fine. */
void maintenance_stop(struct maintenance *maintenance);

#endif
