/* SPDX-License-Identifier: Apache-2.0
 *
 * What a user may have meant by a target that was not found. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_SUGGEST_TARGET_H
#define SONDE_CLIENTS_CLI_SUGGEST_TARGET_H

#include "api/error.h"
#include "clients/c/client.h"
#include "clients/cli/services.h"
#include "proto/sonde/v1/profiler.pb-c.h"

/* Adds the name nearest to the selector's to the text of an error, if there is a near one. Asks the
 * service for all processes, unless `client` is NULL. The targets of `found` count, too. */
void suggest_target(struct client *client, const struct found_services *found,
                    const Sonde__V1__TargetSelector *selector, struct sonde_diag *diag);

/* Prints the processes of the selector's name on stderr, those with most CPU time first, after
 * SONDE_TARGET_AMBIGUOUS, and what to type. is_local: they are of this machine, so that /proc has
 * their command lines. */
void list_candidates(struct client *client, const Sonde__V1__TargetSelector *selector,
                     bool is_local);

/* A service tells a user nothing about the processes of others, but /proc does. If the selector
 * means one of these, on this machine, the error becomes SONDE_PERMISSION_DENIED and names its
 * owner; otherwise err is returned. */
sonde_err explain_owner(const Sonde__V1__TargetSelector *selector, sonde_err err,
                        struct sonde_diag *diag);

#endif
