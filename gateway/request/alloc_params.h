/* SPDX-License-Identifier: Apache-2.0
 *
 * What paths for allocations check together. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_ALLOC_PARAMS_H
#define SONDE_GATEWAY_REQUEST_ALLOC_PARAMS_H

#include "api/error.h"

#include <stdbool.h>

/* The longest time in which every allocation is sampled; the service has the same limit. */
#define ALLOC_PARAMS_EVERY_S 60

/* Refuses a longer time if every allocation is to be sampled. The text names the parameters: `time`
 * ("seconds") and `density` ("interval"). */
SONDE_MUST_USE sonde_err alloc_params_check(const char *time, double seconds, const char *density,
                                            bool is_every, struct sonde_diag *diag);

#endif
