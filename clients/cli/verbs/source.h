/* SPDX-License-Identifier: Apache-2.0
 *
 * What `top` and `draw` work on: a file that was recorded before, or a capture of a target taken
 * now. A word with a slash or a known extension is a file. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_SOURCE_H
#define SONDE_CLIENTS_CLI_VERBS_SOURCE_H

#include "clients/cli/capture.h"
#include "clients/cli/cli.h"

struct source_settings {
    struct capture_settings capture;
    struct service_settings service;
};

bool source_is_file(const char *word);
/* A pprof file, or a dump of jemalloc's, which has no names. *profile is the caller's to destroy.
 */
SONDE_MUST_USE sonde_err source_read(const char *path, struct sonde_profile **profile,
                                     struct sonde_diag *diag);

/* Draws word, a file or a target (NULL = the only one), into output_path. Returns the exit code. */
int source_draw(const struct verb *verb, const char *word, const struct source_settings *settings,
                enum sonde_format format, const char *output_path);

#endif
