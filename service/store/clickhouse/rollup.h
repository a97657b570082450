/* SPDX-License-Identifier: Apache-2.0
 *
 * Which hours of a query are answered from rollups. An hour is if the rollup covers as many windows
 * as there are: windows that came later count at once. */
#ifndef SONDE_SERVICE_STORE_CLICKHOUSE_ROLLUP_H
#define SONDE_SERVICE_STORE_CLICKHOUSE_ROLLUP_H

#include "service/store/clickhouse/completeness.h"

struct rollup {
    bool is_used;                 /* the following is set */
    struct sonde_buf generations; /* "(HOUR, GENERATION), ..." for rollup_h */
    bool has_rest;                /* not every hour has a rollup */
    struct sonde_buf rest;        /* the condition of the other samples */
    struct spans spans;           /* of the windows in the rollup */
};

/* Also adds the windows in the rollup to merge. */
SONDE_MUST_USE sonde_err rollup_plan(struct fleet *fleet, const struct store_query *query,
                                     struct rollup *rollup, struct store_merge *merge,
                                     struct sonde_diag *diag);
void rollup_finish(struct rollup *rollup);

#endif
