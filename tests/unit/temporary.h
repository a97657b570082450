/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a test puts its files: in TMPDIR, which //tests:own_folder makes for each test and removes
 * after it. */
#ifndef SONDE_TESTS_UNIT_TEMPORARY_H
#define SONDE_TESTS_UNIT_TEMPORARY_H

#include <stdio.h>
#include <stdlib.h>

/* A template for mkdtemp and mkstemp, short enough for the path of a unix socket. Returns path. */
static inline char *temporary_template(char *path, size_t size) {
    const char *folder = getenv("TMPDIR");
    snprintf(path, size, "%s/x.XXXXXX", folder && *folder ? folder : "/tmp");
    return path;
}

#endif
