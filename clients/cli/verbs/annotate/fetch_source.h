/* SPDX-License-Identifier: Apache-2.0
 *
 * Source files from the debuginfod servers in DEBUGINFOD_URLS, which elfutils' debuginfod-find asks
 * and caches. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_ANNOTATE_FETCH_SOURCE_H
#define SONDE_CLIENTS_CLI_VERBS_ANNOTATE_FETCH_SOURCE_H

#include <limits.h>
#include <stdbool.h>

/* Writes the path of a copy of the file that the program with that build-id was built from. False:
 * no server is set or has it, debuginfod-find is not installed, or the name is not absolute.
 * *is_slow: this took seconds for nothing, so the servers should not be asked again. */
bool fetch_source(const char *build_id, const char *name, char path[PATH_MAX], bool *is_slow);

#endif
