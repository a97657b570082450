/* SPDX-License-Identifier: Apache-2.0
 *
 * The main loop of `sonde run`, and of `sonde record` with a command. It forwards signals to the
 * command, reads the helpers' output, restarts helpers that exit, and ends when the command exits.
 * Main thread only. */
#ifndef SONDE_CLIENTS_CLI_RUN_SUPERVISE_H
#define SONDE_CLIENTS_CLI_RUN_SUPERVISE_H

#include "clients/cli/run/helper.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#define SUPERVISOR_MAX_HELPERS 2

struct supervisor {
    struct helper *helpers[SUPERVISOR_MAX_HELPERS];
    size_t helper_count;
    pid_t command;  /* 0 = not running */
    int status;     /* exit status of the command, or 128 + the signal that killed it */
    int stopped_by; /* a signal that arrived while no command was running; 0 = none */
    bool stopping;  /* do not restart helpers */
    int signals;    /* signalfd */
    sigset_t mask;  /* the original one, for the command */
    struct sigaction pipe_action; /* as it was before */
};

/* Blocks the signals and reads them from a signalfd from now on. */
SONDE_MUST_USE sonde_err supervisor_init(struct supervisor *supervisor, struct sonde_diag *diag);
/* Stops the helpers, the gateway first so that it can finish its responses. */
void supervisor_finish(struct supervisor *supervisor);

/* Waits for the next event, at most timeout_ms (-1 = no limit), and handles it. */
void supervisor_step(struct supervisor *supervisor, int timeout_ms);

#endif
