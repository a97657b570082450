/* SPDX-License-Identifier: Apache-2.0
 *
 * How complete an answer about samples is. */
#ifndef SONDE_SERVICE_STORE_CLICKHOUSE_COMPLETENESS_H
#define SONDE_SERVICE_STORE_CLICKHOUSE_COMPLETENESS_H

#include "service/store/clickhouse/fleet.h"

/* What is known of a process from its windows, and the sums of that over all processes: the windows
 * that would fit, and the CPU time that the kernel counted and that was sampled. */
#define SQL_OF_PROCESS                                                                  \
    "count() AS n, sum(window_s) AS covered, max(toUInt32(ts) + window_s) - "           \
    "min(toUInt32(ts)) AS span, max(cpu_clock_ms) AS clock, max(weight) * 1000000 * "   \
    "(max(cpu_clock_ms) - minIf(cpu_clock_ms - cpu_ms, cpu_clock_ms > 0)) AS counted, " \
    "sumIf(samples * period_ns * weight, cpu_clock_ms > 0) AS sampled"
#define SQL_EXPECTED "sum(greatest(n, toUInt64(span * n / covered + 0.5)))"
#define SQL_COUNTED  "toInt64(sum(counted))"
#define SQL_SAMPLED  "toInt64(sumIf(sampled, clock > 0))"

/* Intervals in any order. Zeroed = none. */
struct spans {
    struct sonde_buf list;
    int64_t last; /* the largest begin */
};
void spans_add(struct spans *spans, int64_t begin, int64_t end);
/* Fills the merge's wall_ns, first_unix_s and last_unix_s, and frees the intervals.
 * SONDE_OUT_OF_MEMORY if one was lost. */
SONDE_MUST_USE sonde_err spans_take(struct spans *spans, struct store_merge *merge);

/* Adds the windows of a query, or (range not NULL) those that fulfil that condition. Of a state,
 * the windows that count in each `step` (rows.h). */
SONDE_MUST_USE sonde_err completeness_add(struct fleet *fleet, const struct store_query *query,
                                          const struct sonde_buf *range, const char *step,
                                          struct spans *spans, struct store_merge *merge,
                                          struct sonde_diag *diag);
/* The merge's drawn processes. */
SONDE_MUST_USE sonde_err fleet_add_drawn(struct fleet *fleet, const struct store_query *query,
                                         const char *step, struct store_merge *merge,
                                         struct sonde_diag *diag);
/* All of it, except rows_read. */
SONDE_MUST_USE sonde_err fleet_completeness(struct fleet *fleet, const struct store_query *query,
                                            const char *step, struct store_merge *merge,
                                            struct sonde_diag *diag);

#endif
