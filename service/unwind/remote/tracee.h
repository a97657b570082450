/* SPDX-License-Identifier: Apache-2.0
 *
 * Registers and stack of one thread of another process, without a visible effect on that process.
 *
 * A blocked thread is not touched. The kernel shows its pc and stack pointer (/proc/TID/syscall),
 * and its stack is read from outside. For nearly every stack that is enough, because the wrappers
 * of system calls find their frames by that. The result is valid if the thread did not run
 * meanwhile, which its number of time slices shows.
 *
 * A running thread is stopped (PTRACE_SEIZE, PTRACE_INTERRUPT) while its registers and the top of
 * its stack are copied. A blocked thread is also stopped if its registers are needed and its call
 * can be interrupted without the program noticing. After a stop some calls return EINTR even though
 * no handler ran (signal(7)). Such a call is restarted if that makes no difference, because it has
 * no timeout or has only just begun; otherwise the thread is not stopped.
 *
 * A thread that was woken by a stop runs for a moment, in which a tick of a capture may hit it; the
 * tick's handler would make the call fail with EINTR. A tick that is seen in time is dropped, and
 * the next one counts for it. Still, do not stop blocked threads during a capture.
 *
 * A thread that waits for a device stops only when that is over. It stays pending: a later call
 * detaches it as soon as it has stopped, and the kernel does at the latest when the calling thread
 * ends.
 *
 * Thread safety: the tracer is a thread, so make all calls with one struct tracer from one thread,
 * best one created for it, because its end detaches everything. */
#ifndef SONDE_SERVICE_UNWIND_REMOTE_TRACEE_H
#define SONDE_SERVICE_UNWIND_REMOTE_TRACEE_H

#include "service/unwind/remote/remote.h"

#include <stddef.h>
#include <sys/types.h>

enum tracee_state {
    TRACEE_BLOCKED,
    TRACEE_RUNNING, /* nothing is known without a stop */
    TRACEE_GONE,
    TRACEE_REFUSED, /* no permission */
};

/* What /proc shows of a blocked thread. */
struct tracee_snapshot {
    long call; /* the system call; -1 = none */
    uint64_t arguments[6];
    uint64_t sp, pc;
    uint64_t slices;    /* how often it was scheduled; 0 = the kernel does not count */
    uint64_t cpu_ns;    /* CPU time used; 0 likewise */
    uint64_t waited_ns; /* time for which it could have run, but had no CPU; 0 likewise */
};

/* task_dir: /proc/PID/task, open. */
enum tracee_state tracee_take_snapshot(int task_dir, pid_t tid, struct tracee_snapshot *snapshot);
/* Whether the thread did not run between two snapshots, both TRACEE_BLOCKED. */
bool tracee_did_not_run(const struct tracee_snapshot *before, const struct tracee_snapshot *after);
/* Whether a blocked thread may be stopped while no capture runs. */
bool tracee_may_stop(pid_t pid, const struct tracee_snapshot *snapshot);

#define TRACER_PENDING 16

/* Zeroed memory is ready. */
struct tracer {
    pid_t pending[TRACER_PENDING]; /* threads that were asked to stop and have not yet */
    uint32_t pending_count;
};

/* The result of a stop. */
struct tracee_stop {
    struct unwind_registers registers;
    uint64_t stack_at;  /* where the copy is from: the red zone below the stack pointer */
    size_t stack_bytes; /* copied */
    uint64_t stop_ns;   /* at most how long the thread was stopped */
    pid_t tracer;       /* TRACEE_REFUSED: the process that traces it already; 0 = none */
};

/* Stops the thread, copies at most `size` bytes of its stack, and detaches. */
enum tracee_state tracee_stop(struct tracer *tracer, int task_dir, pid_t tid, void *stack,
                              size_t size, struct tracee_stop *stop);
/* Detaches pending threads that have stopped meanwhile. */
void tracer_collect(struct tracer *tracer);

#endif
