/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of windows as rows (stack, thread, value), for sums. */
#ifndef SONDE_SERVICE_STORE_CLICKHOUSE_ROWS_H
#define SONDE_SERVICE_STORE_CLICKHOUSE_ROWS_H

#include "service/store/clickhouse/fleet.h"

/* Appends what stands behind FROM. Of a state only the last window of each process in each step
 * counts; step is an expression, "0" for the whole range. range (may be NULL) replaces the query's
 * event, service and range; not for states. */
void rows_put_source(struct sonde_buf *sql, const struct store_query *query,
                     const struct sonde_buf *range, const char *step);
/* Of a state: these windows, with the columns last (its begin), length_s, count_of (samples),
 * lost_of, period_of and weight_of, and c, the values. */
void rows_put_states(struct sonde_buf *sql, const struct store_query *query, const char *step);

#endif
