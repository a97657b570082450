/* SPDX-License-Identifier: Apache-2.0
 *
 * Leases in memory, for engines that only one process uses. They are lost with the process; holders
 * renew theirs soon. Thread safety: any thread. */
#ifndef SONDE_SERVICE_STORE_LEASES_H
#define SONDE_SERVICE_STORE_LEASES_H

#include "service/store/store.h"

#define LEASES_MAX 1024 /* of all groups */

struct leases;

struct leases *leases_create(void);         /* NULL when out of memory */
void leases_destroy(struct leases *leases); /* NULL is fine */

/* As store_ops.lease; now_ms is on a monotonic clock. */
SONDE_MUST_USE sonde_err leases_renew(struct leases *leases,
                                      const struct store_lease_request *wanted, int64_t now_ms,
                                      struct sonde_arena *arena, struct store_lease **live,
                                      size_t *count, struct sonde_diag *diag);

#endif
