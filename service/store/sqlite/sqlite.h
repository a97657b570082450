/* SPDX-License-Identifier: Apache-2.0
 *
 * The store of one machine: a SQLite file, DIR/history.db, that needs no setup.
 *
 *     stream   a service's event              hour    what a stream has in an hour
 *     chunk    windows of some minutes        rollup  the sums of a finished hour
 *     labels   who was recorded               stack, frame, module, text    what was running
 *     delivery which (source, epoch, seq) are stored
 *
 * A put appends one chunk per stream and minute, so windows can be queried at once. When an hour is
 * over, maintain merges its chunks into a few large ones and sums them up. Numbers of stacks and
 * frames are dense, so columns of them compress well.
 *
 * A put is one transaction that is synced to disk before it returns: neither kill -9 nor a power
 * cut loses or doubles what was acknowledged, if the disk keeps what it has synced. Queries read a
 * snapshot and do not wait for puts. Only one process may have the file open. */
#ifndef SONDE_SERVICE_STORE_SQLITE_SQLITE_H
#define SONDE_SERVICE_STORE_SQLITE_SQLITE_H

#include "service/store/store.h"

/* Creates the directory and the file if they are missing. SONDE_UNAVAILABLE: another service has
 * the file open; SONDE_IO, SONDE_CORRUPT, SONDE_NOT_AVAILABLE: the text says what to do. */
SONDE_MUST_USE sonde_err sqlite_store_open(const char *directory, const struct store_limits *limits,
                                           struct store **store, struct sonde_diag *diag);
/* For queries only, of a file on a disk that cannot be written. Changes nothing. */
SONDE_MUST_USE sonde_err sqlite_store_open_read_only(const char *directory,
                                                     const struct store_limits *limits,
                                                     struct store **store, struct sonde_diag *diag);

#endif
