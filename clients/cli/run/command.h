/* SPDX-License-Identifier: Apache-2.0
 *
 * The command that `sonde run` runs: its environment and its start. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_RUN_COMMAND_H
#define SONDE_CLIENTS_CLI_RUN_COMMAND_H

#include "api/error.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct command {
    char *const *argv;
    const char *libsonde;   /* the guest, as LD_PRELOAD names it */
    const char *socket;     /* of sonded */
    const char *name;       /* of the target, for good; NULL = the guest's own choice */
    const char *first_name; /* otherwise, until it becomes another program by exec */
    bool heap;              /* let jemalloc profile, switched off for now */
    sigset_t mask;          /* what the command starts with */
    struct sigaction pipe_action;
};

/* 0 when no process could be made. A command that cannot be executed ends with 126, a missing one
 * with 127, and a line on stderr. */
pid_t command_start(const struct command *command);

#endif
