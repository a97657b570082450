/* SPDX-License-Identifier: Apache-2.0
 *
 * What callers hold: the part that a CPU capture (cpu_capture.h) and an allocation window
 * (allocs.h) have in common. Each of them embeds this struct and brings an operations table.
 *
 * A capture holds two references when it is created: the caller's handle and its place on the
 * target, which it gives up after its last event. Thread safety: engine thread only, except for the
 * reference count and the request flags, which any thread may use. */
#ifndef SONDE_SERVICE_ENGINE_CAPTURE_CAPTURE_H
#define SONDE_SERVICE_ENGINE_CAPTURE_CAPTURE_H

#include "api/base/container_of.h"
#include "service/engine/core/target.h"

struct capture_ops {
    /* Puts the capture on its target's list. */
    void (*enlist)(struct engine_capture *capture);
    /* Starts sampling; the target is attached. */
    void (*begin)(struct engine_capture *capture);
    /* Ends the capture without a result, unless its last event is on its way. */
    void (*fail)(struct engine_capture *capture, sonde_err err, const char *text);
    /* Any thread: frees the struct that embeds the capture. The last reference is gone. */
    void (*destroy)(struct engine_capture *capture);
};

struct engine_capture {
    const struct capture_ops *ops;
    _Atomic uint32_t refs;
    struct engine *engine;
    struct target *target; /* retained */
    struct engine_capture_events events;
    void *context;
    struct message start, finish, cancel, cut;
    _Atomic bool is_finish_requested, is_cancel_requested, is_cut_posted;
    bool is_cut_due; /* the next tick ends the window */
};

void capture_init(struct engine_capture *capture, const struct capture_ops *ops,
                  struct target *target, const struct engine_capture_events *events, void *context);
void capture_retain(struct engine_capture *capture);
void capture_release(struct engine_capture *capture);
/* Posts the start. The engine thread enlists the capture and begins it, or fails it when the target
 * has ended meanwhile. */
void capture_launch(struct engine_capture *capture);

/* Takes one of the target's ENGINE_CAPTURES_PER_TARGET places. Any thread. */
SONDE_MUST_USE sonde_err capture_reserve(struct target *target, struct sonde_diag *diag);
/* Gives the place back. Any thread. */
void capture_unreserve(struct target *target);

#endif
