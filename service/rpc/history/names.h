/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for frames that were stored without any: by machines that do not have the files. If a namer
 * here has them (sonded's engine: uploaded, or of a running process; sonde-history:
 * service/programs/name_files.h), the names are stored with a higher version, so that all later
 * queries see them.
 *
 *     query's worker   unnamed frames of the store, by build-id ──▶ namer
 *     namer's worker   names ──▶ store
 *     query's worker   waits a little for that, then runs its query
 *
 * Bounded: at most HISTORY_NAMES_FRAMES frames at a time, one round every HISTORY_NAMES_S, and a
 * query waits at most HISTORY_NAMES_WAIT_MS. Thread safety: any thread, except create and destroy.
 */
#ifndef SONDE_SERVICE_RPC_HISTORY_NAMES_H
#define SONDE_SERVICE_RPC_HISTORY_NAMES_H

#include "service/engine/engine.h"
#include "service/store/store.h"

#define HISTORY_NAMES_FRAMES  4096
#define HISTORY_NAMES_FILES   64 /* build-ids per round */
#define HISTORY_NAMES_S       10
#define HISTORY_NAMES_WAIT_MS 1000

struct history_names;

/* Resolves offsets in files. */
struct history_namer {
    /* The mappings of `source` have one build-id and stay valid until on_answer has returned; the
     * addresses are copied. Calls on_answer once, on any thread, unless it returns an error. */
    sonde_err (*ask)(void *context, const struct engine_symbol_source *source,
                     const uint64_t *addresses, size_t count, engine_on_symbols *on_answer,
                     void *answer_context);
    void *context;
};

/* The engine's symbol store as a namer. */
struct history_namer history_engine_namer(struct engine *engine);

SONDE_MUST_USE sonde_err history_names_create(struct history_namer namer, struct store *store,
                                              struct history_names **names,
                                              struct sonde_diag *diag);
/* Waits for the namer's last answers. NULL is fine. */
void history_names_destroy(struct history_names *names);
/* names may be NULL: then nothing happens. Errors only mean that names stay unknown. */
void history_names_refresh(struct history_names *names, const struct store_stop *stop);

#endif
