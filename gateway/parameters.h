/* SPDX-License-Identifier: Apache-2.0
 *
 * Query parameters that a path does not have. Sonde's own paths refuse each of them, because a
 * mistyped one would start something else than what was asked for. The paths of other systems must
 * ignore what their clients send (Go's tools add `seconds` to any URL), so they only refuse a
 * parameter that is a typing error away from one that the path has. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_PARAMETERS_H
#define SONDE_GATEWAY_PARAMETERS_H

#include "gateway/gateway.h"

enum unknown_parameters {
    UNKNOWN_IGNORED, /* by protocols whose clients send more than they document */
    UNKNOWN_TYPOS,   /* refused if a known one is near, ignored otherwise */
    UNKNOWN_REFUSED,
};

enum unknown_parameters parameters_policy(enum family family);

/* The names of a route's parameters, with those that choose a target. Borrowed from `storage`.
 * Returns the number. */
#define PARAMETERS_MAX     24
#define PARAMETERS_STORAGE 256
size_t parameters_list(const struct route *route, const char *names[PARAMETERS_MAX],
                       char storage[PARAMETERS_STORAGE]);

/* SONDE_INVALID_ARGUMENT: the text names the parameter and the nearest known one, or all. */
SONDE_MUST_USE sonde_err parameters_check(const struct route *route, const struct query *query,
                                          struct sonde_diag *diag);

#endif
