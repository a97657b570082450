/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for frames that were stored without any: by machines that do not have the files. If the
 * engine here has them (uploaded, or of a running process), the names are stored with a higher
 * version, so that all later queries see them.
 *
 *     query's worker   unnamed frames of the store, by build-id ──▶ engine
 *     engine's worker  names ──▶ store
 *     query's worker   waits a little for that, then runs its query
 *
 * Bounded: at most HISTORY_NAMES_FRAMES frames at a time, one round every HISTORY_NAMES_S, and a
 * query waits at most HISTORY_NAMES_WAIT_MS. Thread safety: any thread, except create and destroy.
 */
#ifndef SONDE_SERVICE_RPC_HISTORY_NAMES_H
#define SONDE_SERVICE_RPC_HISTORY_NAMES_H

#include "service/store/store.h"

#define HISTORY_NAMES_FRAMES  4096
#define HISTORY_NAMES_FILES   64 /* build-ids per round */
#define HISTORY_NAMES_S       10
#define HISTORY_NAMES_WAIT_MS 1000

struct engine;
struct history_names;

SONDE_MUST_USE sonde_err history_names_create(struct engine *engine, struct store *store,
                                              struct history_names **names,
                                              struct sonde_diag *diag);
/* Waits for the engine's last answers. NULL is fine. */
void history_names_destroy(struct history_names *names);
/* names may be NULL: then nothing happens. Errors only mean that names stay unknown. */
void history_names_refresh(struct history_names *names, const struct store_stop *stop);

#endif
