/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/run/record_command.h"

#include "clients/cli/run/executable.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* As in env, timeout and `sonde run`. */
#define OWN_FAILURE 125
#define CANNOT_RUN  126
#define NO_COMMAND  127

static void close_end(int *end) {
    if (*end >= 0)
        close(*end);
    *end = -1;
}

static sonde_err fork_child(struct record_command *command, char **argv, struct sonde_diag *diag) {
    if (pipe2(command->barrier, O_CLOEXEC) != 0)
        return sonde_fail_os(diag, errno, "cannot create a pipe");
    command->command = (struct command){.verb = "record",
                                        .argv = argv,
                                        .barrier = command->barrier,
                                        .mask = command->supervisor.mask,
                                        .pipe_action = command->supervisor.pipe_action};
    command->pid = command_start(&command->command);
    close_end(&command->barrier[0]);
    if (!command->pid)
        return sonde_fail_os(diag, errno, "cannot fork");
    command->supervisor.command = command->pid;
    return SONDE_OK;
}

sonde_err record_command_fork(struct record_command *command, char **argv, int *status,
                              struct sonde_diag *diag) {
    char path[PATH_MAX];
    *command = (struct record_command){.barrier = {-1, -1}, .supervisor.signals = -1};
    sonde_err err = executable_find(argv[0], path, diag);
    *status = err == SONDE_NOT_FOUND ? NO_COMMAND : err ? CANNOT_RUN : OWN_FAILURE;
    if (!err)
        err = supervisor_init(&command->supervisor, diag);
    return err ? err : fork_child(command, argv, diag);
}

/* Signals to pass on, or the end of the command. */
static void on_signals(void *context) {
    struct record_command *command = context;
    supervisor_step(&command->supervisor, 0);
    if (!command->supervisor.command)
        service_finish_capture(command->service);
}

void record_command_watch(struct record_command *command, struct service *service) {
    command->service = service;
    service->watched = command->supervisor.signals;
    service->on_watched = on_signals;
    service->watched_context = command;
}

void record_command_go(void *context) {
    struct record_command *command = context;
    while (write(command->barrier[1], "", 1) < 0 && errno == EINTR)
        continue;
    command->has_started = true;
}

int record_command_finish(struct record_command *command) {
    close_end(&command->barrier[1]); /* ends a child that has not started */
    while (command->supervisor.command)
        supervisor_step(&command->supervisor, -1);
    int status = command->has_started ? command->supervisor.status : OWN_FAILURE;
    supervisor_finish(&command->supervisor);
    return status;
}
