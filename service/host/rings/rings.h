/* SPDX-License-Identifier: Apache-2.0
 *
 * Perf rings: opens cpu-clocks, or a counted event, for all CPUs or for a process and delivers
 * their records in order of time.
 *
 *     all:      several events and one ring per CPU (needs CAP_PERFMON; cpu_clocks.h)
 *     process:  one event per thread and CPU, those of a CPU redirected into one ring per CPU;
 *               threads and children that start later inherit
 *
 * The rings are written by the kernel, so their framing is trusted only after it was checked; a
 * record that breaks a rule is counted and reported as HOST_LOST, and so is what a ring could not
 * take. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_HOST_RINGS_RINGS_H
#define SONDE_SERVICE_HOST_RINGS_RINGS_H

#include "api/error.h"
#include "api/profile/event.h"
#include "service/host/record.h"
#include "service/host/rings/perf_event.h"

/* How descriptors are opened: perf_event_create, or the sampler's. Returns -errno. */
typedef int rings_create_event(void *context, const struct perf_event_spec *spec);

struct rings_options {
    const pid_t *pids; /* processes; with pid_count 0: all processes of the machine */
    size_t pid_count;
    uint64_t period_ns;
    /* ON_CPU, or a counted event: a sample for every so many. 0 = about one in period_ns, for
     * events of the processor (perf_event.h). */
    enum sonde_event_id event;
    uint64_t every;
    uint32_t stack_bytes;
    bool has_kernel;
    bool is_exec_start; /* the one process has not called exec yet: begin there */
    bool is_one;        /* counted: without the children of the process (perf_event.h) */
    size_t
        ring_bytes; /* of each CPU, a power of two of pages; 0 = as much as this user may lock, at
                           most 8 MiB */
    rings_create_event *create;
    void *create_context;
};

struct rings;

/* Opens, but does not start. Takes about 20 us per event, so call it on a worker for a process with
 * many threads. SONDE_PERMISSION_DENIED: the kernel refuses; diag says what would allow it.
 * SONDE_NOT_AVAILABLE: the kernel has no perf, or all processes have gone. SONDE_TOO_LARGE: too
 * many threads for the descriptors that this process may have. For a counted event NOT_AVAILABLE
 * also means that this machine does not count it, and PERMISSION_DENIED that it needs
 * has_kernel. */
SONDE_MUST_USE sonde_err rings_open(const struct rings_options *options, struct rings **rings,
                                    struct sonde_diag *diag);
void rings_close(struct rings *rings);
/* Starts or stops all clocks, at random phases. */
void rings_start(struct rings *rings);
void rings_stop(struct rings *rings);
/* Another period for all clocks. Also called with the same period every few milliseconds: now and
 * then a clock gets another random period, so that no rhythm of a program stays in step. Weights
 * take it into account. Clocks of threads get theirs when they are opened, and keep it; a new
 * period opens them again, which takes as long as rings_open. With `every`, the period is a number
 * of events. */
void rings_set_period(struct rings *rings, uint64_t period);
/* Adds the threads of further processes (a new worker that no watched process has forked). */
SONDE_MUST_USE sonde_err rings_add_process(struct rings *rings, pid_t pid, struct sonde_diag *diag);
/* Delivers the records up to until_ns in order of time over all rings; 0 = all. Records of the last
 * moment may still be on their way on another CPU, so a caller passes a time that is a few
 * milliseconds ago, and 0 after rings_stop. Stops when is_over (may be NULL) says so, asked every
 * 16 records. Returns true if there are more. */
bool rings_drain(struct rings *rings, uint64_t until_ns, host_on_record *on_record, void *context,
                 bool (*is_over)(void *context));
/* The CPU time, since rings_start, of a process that rings_open or rings_add_process was given, and
 * of all that it has started since. Samples cover less of it: neither time in the kernel without
 * has_kernel, nor threads that end within their first period. Takes about a microsecond per event.
 * 0 with all CPUs. */
uint64_t rings_run_ns(const struct rings *rings, pid_t pid);
/* How many counted events have happened since rings_start, with those that have no sample. Takes
 * about a microsecond per event. */
uint64_t rings_total(const struct rings *rings);
/* Readable when a ring is half full, for epoll. */
int rings_poll_fd(const struct rings *rings);

struct rings_counts {
    uint64_t records, bytes, lost, invalid;
    uint64_t sampled; /* counted events that the delivered samples stand for */
    uint32_t rings, events;
    size_t ring_bytes; /* of each */
};
void rings_counts(const struct rings *rings, struct rings_counts *counts);

#endif
