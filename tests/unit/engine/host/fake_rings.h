/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings whose records the test writes, in an engine without a thread: the test runs its rounds. The
 * sampled process is a child that sleeps. It was forked by the test, so stacks of the test are also
 * stacks in the child's code. */
#ifndef SONDE_TESTS_UNIT_ENGINE_HOST_FAKE_RINGS_H
#define SONDE_TESTS_UNIT_ENGINE_HOST_FAKE_RINGS_H

#include "service/engine/capture/cpu_capture.h"
#include "service/engine/host/stream/stream.h"
#include "tests/unit/check.h"
#include "tests/unit/engine/collect.h"

#include <sys/types.h>

#define MS          1000000ull
#define GHOST       ((pid_t)5000000) /* beyond pid_max: never a process */
#define STACK_BYTES 4096u

struct bench {
    struct place place;
    struct engine *engine;
    struct collected collected;
    struct engine_capture *capture;
    pid_t child;
    uint64_t time_ns; /* of the next record */
    uint64_t step_ns; /* between two records, and what a sample stands for; 1 ms at first */
};

/* What the engine has asked of the rings. */
struct fake_rings {
    bool refuses_all; /* sampling of all processes, as for an ordinary user */
    bool refuses_processes;
    uint32_t opened;              /* number of sets */
    uint32_t open_sets;           /* not closed */
    struct rings_options options; /* of the last set */
    pid_t added[8];               /* by rings_add_process */
    uint32_t added_count;
    uint64_t period_ns;
    uint64_t invalid; /* for rings_counts */
    uint64_t total;   /* counted events */
    uint64_t sampled; /* of these, what delivered samples stand for */
    size_t queued;    /* records that were not delivered yet */
};
extern struct fake_rings fake;

void bench_init(struct bench *bench);
void bench_finish(struct bench *bench);
/* Starts a capture of 1000 Hz of the child, or of the group that `all` makes of the selector, and
 * waits until it runs. */
void bench_begin(struct bench *bench, struct engine_selector selector);
/* The same with a counted event: a sample for every so many; 0 = 1000 samples a second. */
void bench_begin_event(struct bench *bench, enum sonde_event_id event, uint64_t every);
/* Ends the capture and returns its profile. */
const struct sonde_profile *bench_end(struct bench *bench);
/* Runs rounds until the records were delivered. */
void bench_settle(struct bench *bench);
/* Runs rounds while the condition is false; fails the test after 30 s. */
void bench_wait(struct bench *bench, bool (*is_true)(struct bench *bench));
struct target *bench_target(struct bench *bench);

/* Records; each is step_ns after the one before it. */
void push_sample(struct bench *bench, pid_t pid, pid_t tid);
void push_samples(struct bench *bench, pid_t pid, uint32_t count);
/* Samples whose copies end after 16 bytes, of asked_bytes. */
void push_shorts(struct bench *bench, uint32_t count, uint32_t asked_bytes);
/* The caller changes it before it is delivered. */
struct host_record *push_record(struct bench *bench, enum host_record_kind kind, pid_t pid,
                                pid_t tid);
void push_fork(struct bench *bench, pid_t parent, pid_t pid, pid_t tid);
void push_comm(struct bench *bench, pid_t pid, const char *name, bool is_exec);
void push_exit(struct bench *bench, pid_t pid, pid_t tid);
/* The mappings of this program and its libraries, as the kernel would announce them. */
void push_own_mappings(struct bench *bench, pid_t pid);

#endif
