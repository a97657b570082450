/* SPDX-License-Identifier: Apache-2.0
 *
 * The input of `top`, `draw`, `diff` and `annotate`: a profile file, or a capture of a target. An
 * argument with a slash or a known extension is a file. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_SOURCE_SOURCE_H
#define SONDE_CLIENTS_CLI_VERBS_SOURCE_SOURCE_H

#include "clients/cli/capture.h"
#include "clients/cli/cli.h"

/* The table of `sonde top`. */
struct source_table {
    uint64_t rows; /* 0 = all */
    bool by_total, full_names;
    const char *function; /* its callers and what it calls instead; NULL = the table */
};

struct source_settings {
    struct capture_settings capture;
    struct service_settings service;
    const char *type;                 /* sample type to draw; NULL = the default one */
    const struct source_table *table; /* drawn here; NULL = targets are drawn by the service */
};

bool source_is_file(const char *word);
/* Reads a pprof file, a perf.data, or a jemalloc dump, which has no function names. The caller
 * destroys *profile. */
SONDE_MUST_USE sonde_err source_read(const char *path, struct sonde_profile **profile,
                                     struct sonde_diag *diag);

/* A file in memory for a profile. The caller finishes the output. */
struct source_memory {
    struct output output;
    char path[32]; /* for source_read */
};
SONDE_MUST_USE sonde_err source_memory_open(struct source_memory *memory, struct sonde_diag *diag);

/* Takes a capture of a target (NULL = the only one). The caller destroys *profile. */
SONDE_MUST_USE sonde_err source_capture(const char *target, const struct source_settings *settings,
                                        struct sonde_profile **profile,
                                        struct capture_result *result, struct sonde_diag *diag);

/* Draws a file or a capture of a target (NULL = the only one) to output_path. Returns the exit
 * status. */
int source_draw(const struct verb *verb, const char *word, const struct source_settings *settings,
                enum sonde_format format, const char *output_path);

#endif
