/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that does what it is told: it waits for a letter, does it, and answers.
 *
 *     l  sleeps long, five times       o  sleeps often, for short times
 *     d  the same, deep in its stack   e  sleeps on a stack of two pages
 *     s  uses the processor            w  waits for a lock for ever
 *     f  waits for a lock, then sleeps long */
#ifndef SONDE_TESTS_UNIT_HOST_BPF_CHILD_H
#define SONDE_TESTS_UNIT_HOST_BPF_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#define MS 1000000ull

struct child {
    pid_t pid;
    int to, from;
    uint64_t *slept_ns; /* by its own clock, shared */
};

extern uint32_t lock_words[8]; /* the lock's memory, the same in the child */

uint64_t now_ns(void);
void sleep_long(uint64_t *slept_ns);
void sleep_often(uint64_t *slept_ns, int times);

struct child start_child(void);
void order(const struct child *child, char letter);
void await(const struct child *child);
void end_child(struct child *child);
/* Until it has blocked in read(): state S. */
void await_blocked(const struct child *child);
void await_blocked_in_futex(const struct child *child);

#endif
