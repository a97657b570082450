/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde history --changes`: what a watcher found. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_HISTORY_CHANGES_H
#define SONDE_CLIENTS_CLI_VERBS_HISTORY_CHANGES_H

#include "clients/cli/history.h"

/* name "" = all services. */
SONDE_MUST_USE sonde_err history_list_changes(struct service *service, const char *name,
                                              const struct history_range *range, bool as_json,
                                              struct sonde_diag *diag);

#endif
