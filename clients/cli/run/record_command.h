/* SPDX-License-Identifier: Apache-2.0
 *
 * The command of `sonde record -- COMMAND`: it starts when sampling has begun, so that its first
 * instructions are in the profile, and the capture ends with it. Signals are passed on to it. Main
 * thread only, except record_command_go. */
#ifndef SONDE_CLIENTS_CLI_RUN_RECORD_COMMAND_H
#define SONDE_CLIENTS_CLI_RUN_RECORD_COMMAND_H

#include "clients/cli/run/command.h"
#include "clients/cli/run/supervise.h"
#include "clients/cli/service.h"

struct record_command {
    struct supervisor supervisor;
    struct command command;
    struct service *service;
    int barrier[2]; /* -1 = closed */
    pid_t pid;
    bool has_started;
};

/* Forks a child that waits for record_command_go before it executes argv. Call it before there are
 * other threads. On an error, *status is the exit status. */
SONDE_MUST_USE sonde_err record_command_fork(struct record_command *command, char **argv,
                                             int *status, struct sonde_diag *diag);
/* The capture of this service ends when the command does. */
void record_command_watch(struct record_command *command, struct service *service);
/* Lets the command start. `context` is the record_command. Any thread. */
void record_command_go(void *context);
/* Waits for the end of the command, if it has started, and returns its exit status, as a shell
 * does. */
int record_command_finish(struct record_command *command);

#endif
