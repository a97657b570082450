/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what `perf record` has written, as a pprof file. Stacks are walked and functions named by
 * sonded's own program, in a process that serves nobody and ends with the answer. Main thread
 * only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_SOURCE_PERF_DATA_H
#define SONDE_CLIENTS_CLI_VERBS_SOURCE_PERF_DATA_H

#include "api/bytes.h"
#include "api/error.h"

/* Whether a file begins like a perf.data, also like one that cannot be read here. */
bool perf_data_is_one(struct sonde_slice start);
/* Whether a regular file does; its position stays. */
bool perf_data_is_file(int fd);
/* Appends the pprof file of what is in fd, from its start. SONDE_NOT_AVAILABLE if sonded is not
 * installed; otherwise the reader's errors, with its sentence. */
SONDE_MUST_USE sonde_err perf_data_convert(int fd, struct sonde_buf *pprof,
                                           struct sonde_diag *diag);
/* The same for a file in memory. */
SONDE_MUST_USE sonde_err perf_data_convert_bytes(struct sonde_slice file, struct sonde_buf *pprof,
                                                 struct sonde_diag *diag);

#endif
