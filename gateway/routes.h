/* SPDX-License-Identifier: Apache-2.0
 *
 * Every path, one row each. A new endpoint is a new row; tests compare the table with the OpenAPI
 * contract and with the index page. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_ROUTES_H
#define SONDE_GATEWAY_ROUTES_H

#include "gateway/gateway.h"

const struct route *route_table(size_t *count);
/* NULL when there is none; path without the target's prefix. */
const struct route *route_find(struct sonde_slice path);
/* The family of a path, whether it exists or not. */
enum family route_family(struct sonde_slice path);

#endif
