/* SPDX-License-Identifier: Apache-2.0
 *
 * A session is a capture that runs until it is stopped or its lease ends. A target has one of each
 * kind, and keeps the last result. Thread safety: any thread; takes session_lock. */
#ifndef SONDE_SERVICE_ENGINE_SESSIONS_SESSION_H
#define SONDE_SERVICE_ENGINE_SESSIONS_SESSION_H

#include "service/engine/core/target.h"

/* session_start and session_stop release the target. */
struct session_plan {
    enum session_kind kind;
    const void *spec;
    uint32_t lease_ms;
    const char *owner;
    /* Creates the capture, which the session then launches. */
    sonde_err (*begin)(struct target *target, const struct session_plan *plan,
                       const struct engine_capture_events *events, void *context,
                       struct engine_capture **capture, struct sonde_diag *diag);
    /* NULL, or called once after session_start: when sampling begins, or when it cannot. */
    engine_on_session *on_started;
    void *context;
};
SONDE_MUST_USE sonde_err session_start(struct target *target, const struct session_plan *plan,
                                       struct engine_session_info *info, struct sonde_diag *diag);
SONDE_MUST_USE sonde_err session_stop(struct target *target, enum session_kind kind,
                                      const struct engine_capture_events *events, void *context,
                                      struct sonde_diag *diag);

#endif
