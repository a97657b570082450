/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the command of `sonde run` with its environment, or that of `sonde record`. Main thread
 * only. */
#ifndef SONDE_CLIENTS_CLI_RUN_COMMAND_H
#define SONDE_CLIENTS_CLI_RUN_COMMAND_H

#include "api/error.h"
#include "clients/cli/run/heap_options.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct command {
    const char *verb; /* "run", for errors */
    char *const *argv;
    const int *barrier;       /* a pipe: the command waits for a byte; NULL = start it at once */
    const char *path;         /* of the program if it must not be run by a shell; else NULL */
    const char *libsonde;     /* value for LD_PRELOAD; NULL: leave the environment as it is */
    const char *socket;       /* sonded's socket for guests */
    const char *name;         /* name of the target, kept across exec; NULL = chosen by the guest */
    const char *first_name;   /* name until the next exec if `name` is NULL */
    struct heap_options heap; /* where jemalloc is asked to be ready for heap profiles */
    sigset_t mask;            /* signal mask of the command */
    struct sigaction pipe_action;
};

/* Returns the pid, or 0 if fork failed. The child exits with 125 if the barrier's other end is
 * closed without a byte. If the command cannot be executed, the child prints an error and exits
 * with 126, or with 127 if the command does not exist. */
pid_t command_start(const struct command *command);

#endif
