/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocation windows.
 *
 *     WAITING ── sampler runs ──▶ READING_BASE ── totals are read ──▶ RUNNING ── time is up ──▶
 *     REPORTING, or CLOSING ── second dump arrives ──▶ REPORTING
 *
 * All windows of a target share one sampler, which samples as often as the most demanding window
 * wants. A request with the new settings is sent whenever a window starts or ends. The sampler's
 * totals only grow, so a window is the difference of two readings of its table. Where Sonde's
 * sampler cannot wrap malloc, a window is the difference of two dumps of a jemalloc with
 * prof_accum; READING_BASE and CLOSING wait for these. The jobs of a window run one at a time.
 * Thread safety: engine thread only. */
#ifndef SONDE_SERVICE_ENGINE_ALLOCS_ALLOCS_H
#define SONDE_SERVICE_ENGINE_ALLOCS_ALLOCS_H

#include "service/engine/allocs/alloc_table_view.h"
#include "service/engine/capture/capture.h"

enum allocs_state {
    ALLOCS_WAITING,
    ALLOCS_READING_BASE,
    ALLOCS_RUNNING,
    ALLOCS_CLOSING,
    ALLOCS_REPORTING,
};

struct allocs_window {
    struct engine_capture base;
    struct allocs_window *next; /* on its target */
    struct engine_allocs_spec spec;
    enum allocs_state state;
    uint32_t request_number; /* of the first request for the sampler that included it; 0 = none */
    bool job_runs;
    bool is_gone;     /* the target has ended */
    bool is_reported; /* the last job was started */
    sonde_err err;    /* for on_end */
    struct sonde_diag diag;
    uint64_t start_ns, end_ns, progress_ns; /* 0 = never */
    int64_t start_unix_ns, end_unix_ns;
    struct sonde_buf maps; /* read when the window began, because the process may end before it */
    const struct process_identity *process; /* of the target */
    char allocator[48];

    struct alloc_view *view; /* the table of Sonde's sampler; NULL = jemalloc's dumps */
    struct alloc_sums before;
    int dumps[2]; /* -1 = none */
};

/* allocs.c */
void allocs_detach(struct target *target);
/* Handles the deadlines of the target's windows; returns the next one, 0 = none. */
uint64_t allocs_tick(struct target *target, uint64_t now_ns);

/* allocs_result.c. Worker: builds the window's profile. */
SONDE_MUST_USE sonde_err allocs_build(struct allocs_window *window, struct sonde_profile **profile,
                                      struct engine_metadata *metadata, struct sonde_diag *diag);

#endif
