/* SPDX-License-Identifier: Apache-2.0
 *
 * What the heap paths of the families share. The service holds one state per target for all of
 * them; each family keeps its own words for it. In the loop only. */
#ifndef SONDE_GATEWAY_FAMILIES_TIKV_HEAP_H
#define SONDE_GATEWAY_FAMILIES_TIKV_HEAP_H

#include "gateway/request/relay.h"

/* Asks HeapStatus, then calls one of the two; the relay's events are lost. REST shows what is
 * kept of periodic dumps only while sampling is on. A target that cannot be profiled is inactive.
 */
void heap_if_active(struct relay *relay, void (*on_active)(struct relay *relay),
                    void (*on_inactive)(struct relay *relay));

/* Answers a relay whose target does not profile: with what would make it possible when that is
 * more than to activate (NOT_AVAILABLE), else NOT_ACTIVE. */
void heap_refuse_inactive(struct relay *relay);

/* How sampling is to be switched on. */
struct heap_switch {
    uint64_t interval_s, sample_bytes;
    Sonde__V1__HeapState__Backend backend;
};

/* The documents that Sonde keeps promise jemalloc's profiling, or an error that says how to get it.
 */
#define HEAP_SWITCH_PROMISED \
    { .backend = SONDE__V1__HEAP_STATE__BACKEND__JEMALLOC }

/* Reads `interval` and `backend` into *wanted. */
SONDE_MUST_USE sonde_err heap_read_switch(const struct query *query, struct heap_switch *wanted,
                                          struct sonde_diag *diag);

/* HeapActivate and HeapDeactivate for the visit's target; the relay's events get the answer. */
void heap_activate(struct relay *relay, struct visit *visit, const struct heap_switch *wanted);
void heap_deactivate(struct relay *relay, bool delete_dumps);

#define HEAP_DEADLINE_MS 30000 /* of switching: the target answers it */

#endif
