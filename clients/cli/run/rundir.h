/* SPDX-License-Identifier: Apache-2.0
 *
 * The private directory of a `sonde run`, which has the sockets of its sonded. All run directories
 * of a user are in $XDG_RUNTIME_DIR/sonde or /tmp/sonde-UID, so other verbs can find the running
 * sonded. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_RUN_RUNDIR_H
#define SONDE_CLIENTS_CLI_RUN_RUNDIR_H

#include "api/error.h"

#include <stdbool.h>
#include <stddef.h>

#define RUNDIR_MAX 80 /* leaves space for a file name in the 107 bytes of a unix socket address */

struct rundir {
    char path[RUNDIR_MAX];
};

/* Creates a directory that only this user can enter. Deletes directories that dead runs left. */
SONDE_MUST_USE sonde_err rundir_create(struct rundir *dir, struct sonde_diag *diag);
/* Deletes the directory and everything in it. Accepts a zeroed struct. */
void rundir_remove(struct rundir *dir);

/* Writes PATH/name to `out`, which is as large as a unix socket address. */
void rundir_file(const struct rundir *dir, const char *name, char out[108]);

/* Calls `each` with the path of the gRPC socket of every live run in a parent directory. */
void rundir_each_service(const char *base, void (*each)(void *context, const char *path),
                         void *context);

#endif
