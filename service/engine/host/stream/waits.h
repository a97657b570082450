/* SPDX-License-Identifier: Apache-2.0
 *
 * Time off the CPU of a stream's processes, for its targets in mode off-cpu and wall.
 *
 *     OFF ── a target wants it ──▶ OPENING ──▶ BPF   every switch, and looks at the threads that
 *                                      │             were blocked before, until they run
 *                                      └─────▶ LOOK  looks at all threads, where the kernel takes
 *                                                    no BPF program from this sonded
 *
 * Looks are jobs on a worker, one at a time (waits_job.c); the rest runs on the engine thread. */
#ifndef SONDE_SERVICE_ENGINE_HOST_STREAM_WAITS_H
#define SONDE_SERVICE_ENGINE_HOST_STREAM_WAITS_H

#include "service/engine/host/stream/look.h"
#include "service/engine/host/stream/stream.h"
#include "service/host/bpf/off_cpu.h"

#define WAITS_STACK_BYTES    8192u /* copied at each switch */
#define WAITS_FLUSH_NS       500000000ull
#define WAITS_MAX_PER_SECOND 20000u      /* records of a stream */
#define WAITS_MAX_PROCESSES  4096u       /* looked at; the others' waits are missing without BPF */
#define WAITS_ROUND_NS       20000000ull /* CPU time of one round of looks */
#define WAITS_SHARE          50u         /* rounds take 1/50 of a CPU */

enum waits_state { WAITS_OFF = 0, WAITS_OPENING, WAITS_BPF, WAITS_LOOK };

struct waits_process {
    pid_t pid;
    struct look *look; /* NULL: not looked at yet, or gone */
    bool is_gone;
    bool has_uncounted; /* look->waits of its last round */
};

struct waits_job;

struct waits {
    struct host_stream *stream;
    enum waits_state state;
    struct off_cpu *off_cpu;       /* BPF */
    char why[192];                 /* LOOK: why there is no BPF */
    uint64_t period_ns;            /* the shortest that the targets want; 0 = none wants any */
    uint64_t asked_ns, flushed_ns; /* all up to flushed_ns is counted */
    uint64_t next_ns;              /* the next round of looks; 0 = none */
    uint64_t next_flush_ns; /* BPF: of threads that stay blocked, for windows and live views */
    bool has_refused;       /* the kernel hides stacks of blocked threads */

    struct waits_job *job; /* while it runs, `processes` is the job's */
    struct waits_process *processes;
    uint32_t count;
    pid_t *pending; /* processes that joined while a job ran */
    uint32_t pending_count;
};

/* The targets' wall periods have changed, or one of them asks for what is known of blocked
 * threads. */
void waits_ask(struct host_stream *stream);
/* Whether a target wants the locks that threads wait for. */
bool waits_want_locks(const struct host_stream *stream);
/* Whether time counts already. */
bool waits_are_ready(const struct host_stream *stream);
/* Whether all up to the last waits_ask is counted. */
bool waits_are_flushed(const struct host_stream *stream);
/* Starts jobs and counts their results; returns when to call again, 0 = at the next job's end. */
uint64_t waits_tick(struct host_stream *stream, uint64_t now_ns);
/* Handles the records of the BPF program. True when there are more. */
bool waits_drain(struct host_stream *stream, bool (*is_over)(void *context));
/* A process of the stream has forked, or runs another program. */
void waits_on_fork(struct host_stream *stream, pid_t parent, struct host_process *child);
void waits_on_exec(struct host_process *process);
/* "" = nothing to say. */
void waits_note(const struct host_stream *stream, char *text, size_t size);
void waits_destroy(struct host_stream *stream);

/* waits_job.c */
/* Opens the BPF program and begins with the looks, or runs a round of looks. False when out of
 * memory. */
bool waits_start_opening(struct waits *waits);
bool waits_start_round(struct waits *waits, bool is_last);
/* Their results. off_cpu NULL: no BPF, because of diag. Takes off_cpu and processes. */
void waits_opened(struct waits *waits, struct off_cpu *off_cpu, const struct sonde_diag *diag,
                  struct waits_process *processes, uint32_t count, bool is_all);
void waits_rounded(struct waits *waits, bool is_last, uint64_t began_ns, uint64_t next_ns);

#endif
