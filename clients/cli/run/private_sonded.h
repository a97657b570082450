/* SPDX-License-Identifier: Apache-2.0
 *
 * A sonded that serves one command: the server of a `sonde run`, or a verb such as `sonde record`
 * while no other sonded is running. It has its sockets in a run directory, and its tables in the
 * user's data directory, where the next one finds them. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_RUN_PRIVATE_SONDED_H
#define SONDE_CLIENTS_CLI_RUN_PRIVATE_SONDED_H

#include "clients/cli/run/helper.h"
#include "clients/cli/run/rundir.h"

#include <limits.h>

struct private_sonded {
    struct helper helper;
    char program[PATH_MAX], guest_socket[108], service_socket[108];
    char address[128]; /* of its gRPC socket */
};

/* Finds the program and sets up the helper and its arguments; more may be added before it is
 * started. The helper is ready once sonded has printed the address. Its other addresses are printed
 * on stderr. `socket` is the name of the gRPC socket in dir. The caller keeps dir and mask. */
SONDE_MUST_USE sonde_err private_sonded_prepare(struct private_sonded *sonded,
                                                const struct rundir *dir, const char *socket,
                                                const sigset_t *mask, struct sonde_diag *diag);

/* For verbs: a run directory and a sonded in it. Other verbs do not find it. */
struct private_service {
    struct rundir dir;
    struct private_sonded sonded;
    char data_dir[64]; /* "" = sonded's default */
};

/* Starts it and waits until it is ready. SONDE_CANCELLED if `signals`, a signalfd, has a signal
 * meanwhile. On an error nothing is left. */
SONDE_MUST_USE sonde_err private_service_start(struct private_service *service,
                                               const sigset_t *mask, int signals,
                                               struct sonde_diag *diag);
/* Ends it and deletes the directory. */
void private_service_stop(struct private_service *service);

#endif
