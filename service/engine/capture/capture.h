/* SPDX-License-Identifier: Apache-2.0
 *
 * One capture on the engine thread.
 *
 *     WAITING ──clock runs──▶ RUNNING ──time is up──▶ CLOSING ──last records──▶ REPORTING
 * ──on_end──▶ gone
 *
 * What a capture gathers between two moments is a window; without window_ms there is one. Closing a
 * window moves its counts into a report job. Jobs of one capture run one after the other, so its
 * events do too. Thread safety: engine thread only, but for the reference count and the request
 * flags. */
#ifndef SONDE_SERVICE_ENGINE_CAPTURE_CAPTURE_H
#define SONDE_SERVICE_ENGINE_CAPTURE_CAPTURE_H

#include "service/engine/target.h"

enum capture_state {
    CAPTURE_WAITING = 0,
    CAPTURE_RUNNING,
    CAPTURE_CLOSING,
    CAPTURE_REPORTING,
};

struct window {
    struct report_part parts[REPORT_MAX_PARTS]; /* the last one grows */
    uint32_t part_count;
    uint64_t sequence;
    int64_t start_unix_ns;
    uint64_t start_ns;
    uint64_t samples, truncated;
    uint64_t cut_stacks[RING_END_COUNT];
    uint64_t stacks_full;
    struct tallies base; /* the target's at its start */
};

struct engine_capture {
    _Atomic uint32_t refs;
    bool is_window; /* the handle of a window of allocations (allocs.h) */
    struct engine *engine;
    struct target *target;
    struct engine_capture *next; /* on its target */
    struct engine_cpu_spec spec; /* its selector's strings are not valid any more */
    struct engine_capture_events events;
    void *context;
    struct message start, finish, cancel;
    _Atomic bool finish_asked, cancel_asked;

    enum capture_state state;
    uint64_t period_ns, limit_samples;
    struct {
        double sum;        /* rate x time since the capture began, Hz x ns */
        double lowest_hz;  /* 0 = none yet */
        uint64_t since_ns; /* when the sum was taken */
    } rate;
    uint32_t flush_sequence; /* CLOSING: the CpuState it waits for; 0 = none */
    uint64_t flush_deadline_ns;
    struct thinner thinner;
    struct window window;
    struct tallies first;                                  /* the target's when the clock ran */
    uint64_t start_ns, end_ns, window_end_ns, progress_ns; /* 0 = never */
    uint64_t samples, dropped;
    uint64_t pending; /* samples that the record at hand is */
    bool target_gone;

    struct job *first_job, *last_job;
    uint32_t job_count;
    struct job *running_job;
    struct job *end_job;        /* made beforehand: the end always comes */
    uint64_t names_deadline_ns; /* of the first job, when it is a report */
    bool is_last_event_running; /* on_end is on its way */
    sonde_err report_err;       /* of a profile that could not be built; written by jobs */
    struct sonde_diag report_diag;
};

struct engine_capture *capture_create(struct target *target, const struct engine_cpu_spec *spec,
                                      const struct engine_capture_events *events, void *context);
void capture_retain(struct engine_capture *capture);
void capture_release(struct engine_capture *capture);
/* Posts the start: the capture is on its target from then on. */
void capture_launch(struct engine_capture *capture);

/* captures.c: a place among the target's captures, which jobs and windows give back. */
SONDE_MUST_USE sonde_err captures_reserve(struct engine *engine,
                                          const struct engine_selector *selector,
                                          struct target **target, struct sonde_diag *diag);
void captures_give_back(struct target *target);

/* The clock runs. */
void capture_begin(struct engine_capture *capture, uint64_t now_ns);
bool capture_is_counting(const struct engine_capture *capture);
/* Counts `pending` samples; key NULL: there was no room for the stack. sample NULL: the key is a
 * note. */
void capture_count(struct engine_capture *capture, const struct count_key *key,
                   const struct ring_sample *sample);
/* The target's stacks are renewed: what was counted stays with the old ones. */
bool capture_can_renew(const struct engine_capture *capture);
void capture_renew(struct engine_capture *capture);
/* Its time is up: CLOSING, or REPORTING when nothing more can come. */
void capture_close(struct engine_capture *capture);
/* The last records are in. */
void capture_conclude(struct engine_capture *capture);
/* The rate of ticks changes, or is asked for: the time until now was spent at target->period_ns. */
void capture_note_rate(struct engine_capture *capture, uint64_t now_ns);
/* Ends without a result. */
void capture_fail(struct engine_capture *capture, sonde_err err, const char *text);
/* The window's counts were taken by a report: the next one begins here. */
void capture_next_window(struct engine_capture *capture, uint64_t now_ns, int64_t unix_ns);
/* Deadlines; returns when to look again, 0 = never. */
uint64_t capture_tick(struct engine_capture *capture, uint64_t now_ns);

/* jobs.c: the events. */
void jobs_report(struct engine_capture *capture, uint64_t now_ns);
void jobs_progress(struct engine_capture *capture, uint64_t now_ns);
void jobs_end(struct engine_capture *capture, sonde_err err, const struct sonde_diag *diag);
/* Starts the first job when none runs and its names are there; returns when to look again, 0 = at
 * the next message. */
uint64_t jobs_run(struct engine_capture *capture, uint64_t now_ns);
void jobs_drop_queued(struct engine_capture *capture);
/* Before the capture is launched. False when out of memory. */
bool jobs_prepare_end(struct engine_capture *capture);
void jobs_discard_end(struct engine_capture *capture);

#endif
