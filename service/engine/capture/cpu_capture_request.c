/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU captures as callers see them: any thread, refusals at once, the rest by message. */
#include "service/engine/capture/cpu_capture.h"

#define MAX_FREQUENCY 10000u
#define MAX_MS        3600000u
#define MAX_EVERY     (1ull << 40)

sonde_err cpu_capture_check(const struct engine_cpu_spec *spec, struct sonde_diag *diag) {
    if (spec->frequency_hz < 1 || spec->frequency_hz > MAX_FREQUENCY)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "frequency %u: must be 1 to %u Hz",
                          spec->frequency_hz, MAX_FREQUENCY);
    if (spec->every && !sonde_event_is_counted(spec->event))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "period: only counted events are sampled by number, time by frequency");
    if (spec->every > MAX_EVERY)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "period %llu: must be 1 to %llu events",
                          (unsigned long long)spec->every, (unsigned long long)MAX_EVERY);
    if (spec->event == SONDE_GROWTH && spec->window_ms)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "growth: has one profile at its end, not one per window");
    if (spec->duration_ms > MAX_MS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "duration %u ms: must be at most %u",
                          spec->duration_ms, MAX_MS);
    if (spec->window_ms > MAX_MS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "window %u ms: must be at most %u",
                          spec->window_ms, MAX_MS);
    return SONDE_OK;
}

/* NULL when out of memory. */
static struct cpu_capture *create(struct target *target, const struct engine_cpu_spec *spec,
                                  const struct engine_capture_events *events, void *context) {
    struct cpu_capture *capture = cpu_capture_create(target, spec, events, context);
    if (!capture || jobs_prepare_end(capture))
        return capture;
    capture_release(&capture->base); /* the place on the target, */
    capture_release(&capture->base); /* and the handle */
    return NULL;
}

sonde_err cpu_capture_request(struct target *target, const struct engine_cpu_spec *spec,
                              const char *note, const struct engine_capture_events *events,
                              void *context, struct engine_capture **created,
                              struct sonde_diag *diag) {
    struct engine *engine = target->engine;
    bool is_counted = !spec->is_recording;
    *created = NULL;
    sonde_err err = cpu_capture_check(spec, diag);
    if (!err && is_counted)
        err = capture_reserve(target, diag);
    if (err)
        return err;
    struct cpu_capture *capture = create(target, spec, events, context);
    if (!capture) {
        if (is_counted)
            capture_unreserve(target);
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    }
    capture->source_note = note;
    atomic_fetch_add(&engine->streams_running, is_counted && spec->window_ms ? 1 : 0);
    *created = &capture->base;
    return SONDE_OK;
}
