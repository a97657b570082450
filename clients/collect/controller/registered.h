/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts that register: the method RegisterHost of sonde.v1.Controller. The host calls; from then on
 * the call is a link like any other. Its callbacks take the controller's lock. */
#ifndef SONDE_CLIENTS_COLLECT_CONTROLLER_REGISTERED_H
#define SONDE_CLIENTS_COLLECT_CONTROLLER_REGISTERED_H

#include "clients/c/server/server.h"
#include "clients/collect/controller/controller.h"

#define REGISTERED_MAX_HOSTS 10000
#define REGISTERED_KEEP_S    3600 /* a host that has ended its call is listed as waiting so long */

/* Of a server_method: context is the controller, state a link. */
void registered_on_start(void *context, struct server_call *call, const ProtobufCMessage *message);
void registered_on_message(void *state, const ProtobufCMessage *message);
void registered_on_sent(void *state);
void registered_on_end(void *state);

#endif
