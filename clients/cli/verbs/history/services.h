/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde history` without a service: what was recorded, one row for each service. Main thread
 * only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_HISTORY_SERVICES_H
#define SONDE_CLIENTS_CLI_VERBS_HISTORY_SERVICES_H

#include "clients/cli/history.h"

/* --list: first and last window, hosts, processes and events. selector may be NULL. */
SONDE_MUST_USE sonde_err history_list_services(struct service *service,
                                               const struct history_range *range,
                                               const char *selector, bool as_json,
                                               struct sonde_diag *diag);
/* The services that used the most CPU time, and when they did. SONDE_NOT_FOUND: the range has no
 * windows. */
SONDE_MUST_USE sonde_err history_show_services(struct service *service,
                                               const struct history_range *range,
                                               struct sonde_diag *diag);

#endif
