/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the target of a CPU capture and starts it. */
#include "service/engine/capture/cpu_capture.h"
#include "service/engine/targets/find_target.h"

sonde_err engine_capture_cpu(struct engine *engine, const struct engine_cpu_spec *spec,
                             const struct engine_capture_events *events, void *context,
                             struct engine_capture **capture, struct sonde_diag *diag) {
    struct target *target;
    const char *note;
    *capture = NULL;
    if (atomic_load(&engine->is_ending))
        return sonde_fail(diag, SONDE_UNAVAILABLE, "the service is shutting down");
    sonde_err err = cpu_capture_check(spec, diag);
    if (!err)
        err = find_for_cpu(engine, spec, &target, &note, diag);
    if (err)
        return err;
    err = cpu_capture_request(target, spec, note, events, context, capture, diag);
    target_release(target);
    if (!err)
        capture_launch(*capture);
    return err;
}
