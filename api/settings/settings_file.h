/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings file that all programs share:
 *
 *     # a comment
 *     data-dir = /srv/sonde            the setting --data-dir; data_dir is the same name
 *     token = "a # in quotes"          a value may stand in double quotes
 *     [memory]
 *     enable_heap_profiling = true     GreptimeDB's section, for sonded
 *     [sonde-gateway]
 *     listen = 127.0.0.1:8080          what follows is for this program only
 *
 * Lines before the first section are for every program that has the setting. A name that no program
 * has is refused, so that a mistyped one is noticed. Thread safety: main thread only. */
#ifndef SONDE_API_SETTINGS_SETTINGS_FILE_H
#define SONDE_API_SETTINGS_SETTINGS_FILE_H

#include "api/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define SONDE_SETTINGS_MAX_LINE 1023

/* The program that reads the file. */
struct sonde_settings_reader {
    const char *program;      /* "sonded": the section that is its own */
    const char *const *names; /* its settings, with dashes */
    size_t count;
    /* Sets one of them. `place` is "FILE:LINE: " for error texts; the texts are the caller's to
     * copy. */
    sonde_err (*set)(void *context, size_t name, const char *place, const char *value);
    void *context;
};

/* `path` is for error texts. SONDE_INVALID_ARGUMENT: the text has file, line and name. */
SONDE_MUST_USE sonde_err sonde_settings_read(FILE *file, const char *path,
                                             const struct sonde_settings_reader *reader,
                                             struct sonde_diag *diag);

/* The settings of all programs. tests/lint compares them with the programs' tables. */
const char *const *sonde_setting_names(size_t *count);

#endif
