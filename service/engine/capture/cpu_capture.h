/* SPDX-License-Identifier: Apache-2.0
 *
 * One CPU, wall-clock or off-CPU capture.
 *
 *     WAITING ── clock runs ──▶ RUNNING ── time is up ──▶ CLOSING ── last records ──▶ REPORTING
 *
 * A window is what a capture counts between two reports; without window_ms the whole capture is one
 * window. Closing a window moves its counts into a report job. The jobs of a capture run one after
 * the other, so its events never overlap. Thread safety: engine thread only. */
#ifndef SONDE_SERVICE_ENGINE_CAPTURE_CPU_CAPTURE_H
#define SONDE_SERVICE_ENGINE_CAPTURE_CPU_CAPTURE_H

#include "service/engine/capture/capture.h"
#include "service/engine/counting/downsampler.h"
#include "service/engine/counting/time_bins.h"
#include "service/engine/report/report.h"

enum capture_state {
    CAPTURE_WAITING = 0,
    CAPTURE_RUNNING,
    CAPTURE_CLOSING,
    CAPTURE_REPORTING,
};

struct window {
    struct report_part parts[REPORT_MAX_PARTS]; /* new samples go to the last one */
    uint32_t part_count;
    uint64_t sequence;
    int64_t start_unix_ns;
    uint64_t start_ns;
    uint64_t samples, truncated;
    uint64_t cut_stacks[STACK_ENDS];
    uint64_t forgotten;                   /* samples of generations that are no longer known */
    uint64_t stacks_full, lacking_memory; /* samples that were dropped here */
    struct time_bins bins;                /* unused without spec.has_timeline */
    struct totals base;                   /* the target's when the window began */
};

struct capture_job;
struct growth; /* growth.h */
struct spent;  /* samples.h */

struct cpu_capture {
    struct engine_capture base;
    struct cpu_capture *next;    /* on its target */
    struct engine_cpu_spec spec; /* without its selector, whose strings were the caller's */
    const char *source_note;     /* why its source was chosen; "" = nothing to say */

    enum capture_state state;
    uint64_t period_ns; /* between two samples; by_number: a number of events */
    uint64_t unit;      /* what a count stands for: the period, or at a rate one event */
    uint64_t limit_samples;
    uint64_t longest_period;    /* by_number: that max_overhead led to */
    bool is_counted, by_number; /* spec.event is a counted one; with spec.every */
    struct {
        double sum;        /* of rate x time, in Hz x ns */
        double lowest_hz;  /* 0 = none yet */
        uint64_t since_ns; /* the sum covers the time until then */
    } rate;
    uint32_t flush_sequence; /* CLOSING: waits for the CpuState with this number; 0 = none */
    uint64_t flush_deadline_ns;
    struct downsampler downsampler;
    struct window window;
    struct growth *growth; /* a capture of growth; NULL otherwise */
    struct report_growth grown;
    struct totals first;                                   /* the target's when the clock ran */
    uint64_t start_ns, end_ns, window_end_ns, progress_ns; /* 0 = never */
    uint64_t wait_end_ns; /* WAITING: when it fails; 0 = never: a recording by a guest */
    uint64_t closed_ns, closed_cpu_ns; /* when it became CLOSING, and the target's CPU time then */
    uint64_t samples, dropped;
    uint64_t pending;              /* number of samples that the record being drained stands for */
    struct time_span pending_span; /* their time */
    double pending_waits;          /* likewise */
    bool are_waits_samples;        /* a source did not know how many waits there were */
    bool target_gone, target_execed;

    struct capture_job *first_job, *last_job, *running_job;
    uint32_t job_count;
    struct capture_job *end_job; /* allocated with the capture, so that on_end cannot fail */
    uint64_t names_deadline_ns; /* how long the first job, a report, waits for names; 0 = not yet */
    bool is_last_event_running;
    sonde_err report_err; /* of a profile that could not be built; written by jobs */
    struct sonde_diag report_diag;
};

/* cpu_capture_request.c, any thread: refuses rates and times out of bounds. */
SONDE_MUST_USE sonde_err cpu_capture_check(const struct engine_cpu_spec *spec,
                                           struct sonde_diag *diag);
/* The same; then takes a place on the target and creates the capture, for capture_launch. The note
 * is static text, as of find_for_cpu. */
SONDE_MUST_USE sonde_err cpu_capture_request(struct target *target,
                                             const struct engine_cpu_spec *spec, const char *note,
                                             const struct engine_capture_events *events,
                                             void *context, struct engine_capture **capture,
                                             struct sonde_diag *diag);

/* NULL when out of memory. */
struct cpu_capture *cpu_capture_create(struct target *target, const struct engine_cpu_spec *spec,
                                       const struct engine_capture_events *events, void *context);
/* The clock runs: opens the first window. */
void cpu_capture_begin(struct cpu_capture *capture, uint64_t now_ns);
/* It has really begun: sets when it ends, and when its first progress event is due. */
void cpu_capture_set_times(struct cpu_capture *capture, uint64_t now_ns);
bool cpu_capture_is_counting(const struct cpu_capture *capture);
/* Counts `pending` samples under the key, or drops them when there is no key: the tables are
 * full. */
void cpu_capture_count(struct cpu_capture *capture, const struct count_key *key,
                       const struct spent *spent);
/* The target starts an empty stack table: a new part of the window counts with it. */
bool cpu_capture_can_renew(const struct cpu_capture *capture);
void cpu_capture_renew(struct cpu_capture *capture);
/* The time is up: the state becomes CLOSING, or REPORTING when no more records can arrive. */
void cpu_capture_close(struct cpu_capture *capture);
/* The last records are counted. A capture of growth first waits for the last look at the
 * process. */
void cpu_capture_conclude(struct cpu_capture *capture);
/* Adds the time since the last call at the target's present rate. Call it before the rate changes
 * and before the sum is read. */
void cpu_capture_note_rate(struct cpu_capture *capture, uint64_t now_ns);
/* Ends the capture without a result, unless its last event is on its way. */
void cpu_capture_fail(struct cpu_capture *capture, sonde_err err, const char *text);
/* A report has taken the window's counts: opens the next window. */
void cpu_capture_next_window(struct cpu_capture *capture, uint64_t now_ns, int64_t unix_ns);
/* Checks the deadlines; returns when to call again, 0 = never. */
uint64_t cpu_capture_tick(struct cpu_capture *capture, uint64_t now_ns);

/* jobs.c: the events. */
void jobs_report(struct cpu_capture *capture, uint64_t now_ns);
void jobs_progress(struct cpu_capture *capture, uint64_t now_ns);
void jobs_end(struct cpu_capture *capture, sonde_err err, const struct sonde_diag *diag);
/* Starts the first job if none is running and its names are available. Returns when to call again,
 * 0 = at the next message. */
uint64_t jobs_run(struct cpu_capture *capture, uint64_t now_ns);
void jobs_drop_queued(struct cpu_capture *capture);
/* Allocates the job of the last event. False when out of memory. */
bool jobs_prepare_end(struct cpu_capture *capture);
void jobs_discard_end(struct cpu_capture *capture);

#endif
