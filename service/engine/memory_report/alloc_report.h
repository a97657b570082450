/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the sums of Sonde's sampler into what clients get: a profile with names, or a dump in
 * jemalloc's text format for jeprof and other readers of it. Thread safety: a worker. */
#ifndef SONDE_SERVICE_ENGINE_MEMORY_REPORT_ALLOC_REPORT_H
#define SONDE_SERVICE_ENGINE_MEMORY_REPORT_ALLOC_REPORT_H

#include "service/engine/core/engine_state.h"
#include "service/engine/engine.h"
#include "service/engine/memory_report/alloc_table_view.h"
#include "service/engine/memory_report/heap_places.h"
#include "service/process/process_identity.h"

struct alloc_report {
    const struct alloc_view *view;
    const struct alloc_sums *sums;
    const struct process_identity *process;
    struct sonde_slice maps;            /* of the process, as in /proc/PID/maps */
    const struct mapping_lives *lives;  /* of its mappings; NULL = none are known */
    uint64_t mean;                      /* average bytes between samples; 0 = only in the comment */
    bool live;                          /* add the inuse types to the alloc types */
    bool has_hooks;                     /* stacks may start inside jemalloc's code in the program */
    bool keep_frames;                   /* keep the allocator's frames */
    int64_t start_unix_ns, end_unix_ns; /* equal for a snapshot */
    const char *comment;                /* NULL = none */
};

/* Appends at most 16 MiB of /proc/PID/maps; nothing if the process is no longer the one that
 * connected. */
void alloc_report_read_maps(const struct process_identity *process, struct sonde_buf *text);
/* The caller destroys *profile. SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err alloc_report_profile(struct engine *engine,
                                              const struct alloc_report *report,
                                              struct sonde_profile **profile,
                                              struct sonde_diag *diag);
/* Writes the dump. SONDE_TOO_LARGE past the limit of `text`. */
SONDE_MUST_USE sonde_err alloc_report_text(const struct alloc_report *report,
                                           struct sonde_buf *text, struct sonde_diag *diag);
/* The profile of an empty window; NULL when out of memory. */
struct sonde_profile *alloc_report_empty(void);

#endif
