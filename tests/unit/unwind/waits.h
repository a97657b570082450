/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that wait in many different system calls. Each counts how often its call failed with
 * EINTR, which snapshots and stops must never cause. */
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
    WAIT_IN_TURNS, /* short waits and work in turns */
    WAIT_BUSY,
    WAIT_KINDS
};

/* Shared by parent and child. */
struct waits {
    int semaphore; /* System V; the parent creates and removes it */
    struct {
        _Atomic pid_t tid;
        _Atomic uint64_t rounds, interrupted;
        _Atomic uint64_t early; /* calls that returned too early */
    } of[WAIT_KINDS];
};

/* Runs the child; never returns. */
void waits_run(struct waits *waits);

#endif
