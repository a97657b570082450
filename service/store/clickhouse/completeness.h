/* SPDX-License-Identifier: Apache-2.0
 *
 * How complete an answer about samples is. */
#ifndef SONDE_SERVICE_STORE_CLICKHOUSE_COMPLETENESS_H
#define SONDE_SERVICE_STORE_CLICKHOUSE_COMPLETENESS_H

#include "service/store/clickhouse/fleet.h"

/* The length of a union of intervals that come in the order of their begins. Zeroed = empty. */
struct spans {
    int64_t total, end;
};
void spans_add(struct spans *spans, int64_t begin, int64_t end);

/* Adds the windows of a query, or (range not NULL) those that fulfil that condition. */
SONDE_MUST_USE sonde_err completeness_add(struct fleet *fleet, const struct store_query *query,
                                          const struct sonde_buf *range, struct spans *spans,
                                          struct store_merge *merge, struct sonde_diag *diag);
/* All of it, except rows_read. */
SONDE_MUST_USE sonde_err fleet_completeness(struct fleet *fleet, const struct store_query *query,
                                            struct store_merge *merge, struct sonde_diag *diag);

#endif
