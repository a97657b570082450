/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the recorded time of what is selected, for comparisons. Thread safety: the query's
 * worker. */
#ifndef SONDE_SERVICE_RPC_HISTORY_TIME_PARTS_H
#define SONDE_SERVICE_RPC_HISTORY_TIME_PARTS_H

#include "api/profile/diff/time_parts.h"
#include "service/rpc/history/selection.h"

/* How the values of a side are compared. */
struct history_measure {
    double scale;    /* the values are multiplied by it */
    bool by_process; /* amounts are per recorded time of processes, otherwise per time */
};

/* whole: of all of the selection. States have no parts, and parts without windows are left out.
 * Finish parts in any case. Errors: those of history_selection_profile. */
SONDE_MUST_USE sonde_err history_time_parts(struct history_query *query,
                                            const struct history_selection *selection,
                                            const struct store_merge *whole,
                                            const struct history_measure *measure,
                                            struct sonde_time_parts *parts,
                                            struct sonde_diag *diag);

#endif
