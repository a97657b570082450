/* SPDX-License-Identifier: Apache-2.0
 *
 * The jobs of a CPU capture, shared by jobs.c and progress.c. Thread safety: the engine thread
 * creates and frees them. */
#ifndef SONDE_SERVICE_ENGINE_CAPTURE_JOBS_H
#define SONDE_SERVICE_ENGINE_CAPTURE_JOBS_H

#include "service/engine/capture/cpu_capture.h"

enum job_kind { JOB_REPORT, JOB_PROGRESS, JOB_END };

/* A sampled address with its number of samples. */
struct leaf {
    struct mapping *mapping;
    uint64_t pc;
    uint64_t count;
};

struct capture_job {
    struct job job;
    struct capture_job *next;    /* waiting in its capture */
    struct cpu_capture *capture; /* retained */
    enum job_kind kind;
    struct report_input report;
    struct {
        struct engine_progress event;
        struct stacks *stacks; /* retained: it owns the leaves' mappings */
        struct leaf *leaves;
        uint32_t count;
        uint64_t total;
    } progress;
    struct {
        sonde_err err;
        struct sonde_diag diag;
        bool has_diag;
    } end;
};

/* NULL when out of memory. */
struct capture_job *job_create(struct cpu_capture *capture, enum job_kind kind,
                               void (*perform)(struct job *));
void job_enqueue(struct cpu_capture *capture, struct capture_job *job);
void job_push_front(struct cpu_capture *capture, struct capture_job *job);
/* progress.c: while a report waits for names. True if a progress job was put in front of it. */
bool jobs_wait_progress(struct cpu_capture *capture, const struct report_input *report,
                        uint64_t now_ns);

#endif
