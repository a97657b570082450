/* SPDX-License-Identifier: Apache-2.0
 *
 * The route table: one row per path. A new endpoint is a new row; tests compare the table with
 * api/rest/openapi.yaml. Paths are given without a target's prefix (/t/NAME). Thread safety: any
 * thread. */
#ifndef SONDE_GATEWAY_ROUTES_H
#define SONDE_GATEWAY_ROUTES_H

#include "gateway/gateway.h"

const struct route *route_table(size_t *count);
/* NULL if there is no such path. */
const struct route *route_find(struct sonde_slice path);
/* Finds the route of a path that sends a profile and ends with an extension:
 * /debug/pprof/profile.svg. *extension is the rest after the route's path; it need not be a
 * format's. */
const struct route *route_find_extended(struct sonde_slice path, struct sonde_slice *extension);
/* The family of a path, even of one that does not exist. */
enum family route_family(struct sonde_slice path);

#endif
