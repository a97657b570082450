/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/exit_watchdog.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <unistd.h>

static _Atomic(const char *) watched_program, current_step;

static _Atomic int locks[EXIT_WATCHDOG_LOCKS]; /* descriptor + 1; 0 = free */

static void replace_lock(int from, int to) {
    for (int i = 0; i < EXIT_WATCHDOG_LOCKS; i++) {
        int expected = from;
        if (atomic_compare_exchange_strong(&locks[i], &expected, to))
            return;
    }
}

void exit_watchdog_lock(int fd) {
    replace_lock(0, fd + 1);
}

void exit_watchdog_forget(int fd) {
    replace_lock(fd + 1, 0);
}

static struct iovec piece(const char *text) {
    return (struct iovec){(char *)(uintptr_t)text, strlen(text)};
}

static void on_alarm(int number) {
    const struct iovec line[] = {
        piece(atomic_load(&watched_program)),
        piece(": did not stop in time, exiting at once; still waiting for "),
        piece(atomic_load(&current_step)), piece("\n")};
    (void)number;
    for (int i = 0; i < EXIT_WATCHDOG_LOCKS; i++) {
        int lock = atomic_load(&locks[i]);
        if (lock > 0)
            (void)flock(lock - 1, LOCK_UN);
    }
    if (writev(STDERR_FILENO, line, sizeof line / sizeof line[0]) < 0)
        _exit(1);
    _exit(1);
}

void exit_watchdog_start(const char *program, const char *step, uint32_t seconds) {
    struct sigaction action = {.sa_handler = on_alarm};
    const char *none = NULL;
    if (!atomic_compare_exchange_strong(&watched_program, &none, program))
        return;
    atomic_store(&current_step, step);
    sigaction(SIGALRM, &action, NULL);
    alarm(seconds);
}

void exit_watchdog_step(const char *step) {
    atomic_store(&current_step, step);
}
