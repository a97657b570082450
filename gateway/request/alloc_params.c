/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/alloc_params.h"

sonde_err alloc_params_check(const char *time, double seconds, const char *density, bool is_every,
                             struct sonde_diag *diag) {
    if (!is_every || seconds <= ALLOC_PARAMS_EVERY_S)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "%s=%g with %s=1: every allocation can be sampled for %d seconds at most; "
                      "shorten %s, or change %s to sample less",
                      time, seconds, density, ALLOC_PARAMS_EVERY_S, time, density);
}
