/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that must get none of our signals, and why:
 *
 *     HOLD_STACK   their alternate signal stack has no room for the kernel's frame and our handler
 *     HOLD_FILTER  a seccomp filter of their own may kill for a call that the guest makes on them,
 *                  the return from a handler included
 *
 * A thread announces the reason itself, before it takes effect (hooks/hold_hooks.c). What it did by
 * system calls of its own is found when its clock is armed (sampling/thread_scan.c). A filtered
 * thread makes no system call for us: held_from_calls is asked before each. */
#ifndef SONDE_SERVICE_GUEST_HELD_H
#define SONDE_SERVICE_GUEST_HELD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum hold_reason {
    HOLD_STACK = 1,
    HOLD_FILTER = 2,
    FILTER_IS_HARMLESS = 4 /* not a reason: the thread's own filter lets our calls pass */
};

#pragma GCC visibility push(hidden)

/* The calling thread's reasons. */
extern __thread unsigned held_own __attribute__((tls_model("initial-exec")));
/* A filter for all threads was installed: the guest has ended, in the children of forks as well. */
extern _Atomic bool held_process;

/* Whether a seccomp filter may kill the calling thread for a call of ours. Any thread;
 * signal-safe. */
static inline bool held_from_calls(void) {
    return (held_own & HOLD_FILTER) || atomic_load_explicit(&held_process, memory_order_relaxed);
}

/* ---- The table of threads, for the control thread. With sampled_threads_lock. ---- */

/* If the table is full, the reasons hold every thread from then on. */
void held_add(uint32_t tid, unsigned reasons);
void held_remove(uint32_t tid, unsigned reasons);
/* 0 = the thread may be sampled. */
unsigned held_reasons(uint32_t tid);
bool held_has_harmless_filter(uint32_t tid);
/* Number of threads with one of these reasons. */
uint32_t held_count(unsigned reasons);
/* Removes the threads of process `pid` that have ended. */
void held_forget_ended(uint32_t pid);
/* In the child of a fork, which is thread `tid`. No lock is needed. */
void held_after_fork(uint32_t tid);

#pragma GCC visibility pop

#endif
