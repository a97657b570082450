/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde.v1.Controller over gRPC: operators, and hosts that register. A thread of its own runs the
 * calls. */
#ifndef SONDE_CLIENTS_COLLECT_SERVICE_SERVICE_H
#define SONDE_CLIENTS_COLLECT_SERVICE_SERVICE_H

#include "clients/collect/controller/controller.h"

struct service;

struct service_options {
    const char *const *addresses; /* unix:PATH or HOST:PORT */
    size_t address_count;
    /* As in sonded: over TCP a token is needed, or a certificate of this CA. NULL = none. */
    const char *token_file, *cert_file, *key_file, *client_ca_file;
    void (*log)(const char *line); /* about files that have changed */
};

/* The controller must outlive the service. Errors: those of server_create and of the token file. */
SONDE_MUST_USE sonde_err service_start(const struct service_options *options,
                                       struct controller *controller, struct service **service,
                                       struct sonde_diag *diag);
/* As bound; NULL past the last. */
const char *service_address(const struct service *service, size_t index);
/* Ends all calls. After controller_stop, which says goodbye to hosts; before controller_destroy.
 * NULL is fine. */
void service_stop(struct service *service);

#endif
