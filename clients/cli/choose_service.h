/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses one of several running sonded for a request: the one that the request's target is
 * attached to. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_CHOOSE_SERVICE_H
#define SONDE_CLIENTS_CLI_CHOOSE_SERVICE_H

#include "api/error.h"
#include "clients/c/client.h"
#include "clients/cli/services.h"

/* What choose_service needs to know about a call. */
struct service_question {
    const struct client_method *method;
    const ProtobufCMessage *request;
    const char *token;
    bool may_start; /* a private sonded can answer if none of these should */
};

/* Returns the field `target` of a request; NULL if requests of this type lack it. */
const Sonde__V1__TargetSelector *choose_selector(const ProtobufCMessage *request);

/* Sets *chosen to one of found->items, or to NULL: start a private one. SONDE_INVALID_ARGUMENT if
 * the user has to choose, and SONDE_TARGET_NOT_FOUND if only attached processes will do and the
 * named one is not; both have printed the services on stderr. */
SONDE_MUST_USE sonde_err choose_service(struct found_services *found,
                                        const struct service_question *question,
                                        const struct found_service **chosen,
                                        struct sonde_diag *diag);

#endif
