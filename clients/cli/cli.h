/* SPDX-License-Identifier: Apache-2.0
 *
 * What the verbs of `sonde` share: one row of the verb table each, one way to read options and one
 * way to fail. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_CLI_H
#define SONDE_CLIENTS_CLI_CLI_H

#include "api/error.h"
#include "api/options.h"

#include <stdio.h>

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* `run` gets the words from the verb on (argv[0] is the verb) and returns the exit code. */
struct verb {
    const char *name;
    const char *summary; /* half a line for `sonde --help` */
    int (*run)(int argc, char **argv);
    const struct sonde_options *options;
};

/* Fills *settings. True to go on; otherwise *status is what to exit with (--help, a bad value). */
bool cli_options(const struct verb *verb, void *settings, bool stop_at_plain, int *argc,
                 char **argv, int *status);

/* One line on stderr, "sonde record: ...", and the exit code of err. */
int cli_fail(const struct verb *verb, sonde_err err, const struct sonde_diag *diag);

/* A usage error: the line, where help is, and exit code 2. */
int cli_usage(const struct verb *verb, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A name from a profiled process, at most 80 bytes of it: nothing in it may steer the terminal. */
void cli_put_name(FILE *out, const char *name);

#endif
