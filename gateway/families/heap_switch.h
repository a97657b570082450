/* SPDX-License-Identifier: Apache-2.0
 *
 * Switching heap profiling, for the families that offer it. The service holds one state per target
 * for all of them; each family has its own paths and texts for it. In the loop only. */
#ifndef SONDE_GATEWAY_FAMILIES_HEAP_SWITCH_H
#define SONDE_GATEWAY_FAMILIES_HEAP_SWITCH_H

#include "gateway/reply/relay.h"

/* Calls on_active or on_inactive as HeapStatus says; replaces the relay's events. A target that
 * cannot be profiled counts as inactive. Used because the documents promise that periodic dumps are
 * only visible while sampling is active. */
void heap_if_active(struct relay *relay, void (*on_active)(struct relay *relay),
                    void (*on_inactive)(struct relay *relay));

/* Refuses a request because heap profiling is inactive: NOT_AVAILABLE with the service's advice if
 * the target cannot be profiled as it runs, NOT_ACTIVE otherwise. */
void heap_refuse_inactive(struct relay *relay);

/* How to start sampling; 0 in a field is the service's default. */
struct heap_switch {
    uint64_t interval_s, sample_bytes, keep_dumps;
    Sonde__V1__HeapState__Backend backend;
};

/* The seed documents promise jemalloc's own profiler, or an error that says how to get it. */
#define HEAP_SWITCH_PROMISED \
    { .backend = SONDE__V1__HEAP_STATE__BACKEND__JEMALLOC }

/* Reads `interval` (0 to 86400 s), `keep` (1 to 10000 dumps) and `backend` (jemalloc, interposed);
 * absent ones leave *wanted unchanged. */
SONDE_MUST_USE sonde_err heap_switch_read(const struct query *query, struct heap_switch *wanted,
                                          struct sonde_diag *diag);

/* Calls HeapActivate or HeapDeactivate for the relay's target. The answer goes to the relay's
 * events. */
void heap_activate(struct relay *relay, const struct request_context *context,
                   const struct heap_switch *wanted);
void heap_deactivate(struct relay *relay, bool delete_dumps);

#define HEAP_DEADLINE_MS 30000 /* switching waits for the target */

#endif
