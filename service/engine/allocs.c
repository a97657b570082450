/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of allocations. */
#include "service/engine/internal.h"

static sonde_err refuse(struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                      "this sonded takes no windows of allocations; use HeapActivate");
}

sonde_err engine_capture_allocs(struct engine *engine, const struct engine_allocs_spec *spec,
                                const struct engine_capture_events *events, void *context,
                                struct engine_capture **capture, struct sonde_diag *diag) {
    *capture = NULL;
    return refuse(diag);
}

sonde_err engine_allocs_start(struct engine *engine, const struct engine_allocs_spec *spec,
                              uint32_t lease_ms, const char *owner,
                              struct engine_session_info *info, struct sonde_diag *diag) {
    return refuse(diag);
}

sonde_err engine_allocs_stop(struct engine *engine, const struct engine_selector *selector,
                             const struct engine_capture_events *events, void *context,
                             struct sonde_diag *diag) {
    return refuse(diag);
}
