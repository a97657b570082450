/* SPDX-License-Identifier: Apache-2.0
 *
 * What `sonde fleet` prints. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_FLEET_FLEET_H
#define SONDE_CLIENTS_CLI_VERBS_FLEET_FLEET_H

#include "proto/sonde/v1/controller.pb-c.h"

void fleet_print_status(const Sonde__V1__Fleet *fleet);
void fleet_print_hosts(const Sonde__V1__ListHostsResponse *list);
/* Sentences: what the host is doing, why nothing comes from it, and what to do. */
void fleet_print_why(const Sonde__V1__FleetHost *host, const Sonde__V1__Fleet *fleet);
/* "3 ring_full, 2 too_large", or nothing. */
void fleet_print_losses(Sonde__V1__Drop *const *losses, size_t count);
const char *fleet_state_name(Sonde__V1__FleetHostState state);

#endif
