/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the other programs lie: beside this one (an installed prefix: bin/ and lib/), or in the
 * tree that Bazel builds. SONDE_LIBDIR names another folder to look in first. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_PLACES_H
#define SONDE_CLIENTS_CLI_PLACES_H

#include "api/error.h"

#include <limits.h>
#include <stdbool.h>

enum place { PLACE_SONDED, PLACE_GATEWAY, PLACE_LIBSONDE, PLACE_COUNT };

/* "sonded", "sonde-gateway", "libsonde.so" */
const char *place_name(enum place place);

/* An absolute path in `path`. SONDE_NOT_AVAILABLE says where was looked. */
SONDE_MUST_USE sonde_err place_find(enum place place, char path[PATH_MAX], struct sonde_diag *diag);

#endif
