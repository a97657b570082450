/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that `sonde` starts next to the command, or for a verb: sonded or the gateway. Its
 * stdout and stderr come through one pipe. A "grpc: ADDR" or "http: URL" line means that it is
 * ready; the last lines are kept to be printed if it exits. It leads its own process group, so
 * Ctrl-C reaches only the command, and the kernel terminates it if `sonde` is killed. It starts
 * without LD_PRELOAD, LD_AUDIT and jemalloc's settings, which are meant for the command. Main
 * thread only. */
#ifndef SONDE_CLIENTS_CLI_RUN_HELPER_H
#define SONDE_CLIENTS_CLI_RUN_HELPER_H

#include "api/error.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HELPER_MAX_ARGUMENTS 64
#define HELPER_MAX_LINE      512
#define HELPER_LAST_LINES    8

struct helper {
    const char *name;
    const char *argv[HELPER_MAX_ARGUMENTS + 1]; /* argv[0] is the path of the program */
    size_t argc;
    const sigset_t *mask;                             /* its signal mask */
    bool verbose;                                     /* copy its output to stderr */
    bool has_own_settings;                            /* ignore SONDE_* and the settings file */
    void (*on_line)(void *context, const char *line); /* called for each line of its output */
    void *context;

    pid_t pid;  /* 0 = not running */
    int output; /* -1 = none */
    bool ready; /* set by the owner of on_line */
    uint64_t started_ms, restart_at_ms;
    int quick_exits; /* how many times in a row it exited soon after its start */
    char line[HELPER_MAX_LINE];
    size_t line_len;
    char last_lines[HELPER_LAST_LINES][HELPER_MAX_LINE];
    size_t line_count;
};

uint64_t helper_now_ms(void);
#define HELPER_READY_MS 20000 /* how long its start may take */

void helper_add(struct helper *helper, const char *argument);
/* Starts the process. It is not ready yet. */
SONDE_MUST_USE sonde_err helper_start(struct helper *helper, struct sonde_diag *diag);
/* Reads the available output without blocking. */
void helper_read(struct helper *helper);
/* Returns true once after the process has exited; *status is that of waitpid. */
bool helper_reap(struct helper *helper, int *status);
/* The last line of its output without the program's name; "" = none. */
const char *helper_last_line(const struct helper *helper);
/* Prints the last lines of its output on stderr. */
void helper_print_last_lines(const struct helper *helper);
/* Whether its last line is an error of the program itself, which begins with its name. */
bool helper_gave_reason(const struct helper *helper);
/* Sends it a signal if it is running. */
void helper_signal(const struct helper *helper, int signal_number);

/* For owners without a supervisor. Waits until it is ready; SONDE_UNAVAILABLE with its last line if
 * it exits or does not become ready. SONDE_CANCELLED if `signals`, a signalfd, has a signal. */
SONDE_MUST_USE sonde_err helper_wait_ready(struct helper *helper, int signals,
                                           struct sonde_diag *diag);
/* Terminates it and waits; kills it after 5 seconds. Accepts one that is not running. */
void helper_stop(struct helper *helper);

#endif
