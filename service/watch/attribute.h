/* SPDX-License-Identifier: Apache-2.0
 *
 * Which hosts and labels a change came with. Thread safety: any thread. Blocks. */
#ifndef SONDE_SERVICE_WATCH_ATTRIBUTE_H
#define SONDE_SERVICE_WATCH_ATTRIBUTE_H

#include "service/watch/explain.h"

struct attribution {
    const struct explaining *explaining;
    int64_t before_unix_s, change_unix_s, until_unix_s; /* begins of slots, and the end */
};

/* Sets change->host if the first function's cost is as it was without that host, of three or more.
 */
SONDE_MUST_USE sonde_err attribute_host(const struct attribution *attribution,
                                        Sonde__V1__Change *change, struct sonde_diag *diag);
/* Adds the labels of which at least a third of the CPU time has other values than before. */
SONDE_MUST_USE sonde_err attribute_labels(const struct attribution *attribution,
                                          Sonde__V1__Change *change, struct sonde_diag *diag);

#endif
