/* SPDX-License-Identifier: Apache-2.0
 *
 * A store that could not be opened yet: a full disk, a ClickHouse that starts later. Each operation
 * tries to open it, at most once a second, and is SONDE_UNAVAILABLE with the reason until that
 * works. So a recording keeps its windows in memory, and every answer says why there is none. A
 * file on a disk that is read-only can be queried meanwhile. */
#ifndef SONDE_SERVICE_PROGRAMS_LATE_STORE_H
#define SONDE_SERVICE_PROGRAMS_LATE_STORE_H

#include "service/store/store.h"

#define LATE_RETRY_MS 1000

/* After store_open has failed with `reason`, which log gets now; it gets another line when the
 * store is open. NULL when out of memory. */
struct store *late_store_create(const char *name, const struct store_limits *limits,
                                const char *reason, void (*log)(const char *line));

#endif
