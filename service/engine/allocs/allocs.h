/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocation windows.
 *
 *     WAITING ── sampler runs ──▶ READING_BASE ── totals are read ──▶ RUNNING ── time is up ──▶
 *     REPORTING
 *
 * All windows of a target share one sampler, which samples as often as the most demanding window
 * wants. A request with the new settings is sent whenever a window starts or ends, and the guest
 * stops sampling after the last window, or when sonded is gone. The sampler's totals only grow, so
 * a window is the difference of two readings of its table.
 *
 * Where the sampler cannot wrap malloc, because jemalloc is linked into the program, it runs in
 * jemalloc's hooks (service/guest/heap/jemalloc_hooks.h). jemalloc's own profiler is not used, not
 * even with prof_accum: it would sample at its own rate instead of the window's.
 *
 * The jobs of a window run one at a time. Thread safety: engine thread only. */
#ifndef SONDE_SERVICE_ENGINE_ALLOCS_ALLOCS_H
#define SONDE_SERVICE_ENGINE_ALLOCS_ALLOCS_H

#include "service/engine/capture/capture.h"
#include "service/engine/memory_report/alloc_table_view.h"

enum allocs_state {
    ALLOCS_WAITING,
    ALLOCS_READING_BASE,
    ALLOCS_RUNNING,
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
    const struct mapping_lives *lives; /* when the window ended; retained */
    struct sonde_buf maps; /* read when the window began, because the process may end before it */
    const struct process_identity *process; /* of the target */
    char allocator[48];
    bool has_hooks; /* the sampler runs in jemalloc's hooks, too */
    bool has_other; /* the program has a malloc of its own that the sampler does not see */

    struct alloc_view *view; /* the sampler's table; NULL = the window has not begun */
    struct alloc_sums before;
};

/* allocs.c */
void allocs_detach(struct target *target);
/* Handles the deadlines of the target's windows; returns the next one, 0 = none. */
uint64_t allocs_tick(struct target *target, uint64_t now_ns);

/* Creates a window, which capture_launch starts. Refuses what engine_capture_allocs refuses. */
SONDE_MUST_USE sonde_err allocs_create(struct target *target, const struct engine_allocs_spec *spec,
                                       const struct engine_capture_events *events, void *context,
                                       struct engine_capture **capture, struct sonde_diag *diag);
/* Finds a target with a guest; the caller releases it. */
SONDE_MUST_USE sonde_err allocs_find(struct engine *engine, const struct engine_selector *selector,
                                     struct target **target, struct sonde_diag *diag);

/* allocs_result.c. Worker: builds the window's profile. */
SONDE_MUST_USE sonde_err allocs_build(struct allocs_window *window, struct sonde_profile **profile,
                                      struct engine_metadata *metadata, struct sonde_diag *diag);

#endif
