/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a store by its name: "sqlite:DIR" or "clickhouse:URL", where URL is
 * http[s]://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][,URL...]. */
#ifndef SONDE_SERVICE_STORE_OPEN_H
#define SONDE_SERVICE_STORE_OPEN_H

#include "service/store/store.h"

/* Creates what is missing (directory, file, tables). SONDE_INVALID_ARGUMENT: no such kind, or the
 * name is malformed; SONDE_IO, SONDE_UNAVAILABLE: the text says what to do. */
SONDE_MUST_USE sonde_err store_open(const char *name, const struct store_limits *limits,
                                    struct store **store, struct sonde_diag *diag);
/* The same, for queries only; creates and changes nothing. SONDE_NOT_AVAILABLE: the engine
 * cannot. */
SONDE_MUST_USE sonde_err store_open_read_only(const char *name, const struct store_limits *limits,
                                              struct store **store, struct sonde_diag *diag);

#endif
