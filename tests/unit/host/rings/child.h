/* SPDX-License-Identifier: Apache-2.0
 *
 * A child process that waits until the test lets it go, and can be stopped meanwhile. */
#ifndef SONDE_TESTS_UNIT_HOST_RINGS_CHILD_H
#define SONDE_TESTS_UNIT_HOST_RINGS_CHILD_H

#include <stdint.h>
#include <sys/types.h>

struct child {
    pid_t pid;
    int go;
};

/* Forks a child that waits for child_go(), runs `body` and exits with 0. It ends after two minutes
 * at the latest. */
struct child child_start(void (*body)(void));
void child_go(struct child child);
/* The CPU time of a process; 0 if there is none. */
uint64_t child_cpu_ns(pid_t pid);
/* Stops all its threads, until SIGCONT or child_end(). */
void child_freeze(pid_t pid);
/* Kills and reaps it. */
void child_end(struct child child);
/* Waits until the child has exited with 0. */
void child_wait(struct child child);

#endif
