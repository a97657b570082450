/* SPDX-License-Identifier: Apache-2.0
 *
 * From sums of our own sampler to what clients get: a profile with names, or text as jemalloc
 * writes its dumps, which jeprof and everything else that reads those can read. Thread safety: a
 * worker. */
#ifndef SONDE_SERVICE_ENGINE_ALLOCS_ALLOC_REPORT_H
#define SONDE_SERVICE_ENGINE_ALLOCS_ALLOC_REPORT_H

#include "service/engine/allocs/alloc_table_view.h"
#include "service/engine/engine.h"

#include <sys/types.h>

struct alloc_report {
    const struct alloc_view *view;
    const struct alloc_sums *sums;
    pid_t pid;
    struct sonde_slice maps;            /* of the process, as /proc/PID/maps tells them */
    uint64_t mean;                      /* bytes between samples; 0 = told by the comment only */
    bool live;                          /* inuse types beside alloc types */
    int64_t start_unix_ns, end_unix_ns; /* of a window; 0 = now */
    const char *comment;                /* NULL = none */
};

/* Appends /proc/PID/maps, at most 16 MiB of it. */
void alloc_report_read_maps(pid_t pid, struct sonde_buf *text);
/* *profile is the caller's to destroy. SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err alloc_report_profile(struct engine *engine,
                                              const struct alloc_report *report,
                                              struct sonde_profile **profile,
                                              struct sonde_diag *diag);
/* The dump; SONDE_TOO_LARGE past text's limit. */
SONDE_MUST_USE sonde_err alloc_report_text(const struct alloc_report *report,
                                           struct sonde_buf *text, struct sonde_diag *diag);
/* A profile of a window without anything in it; NULL when out of memory. */
struct sonde_profile *alloc_report_empty(void);

#endif
