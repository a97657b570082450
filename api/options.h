/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings: one table per program, one reader. Flag > environment SONDE_* > file (SONDE_CONFIG or
 * /etc/sonde.conf, lines `name = value`, '#' comments) > default. The same table writes --help.
 *
 *     static const struct sonde_option options[] = {
 *         {"socket", 's', "PATH", "SONDE_SOCKET", SONDE_OPTION_TEXT,
 *          offsetof(struct settings, socket), 0, 0, "where guests connect"},
 *         ...
 *     };
 *
 * Thread safety: called once, at the start of a program. */
#ifndef SONDE_API_OPTIONS_H
#define SONDE_API_OPTIONS_H

#include "api/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define SONDE_OPTION_MAX_LIST 16

enum sonde_option_kind {
    SONDE_OPTION_FLAG,    /* bool; takes no value; from environment or file: 1, true, yes, on */
    SONDE_OPTION_TEXT,    /* const char * */
    SONDE_OPTION_NUMBER,  /* uint64_t, decimal digits, low..high */
    SONDE_OPTION_DECIMAL, /* double, low..high */
    SONDE_OPTION_LIST,    /* struct sonde_option_list, the flag may be repeated */
};

struct sonde_option_list {
    const char *items[SONDE_OPTION_MAX_LIST];
    size_t count;
};

struct sonde_option {
    const char *name;        /* long name without "--" */
    char letter;             /* 0 = none */
    const char *argument;    /* shown in --help: "PATH"; NULL for flags */
    const char *environment; /* NULL = not settable there nor in the file */
    enum sonde_option_kind kind;
    size_t offset;    /* of the field in the settings struct */
    double low, high; /* numbers */
    const char *help;
};

/* A program or a verb. */
struct sonde_options {
    const char *usage;    /* "sonded [--socket PATH] ..." */
    const char *about;    /* one or two sentences */
    const char *examples; /* lines shown at the end of --help; NULL = none */
    const struct sonde_option *table;
    size_t count;
};

/* Fills *settings, whose fields hold the defaults. Flags may stand before or after plain arguments;
 * "--" ends them. *argc and argv are left with the plain arguments (argv[0] stays). With
 * `stop_at_plain` the first plain argument ends the flags. SONDE_INVALID_ARGUMENT with a sentence;
 * SONDE_CANCELLED when --help or --version was printed to stdout. */
SONDE_MUST_USE sonde_err sonde_options_read(const struct sonde_options *options, void *settings,
                                            bool stop_at_plain, int *argc, char **argv,
                                            struct sonde_diag *diag);
void sonde_options_help(const struct sonde_options *options, FILE *out);

#define SONDE_VERSION "0.1.0"

#endif
