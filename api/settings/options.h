/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of a program or a verb, from one table that also prints --help. A flag overrides the
 * environment (SONDE_*), which overrides the settings file (SONDE_CONFIG or /etc/sonde.conf; see
 * settings_file.h), which overrides the default. An option without an environment variable can only
 * be set by its flag.
 *
 *     static const struct sonde_option options[] = {
 *         {"socket", 's', "PATH", "SONDE_SOCKET", SONDE_OPTION_TEXT,
 *          offsetof(struct settings, socket), 0, 0, "where guests connect"},
 *         ...
 *     };
 *
 * Thread safety: main thread only, at the start of a program. */
#ifndef SONDE_API_SETTINGS_OPTIONS_H
#define SONDE_API_SETTINGS_OPTIONS_H

#include "api/error.h"
#include "api/version.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define SONDE_OPTION_MAX_LIST 100

enum sonde_option_kind {
    SONDE_OPTION_FLAG,    /* bool; in the environment and the file 1, true, yes, on, 0, ... */
    SONDE_OPTION_TEXT,    /* const char * */
    SONDE_OPTION_NUMBER,  /* uint64_t, low to high; decimal digits only */
    SONDE_OPTION_DECIMAL, /* double, low to high */
    SONDE_OPTION_SECONDS, /* double, low to high: "10", "2.5", or with units "500ms", "1m30s" */
    SONDE_OPTION_MILLISECONDS, /* uint64_t: "250", "250ms", "1s" */
    SONDE_OPTION_LIST,         /* struct sonde_option_list; the flag may be repeated */
    SONDE_OPTION_ARGUMENT,     /* no field: the value is a plain argument */
};

struct sonde_option_list {
    const char *items[SONDE_OPTION_MAX_LIST];
    size_t count;
};

struct sonde_option {
    const char *name;        /* long name without "--" */
    char letter;             /* 0 = none */
    const char *argument;    /* shown in --help: "PATH"; NULL for flags */
    const char *environment; /* NULL = only settable by the flag */
    enum sonde_option_kind kind;
    size_t offset;    /* of the field in the settings struct */
    double low, high; /* of numbers and durations */
    const char *help; /* NULL: accepted, but not listed by --help and completions */
};

/* A program or a verb. */
struct sonde_options {
    const char *usage;    /* "sonded [--socket PATH] ..." */
    const char *about;    /* one or two sentences */
    const char *examples; /* lines for the end of --help; NULL = none */
    const char *version;  /* second line of --version; NULL = none */
    const struct sonde_option *table;
    size_t count;
};

/* Overwrites the defaults in *settings. Flags may come before, between and after the plain
 * arguments, until "--"; with stop_at_plain only before the first one. Leaves argv[0] and the plain
 * arguments in argv and *argc. The texts in *settings live as long as argv and the process.
 * SONDE_INVALID_ARGUMENT: diag names the setting and where it was set. SONDE_IO: the file could not
 * be read. SONDE_CANCELLED: --help or --version was printed to stdout. */
SONDE_MUST_USE sonde_err sonde_options_read(const struct sonde_options *options, void *settings,
                                            bool stop_at_plain, int *argc, char **argv,
                                            struct sonde_diag *diag);
void sonde_options_help(const struct sonde_options *options, FILE *out);

#endif
