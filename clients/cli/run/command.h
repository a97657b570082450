/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the command of `sonde run` with its environment. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_RUN_COMMAND_H
#define SONDE_CLIENTS_CLI_RUN_COMMAND_H

#include "api/error.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct command {
    char *const *argv;
    const char *libsonde;   /* value for LD_PRELOAD */
    const char *socket;     /* sonded's socket for guests */
    const char *name;       /* name of the target, kept across exec; NULL = chosen by the guest */
    const char *first_name; /* name until the next exec if `name` is NULL */
    bool heap;              /* start jemalloc with heap profiling available but off */
    sigset_t mask;          /* signal mask of the command */
    struct sigaction pipe_action;
};

/* Returns the pid, or 0 if fork failed. If the command cannot be executed, the child prints an
 * error and exits with 126, or with 127 if the command does not exist. */
pid_t command_start(const struct command *command);

#endif
