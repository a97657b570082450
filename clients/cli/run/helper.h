/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that runs beside the command: sonded or the gateway. What it prints comes through one
 * pipe; its "grpc: ADDR" and "http: URL" lines say that it is ready, the last lines of the others
 * are kept for the case that it ends. It leads a process group of its own, so that Ctrl-C
 * reaches the command alone, and the kernel ends it when `sonde run` is killed.
 * Main thread only. */
#ifndef SONDE_CLIENTS_CLI_RUN_HELPER_H
#define SONDE_CLIENTS_CLI_RUN_HELPER_H

#include "api/error.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HELPER_MAX_ARGUMENTS 48
#define HELPER_MAX_LINE      512
#define HELPER_LAST_LINES    8

struct helper {
    const char *name;
    const char *argv[HELPER_MAX_ARGUMENTS + 1]; /* argv[0] is the path */
    size_t argc;
    const sigset_t *mask;                             /* what it starts with */
    bool verbose;                                     /* pass on all it prints */
    void (*on_line)(void *context, const char *line); /* each line it prints */
    void *context;

    pid_t pid;  /* 0 = not running */
    int output; /* -1 = none */
    bool ready; /* since its last start; set by on_line's owner */
    uint64_t started_ms, restart_at_ms;
    int quick_exits; /* times in a row that it ended soon after its start */
    char line[HELPER_MAX_LINE];
    size_t line_len;
    char last_lines[HELPER_LAST_LINES][HELPER_MAX_LINE];
    size_t line_count;
};

uint64_t helper_now_ms(void);

void helper_add(struct helper *helper, const char *argument);
/* Runs argv. It is not ready yet. */
SONDE_MUST_USE sonde_err helper_start(struct helper *helper, struct sonde_diag *diag);
/* Takes what the pipe has now, without waiting. */
void helper_read(struct helper *helper);
/* True once when the process has ended since the last call; *status as from waitpid. */
bool helper_reap(struct helper *helper, int *status);
/* The last lines it printed, on stderr. */
void helper_print_last_lines(const struct helper *helper);
/* Asks it to end (SIGTERM), or makes it (SIGKILL). */
void helper_signal(const struct helper *helper, int signal_number);

#endif
