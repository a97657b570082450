/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures for how long the threads of a process are off the CPU by looking at them from outside,
 * as the guest's control thread does from inside: where the kernel takes no BPF program from this
 * user, and for threads that were blocked before one was loaded.
 *
 *     look:  off += wall time - CPU time since the last look
 *            blocked, and has run since?  walk its stack without stopping it
 *            has not run?                 the stack is still the same; look less often
 *
 * Time whose stack is not known is kept until the thread's next stack, or reported without one at
 * the end. Looks take at most 2 % of a CPU; with more threads they are further apart. Thread
 * safety: one thread at a time, a worker. */
#ifndef SONDE_SERVICE_ENGINE_HOST_STREAM_LOOK_H
#define SONDE_SERVICE_ENGINE_HOST_STREAM_LOOK_H

#include "service/engine/code/blocked_walk.h"
#include "service/engine/report/stacks.h"
#include "service/host/futex.h"

#define LOOK_MAX_THREADS 16384u /* of one process; the others are not looked at */
#define LOOK_MAX_DEPTH   512u

/* Time of a thread off the CPU. */
struct look_wait {
    pid_t tid;
    uint64_t ns, since_ns, end_ns; /* ns of the time from since_ns to end_ns */
    uint64_t begun;                /* how many waits began in it */
    int note;                      /* an enum stack_note instead of a stack; -1 = none */
    const uint64_t *pcs;           /* leaf first, as in unwind_remote_walk */
    uint32_t count;
    enum stack_end end;
    struct host_futex futex; /* that it waits for */
};

struct look_thread;

struct look {
    struct engine *engine;
    struct process_identity process;
    int task_dir;
    bool is_once;     /* only threads that are blocked at the first round, until they run */
    bool is_gone;     /* the process has ended */
    bool wants_locks; /* the memory of futexes that threads wait for is read, too */
    uint32_t refused; /* how often a stack could not be read for lack of permission */
    uint64_t period_ns;
    uint64_t next_ns; /* when the next round is due; 0 = never again */
    uint64_t random;

    struct look_wait *waits; /* of the last round, with its pcs, until the next one */
    uint32_t wait_count;

    struct look_thread *threads; /* by tid */
    uint32_t thread_count;
    uint64_t **ended; /* pcs of threads that have ended, for the last round's waits */
    uint32_t ended_count;
    struct process_code code;
    uint64_t code_ns; /* when the mappings were read; 0 = never */
    bool is_code_old; /* a pc was in none of them */
};

/* NULL: out of memory, or there is no such process. seed: for the dither. */
struct look *look_create(struct engine *engine, pid_t pid, uint64_t period_ns, uint64_t seed);
void look_destroy(struct look *look);
/* Lists the threads: their time counts from now on. Takes some 10 us per thread. */
void look_begin(struct look *look);
/* Looks at the threads that are due, and fills in waits. is_last: reports all that is known up to
 * now of every thread. */
void look_round(struct look *look, bool is_last);

#endif
