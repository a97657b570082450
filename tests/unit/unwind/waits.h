/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that wait in every way, each counting how often its call ended with EINTR: what a look at
 * them must never cause. */
#ifndef SONDE_TESTS_UNIT_UNWIND_WAITS_H
#define SONDE_TESTS_UNIT_UNWIND_WAITS_H

#include <stdint.h>
#include <sys/types.h>

enum wait_kind {
    WAIT_POLL,
    WAIT_EPOLL_ENDLESS,
    WAIT_EPOLL_TIMED,
    WAIT_NANOSLEEP,
    WAIT_CONDITION,
    WAIT_CONDITION_TIMED,
    WAIT_RECV,
    WAIT_RECV_TIMED,
    WAIT_SELECT,
    WAIT_SEMAPHORE,
    WAIT_SEMOP,
    WAIT_SIGNAL,
    WAIT_PIPE,
    WAIT_EVENTFD,
    WAIT_ACCEPT,
    WAIT_FOR_CHILD,
    WAIT_IN_TURNS, /* short waits and work: caught at every place */
    WAIT_BUSY,
    WAIT_KINDS
};

/* In memory that parent and child share. */
struct waits {
    int semaphore; /* a System V one, which the parent makes and removes */
    struct {
        _Atomic pid_t tid;
        _Atomic uint64_t rounds, interrupted;
        _Atomic uint64_t early; /* came back before its time */
    } of[WAIT_KINDS];
};

/* The body of the child: never returns. */
void waits_run(struct waits *waits);

#endif
