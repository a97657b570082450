/* SPDX-License-Identifier: Apache-2.0
 *
 * Has sonded's own program do one job that needs its libraries, in a process that serves nobody and
 * ends with the answer. It has this user's rights. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_RUN_SONDED_ONCE_H
#define SONDE_CLIENTS_CLI_RUN_SONDED_ONCE_H

#include "api/bytes.h"
#include "api/error.h"

/* Runs `sonded ARGUMENT` with the file behind fd as its input, from the start, and appends its
 * output. SONDE_NOT_AVAILABLE if sonded is not installed; otherwise the job's errors, with its
 * sentence. */
SONDE_MUST_USE sonde_err sonded_once(const char *argument, int fd, struct sonde_buf *answer,
                                     struct sonde_diag *diag);
/* The same with input from memory. */
SONDE_MUST_USE sonde_err sonded_once_bytes(const char *argument, struct sonde_slice input,
                                           struct sonde_buf *answer, struct sonde_diag *diag);

#endif
