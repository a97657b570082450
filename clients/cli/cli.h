/* SPDX-License-Identifier: Apache-2.0
 *
 * What all verbs of `sonde` share: their row in the table of verbs, reading options and reporting
 * errors. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_CLI_H
#define SONDE_CLIENTS_CLI_CLI_H

#include "api/error.h"
#include "api/settings/options.h"

#include <stdint.h>
#include <stdio.h>

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* `run` gets the arguments from the verb on (argv[0] is the verb) and returns the exit status. */
struct verb {
    const char *name;
    const char *summary; /* one line of `sonde --help` */
    int (*run)(int argc, char **argv);
    const struct sonde_options *options;
};

/* --split-threads. --merge-threads is the default and overrides it; older scripts have it. */
struct cli_threads {
    bool split, merge;
};
#define THREADS_OPTION(type, field, name, letter, help) \
    { name, letter, NULL, NULL, SONDE_OPTION_FLAG, offsetof(type, field), 0, 0, help }
#define THREADS_OPTIONS(type, at)                                                     \
    THREADS_OPTION(type, at.split, "split-threads", 0, "show each thread by itself"), \
        THREADS_OPTION(type, at.merge, "merge-threads", 'm', NULL)
#define HIDE_IDLE_OPTION(type, at)           \
    THREADS_OPTION(type, at, "hide-idle", 0, \
                   "with wall and off-cpu: leave out threads that only wait")
static inline bool cli_splits_threads(const struct cli_threads *threads) {
    return threads->split && !threads->merge;
}

/* perf's -p PID, and -g: Sonde always records stacks. */
#define PERF_OPTIONS(type, at)                                                            \
    {"pid", 'p', "PID", NULL, SONDE_OPTION_ARGUMENT, 0, 0, 0, NULL}, {                    \
        "call-stacks", 'g', NULL, NULL, SONDE_OPTION_FLAG, offsetof(type, at), 0, 0, NULL \
    }

/* Fills *settings from the arguments. If it returns false, the verb exits with *status: after
 * --help, or after a usage error. */
bool cli_options(const struct verb *verb, void *settings, bool stop_at_plain, int *argc,
                 char **argv, int *status);

/* Prints "sonde record: ..." on stderr. Returns the exit status for err. */
int cli_fail(const struct verb *verb, sonde_err err, const struct sonde_diag *diag);

/* Prints a usage error and the usage on stderr. Returns the exit status of usage errors. */
int cli_usage(const struct verb *verb, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads "5%" or "0.05". False if text is neither. */
bool cli_read_share(const char *text, double *share);

/* Prints at most 80 bytes of a name from a profiled process, without control characters, which
 * could change the terminal's state. */
void cli_put_name(FILE *out, const char *name);
/* The same, whatever its length. */
void cli_put_whole_name(FILE *out, const char *name);
/* The same with at most that many characters. */
void cli_put_columns(FILE *out, const char *text, size_t columns);
/* The same with at most 1000 bytes, for sentences from elsewhere. */
void cli_put_text(FILE *out, const char *text);
/* A line: `before`, which is ours, and such a sentence. Nothing if the sentence is empty. */
void cli_put_line(FILE *out, const char *before, const char *text);
/* "512 KiB", "7.04 MiB" */
#define CLI_VALUE_BYTES 24
const char *cli_size_text(uint64_t bytes, char text[CLI_VALUE_BYTES]);
/* "2026-11-26 12:03:20" in local time; "-" for 0. */
const char *cli_time_text(int64_t unix_ns, char text[CLI_VALUE_BYTES]);

/* Writes the time since a wall-clock time: "42 s", "3 min", "5 h", "12 d". */
void cli_age(char text[24], int64_t since_unix_ns);

#endif
