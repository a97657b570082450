/* SPDX-License-Identifier: Apache-2.0
 *
 * The private folder of one `sonde run`: the sockets of its sonded. All of a user's lie in one
 * place, $XDG_RUNTIME_DIR/sonde or /tmp/sonde-UID, so that the other verbs find the one that runs
 * without being told. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_RUN_RUNDIR_H
#define SONDE_CLIENTS_CLI_RUN_RUNDIR_H

#include "api/error.h"

#include <stdbool.h>
#include <stddef.h>

#define RUNDIR_MAX 80 /* leaves room for a name within a unix socket's 107 bytes */

struct rundir {
    char path[RUNDIR_MAX];
};

/* A new folder that only this user may enter. Removes what dead runs left. */
SONDE_MUST_USE sonde_err rundir_create(struct rundir *dir, struct sonde_diag *diag);
/* Removes the folder and the sockets in it. A zeroed one is nothing. */
void rundir_remove(struct rundir *dir);

/* PATH/name in `out`, which holds 108 bytes: what fits a unix socket address. */
void rundir_file(const struct rundir *dir, const char *name, char out[108]);

/* How many runs of this user are alive; the address of one of them ("unix:...") in `address`. */
size_t rundir_find_service(char address[128]);

#endif
