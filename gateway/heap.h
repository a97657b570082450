/* SPDX-License-Identifier: Apache-2.0
 *
 * What the heap paths of the families share. The service holds one state per target for all of
 * them; each family keeps its own words for it. In the loop only. */
#ifndef SONDE_GATEWAY_HEAP_H
#define SONDE_GATEWAY_HEAP_H

#include "gateway/exchange.h"

/* Asks HeapStatus, then calls one of the two; the exchange's events are lost. REST shows what is
 * kept of periodic dumps only while sampling is on. A target that cannot be profiled is inactive.
 */
void heap_if_active(struct exchange *exchange, void (*on_active)(struct exchange *exchange),
                    void (*on_inactive)(struct exchange *exchange));

/* HeapActivate and HeapDeactivate for the visit's target; the exchange's events get the answer. */
void heap_activate(struct exchange *exchange, struct visit *visit, uint32_t interval_s,
                   uint64_t sample_bytes);
void heap_deactivate(struct exchange *exchange, bool delete_dumps);

#define HEAP_DEADLINE_MS 30000 /* of switching: the target answers it */

#endif
