/* SPDX-License-Identifier: Apache-2.0
 *
 * A result on its way into a file: written beside it under another name and renamed when it is
 * whole, so that no half file is ever seen. "-", and what is not a plain file, is written as it
 * comes. One thread at a time. */
#ifndef SONDE_CLIENTS_CLI_OUTPUT_H
#define SONDE_CLIENTS_CLI_OUTPUT_H

#include "api/error.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct output {
    const char *path;         /* the user's word */
    char temporary[PATH_MAX]; /* "" = written as it comes */
    int fd;
};

SONDE_MUST_USE sonde_err output_open(struct output *output, const char *path,
                                     struct sonde_diag *diag);
SONDE_MUST_USE sonde_err output_write(struct output *output, const void *data, size_t len,
                                      struct sonde_diag *diag);
/* Gives the file its name. */
SONDE_MUST_USE sonde_err output_commit(struct output *output, struct sonde_diag *diag);
/* Removes what was not committed. After it the output is closed, whatever happened before. */
void output_finish(struct output *output);

#endif
