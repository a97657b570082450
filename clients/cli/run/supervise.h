/* SPDX-License-Identifier: Apache-2.0
 *
 * One loop over everything `sonde run` waits for: signals sent to it (passed on to the command),
 * the helpers' output, and the end of any of them. A helper that ends while the command runs is
 * started again; a command that ends ends the loop. Main thread only. */
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
    pid_t command;  /* 0 = none runs */
    int status;     /* of the command, as a shell tells it: its code, or 128 + signal */
    int stopped_by; /* a signal that came while no command ran; 0 = none */
    bool stopping;  /* helpers that end are not started again */
    int signals;    /* signalfd */
    sigset_t mask;  /* as it was before */
    struct sigaction pipe_action; /* as it was before */
};

/* Takes the signals over. */
SONDE_MUST_USE sonde_err supervisor_init(struct supervisor *supervisor, struct sonde_diag *diag);
/* Ends the helpers: gateway first, so that it can hand out what it has. */
void supervisor_finish(struct supervisor *supervisor);

/* Waits for something to happen, at most timeout_ms (-1 = no bound), and deals with it. */
void supervisor_step(struct supervisor *supervisor, int timeout_ms);

#endif
