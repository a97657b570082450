/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts a range of the history into blocks, and what `sonde leaks` knows of each: which processes
 * lived at its end, and how much CPU time the service used. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_LEAKS_BLOCKS_H
#define SONDE_CLIENTS_CLI_VERBS_LEAKS_BLOCKS_H

#include "api/profile/verdict/leak.h"
#include "clients/cli/history.h"

#define BLOCKS_LEAST_S 120 /* live memory is recorded once a minute */

struct blocks {
    struct service *service;
    const char *name, *selector;                /* of the service; selector may be NULL */
    int64_t from_unix_s, block_s, first_unix_s; /* first_unix_s: of the first record */
    size_t count;
    uint32_t processes[LEAK_MAX_BLOCKS]; /* that lived at the end; 0 = nothing is recorded */
    bool is_changed[LEAK_MAX_BLOCKS];    /* other processes lived at the end of the block before */
    double traffic[LEAK_MAX_BLOCKS];     /* CPU time, in ns */
    Sonde__V1__QuerySeriesResponse *memory; /* live memory by version and process */
};

/* service, name and selector are set. The blocks begin with the range or with its first record.
 * SONDE_NOT_FOUND: the range has no live memory. SONDE_INVALID_ARGUMENT: it is too short. */
SONDE_MUST_USE sonde_err blocks_read(struct blocks *blocks, const struct history_range *range,
                                     struct sonde_diag *diag);
void blocks_finish(struct blocks *blocks);

struct history_range blocks_range(const struct blocks *blocks, size_t block);
/* The version whose first record is nearest to the block's, and at most two blocks away; NULL =
 * none appeared then. */
const char *blocks_version(const struct blocks *blocks, size_t block);
/* SONDE_INVALID_ARGUMENT with what to do, for so many seconds of recorded live memory. */
sonde_err blocks_refuse_short(int64_t recorded_s, struct sonde_diag *diag);

#endif
