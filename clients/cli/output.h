/* SPDX-License-Identifier: Apache-2.0
 *
 * An output file that appears only when it is complete: it is written under a temporary name in the
 * same directory and renamed at the end. "-" (stdout) and files that are not regular are written
 * directly. One thread at a time. */
#ifndef SONDE_CLIENTS_CLI_OUTPUT_H
#define SONDE_CLIENTS_CLI_OUTPUT_H

#include "api/error.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct output {
    const char *path;         /* as the user gave it */
    char temporary[PATH_MAX]; /* "" = no temporary file */
    int fd;
};

SONDE_MUST_USE sonde_err output_open(struct output *output, const char *path,
                                     struct sonde_diag *diag);
/* Does nothing if the reader of stdout has closed the pipe. */
SONDE_MUST_USE sonde_err output_write(struct output *output, const void *data, size_t len,
                                      struct sonde_diag *diag);
/* Renames the file to its final name. */
SONDE_MUST_USE sonde_err output_commit(struct output *output, struct sonde_diag *diag);
/* Closes the output, and deletes the temporary file if it was not committed. */
void output_finish(struct output *output);

/* The number of columns of the terminal that a file descriptor is; 0 = it is no terminal. */
size_t output_terminal_columns(int fd);
/* The same of the output of that path: 0, unless it is "-" and stdout is a terminal. */
size_t output_columns(const char *path);

#endif
