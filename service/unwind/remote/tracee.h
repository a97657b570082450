/* SPDX-License-Identifier: Apache-2.0
 *
 * A look at one thread of another process, without its noticing.
 *
 * A thread that is blocked is not touched: the kernel shows its pc and rsp (/proc/TID/syscall) and
 * its stack is read from outside. That is enough for nearly every stack, because the wrappers of
 * system calls find their frames from rsp. What was read holds if the thread did not run meanwhile,
 * which its count of time slices tells.
 *
 * A thread that runs is stopped (PTRACE_SEIZE, PTRACE_INTERRUPT) for as long as it takes to copy
 * its registers and the top of its stack. So is a blocked one whose registers are needed, if its
 * call lets itself be interrupted without the program's noticing: some calls return EINTR after a
 * stop even where no handler ran (signal(7)). Such a call is begun anew where that changes nothing
 * (it had no timeout, or had only just begun), and else the thread is not stopped.
 *
 * A thread that was woken for a stop runs for a moment, in which a tick of a capture may hit it:
 * its handler would end the call. Such a tick is dropped (the next one counts for it) if it is
 * seen, and while a capture runs blocked threads had better not be stopped at all.
 *
 * A thread that waits for a device does not stop before that is over: it is left, and let go
 * as soon as it does stop, by later calls or at the latest by the end of the calling thread.
 *
 * Thread safety: all calls of one struct tracer from one thread, the tracer; best one that is made
 * for it, because its end lets go of everything. */
#ifndef SONDE_SERVICE_UNWIND_REMOTE_TRACEE_H
#define SONDE_SERVICE_UNWIND_REMOTE_TRACEE_H

#include "service/unwind/remote/remote.h"

#include <stddef.h>
#include <sys/types.h>

enum tracee_state {
    TRACEE_BLOCKED,
    TRACEE_RUNNING, /* nothing is known of it unless it is stopped */
    TRACEE_GONE,
    TRACEE_REFUSED, /* the kernel does not let us look */
};

/* What can be seen without a stop. */
struct tracee_glance {
    long call; /* its system call; -1 = in none */
    uint64_t arguments[6];
    uint64_t sp, pc;
    uint64_t slices; /* how often it was given a CPU; 0 = the kernel does not count */
    uint64_t cpu_ns; /* CPU time used; likewise */
};

/* task_dir: /proc/PID/task, open. */
enum tracee_state tracee_look(int task_dir, pid_t tid, struct tracee_glance *glance);
/* Whether the thread did not run between two looks that both gave TRACEE_BLOCKED. */
bool tracee_slept(const struct tracee_glance *before, const struct tracee_glance *after);
/* Whether a blocked thread may be stopped, when no capture runs. */
bool tracee_may_stop(pid_t pid, const struct tracee_glance *glance);

#define TRACER_LEFT 16

/* Zeroed memory is ready. */
struct tracer {
    pid_t left[TRACER_LEFT]; /* that were asked to stop and have not yet */
    uint32_t left_count;
};

/* A stop's yield. */
struct tracee_stop {
    struct unwind_registers registers;
    uint64_t stack_at;  /* the copy's address in the thread: a little below rsp */
    size_t stack_bytes; /* copied */
    uint64_t stop_ns;   /* how long the thread stood still, at most */
    pid_t tracer;       /* TRACEE_REFUSED: who traces it already; 0 = nobody */
};

/* Stops, copies at most `size` bytes of stack, lets go. */
enum tracee_state tracee_stop(struct tracer *tracer, int task_dir, pid_t tid, void *stack,
                              size_t size, struct tracee_stop *stop);
/* Lets go of those left that have stopped meanwhile. */
void tracer_collect(struct tracer *tracer);

#endif
