/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the other programs lie: beside this one (an installed prefix: bin/ and lib/), or in the
 * tree that Bazel builds. SONDE_LIBDIR names another folder to look in first. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_RUN_INSTALL_H
#define SONDE_CLIENTS_CLI_RUN_INSTALL_H

#include "api/error.h"

#include <limits.h>
#include <stdbool.h>

enum installed { INSTALLED_SONDED, INSTALLED_GATEWAY, INSTALLED_LIBSONDE, INSTALLED_COUNT };

/* "sonded", "sonde-gateway", "libsonde.so" */
const char *install_name(enum installed file);

/* An absolute path in `path`. SONDE_NOT_AVAILABLE says where was looked. */
SONDE_MUST_USE sonde_err install_find(enum installed file, char path[PATH_MAX],
                                      struct sonde_diag *diag);

/* How to name the guest in LD_PRELOAD, which the command's children inherit: a musl program among
 * them would be ended by its linker, which finds no glibc in it. In an installed prefix the path
 * has $LIB in it, which glibc alone replaces; everybody else finds no file, and goes on without.
 */
void install_preload_path(const char *libsonde, char path[PATH_MAX]);

#endif
