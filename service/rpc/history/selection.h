/* SPDX-License-Identifier: Apache-2.0
 *
 * What a request selects: checked, with its selector parsed. Thread safety: any thread. */
#ifndef SONDE_SERVICE_RPC_HISTORY_SELECTION_H
#define SONDE_SERVICE_RPC_HISTORY_SELECTION_H

#include "proto/sonde/v1/history.pb-c.h"
#include "service/rpc/history/query.h"
#include "service/store/profile.h"

struct history_selection {
    struct store_query query; /* its texts point into the message */
    struct selector *selector;
    bool host_totals;
};

/* sent may be NULL: everything on a CPU. `field` is the name in error messages: "selection".
 * SONDE_INVALID_ARGUMENT names the field, and the byte offset in a selector. */
SONDE_MUST_USE sonde_err history_selection_read(const struct history_query *query,
                                                const Sonde__V1__Selection *sent, const char *field,
                                                struct history_selection *selection,
                                                struct sonde_diag *diag);
/* The same from the fields of a list. */
SONDE_MUST_USE sonde_err history_range_read(const struct history_query *query, int64_t from_unix_ns,
                                            int64_t until_unix_ns, char *selector,
                                            struct history_selection *selection,
                                            struct sonde_diag *diag);
/* Zeroed memory is fine. */
void history_selection_finish(struct history_selection *selection);

/* The sum of what is selected as a profile, which the caller destroys; its other texts live in the
 * query's arena. Names frames that have none yet, if this machine can. */
SONDE_MUST_USE sonde_err history_selection_profile(struct history_query *query,
                                                   const struct history_selection *selection,
                                                   struct store_profile *profile,
                                                   struct sonde_diag *diag);

/* How complete an answer is: counts what was found, and asks the store which hosts were silent
 * (coverage.c). The lists are in the query's arena. The caller adds the statement. */
SONDE_MUST_USE sonde_err history_completeness(struct history_query *query,
                                              const struct history_selection *selection,
                                              const struct store_merge *merge,
                                              Sonde__V1__Completeness *completeness,
                                              struct sonde_diag *diag);

#endif
