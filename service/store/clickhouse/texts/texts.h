/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads stacks and frames, from the cache as far as it has them. */
#ifndef SONDE_SERVICE_STORE_CLICKHOUSE_TEXTS_TEXTS_H
#define SONDE_SERVICE_STORE_CLICKHOUSE_TEXTS_TEXTS_H

#include "service/store/clickhouse/fleet.h"
#include "service/store/clickhouse/texts/text_cache.h"

/* Adds to the map, which may be empty, the stacks with these services and ids that exist. condition
 * names the services. */
SONDE_MUST_USE sonde_err texts_stacks(struct fleet *fleet, const char *condition,
                                      const char *const *services, const uint64_t *ids,
                                      size_t count, const struct store_stop *stop,
                                      struct text_map *map, struct sonde_diag *diag);
SONDE_MUST_USE sonde_err texts_frames(struct fleet *fleet, const uint64_t *ids, size_t count,
                                      const struct store_stop *stop, struct text_map *map,
                                      struct sonde_diag *diag);

#endif
