/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds Sonde's other files: in the prefix of this program (bin/ and lib/) or in Bazel's output
 * tree. SONDE_LIBDIR names a directory to search first. Thread safety: any thread. */
#ifndef SONDE_API_SETTINGS_INSTALL_H
#define SONDE_API_SETTINGS_INSTALL_H

#include "api/error.h"

#include <limits.h>
#include <stdbool.h>

enum installed { INSTALLED_SONDED, INSTALLED_GATEWAY, INSTALLED_LIBSONDE, INSTALLED_COUNT };

/* "sonded", "sonde-gateway", "libsonde.so" */
const char *install_name(enum installed file);

/* Writes an absolute path to `path`. If the file is not found, SONDE_NOT_AVAILABLE says where it
 * should be. */
SONDE_MUST_USE sonde_err install_find(enum installed file, char path[PATH_MAX],
                                      struct sonde_diag *diag);

/* The value for LD_PRELOAD, which the command's children inherit. A musl child would load
 * libsonde.so for nothing, because it needs glibc. In an installed prefix the path therefore
 * contains $LIB, which only glibc expands; other linkers find no file and ignore it. */
void install_preload_path(const char *libsonde, char path[PATH_MAX]);

#endif
