/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of allocations, on the engine thread.
 *
 *     WAITING ──the sampler runs──▶ BASING ──totals read──▶ RUNNING ──time is up──▶ REPORTING
 * ──on_end──▶ gone
 *
 * All windows of a target share one sampler, as dense as the densest of them wants: it is asked for
 * when a window comes and when one goes, and totals only grow, so a window is the difference of two
 * readings of its table. Where our sampler cannot stand in malloc's place, two dumps of jemalloc
 * with prof_accum do (BASING and CLOSING wait for them). The handle's refs, flags, events and
 * messages are those of a capture. Jobs of a window run one at a time. Thread safety: engine thread
 * only, but for the handle. */
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
    uint32_t request_number; /* number of the demand that has it in */
    bool job_runs, is_gone, is_reported;
    sonde_err err; /* how it ends */
    struct sonde_diag diag;
    uint64_t start_ns, end_ns, progress_ns; /* 0 = never */
    int64_t start_unix_ns, end_unix_ns;
    struct sonde_buf maps; /* of its beginning: the process may end before it does */
    pid_t pid;
    char allocator[48];

    struct alloc_view *view; /* our sampler's table; NULL = jemalloc's dumps */
    struct alloc_sums before;
    int dumps[2]; /* -1 = not there */
};

/* allocs.c */
void allocs_detach(struct target *target);
/* Returns when to look again, 0 = never. */
uint64_t allocs_tick(struct target *target, uint64_t now_ns);

/* allocs_result.c. Worker: what the window saw. */
SONDE_MUST_USE sonde_err allocs_build(struct allocs_window *window, struct sonde_profile **profile,
                                      struct engine_metadata *metadata, struct sonde_diag *diag);

#endif
