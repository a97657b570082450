/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs that the service's own program does for the command line, which may not link the symbol
 * store: a process of the user who asks reads stdin, writes the answer to stdout and ends. Its exit
 * status is a sonde_err, whose sentence is on stderr. Main thread only. */
#ifndef SONDE_SERVICE_ENGINE_ONCE_ONCE_H
#define SONDE_SERVICE_ENGINE_ONCE_ONCE_H

#include "api/error.h"

#include <stdbool.h>
#include <stddef.h>

struct symbol_store;

/* Whether a job is the only argument of the program. */
bool once_is_asked(int argc, char **argv, const char *job);
/* Prepares the process: its files are only the user's, and it may open as many as it needs. */
SONDE_MUST_USE sonde_err once_begin(struct sonde_diag *diag);
/* Opens a store with the tables in data_dir, or in memory if it is NULL or cannot be used. `worker`
 * is that of symbol_options. */
SONDE_MUST_USE sonde_err once_open_store(const char *data_dir, const char *worker,
                                         struct symbol_store **store, struct sonde_diag *diag);
SONDE_MUST_USE sonde_err once_write(const void *bytes, size_t len, struct sonde_diag *diag);
/* Ends the process. */
_Noreturn void once_end(sonde_err err, const struct sonde_diag *diag);

#endif
