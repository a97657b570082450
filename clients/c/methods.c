/* SPDX-License-Identifier: Apache-2.0
 *
 * The methods that the client can call. */
#include "clients/c/client.h"
#include "proto/sonde/v1/controller.pb-c.h"
#include "proto/sonde/v1/history.pb-c.h"
#include "proto/sonde/v1/profiler.pb-c.h"

/* streaming, sends */
#define KIND_UNARY         false, false
#define KIND_STREAM        true, false
#define KIND_BIDI          true, true
#define KIND_CLIENT_STREAM false, true
#define KIND_DUPLEX        true, true

#define DEFINE(service, method, name, kind, request, response)                 \
    const struct client_method client_##name = {                               \
        "/sonde.v1." service "/" #method, &sonde__v1__##request##__descriptor, \
        &sonde__v1__##response##__descriptor, KIND_##kind};
#define PROFILER(method, name, kind, scope, effect, reach, request, response) \
    DEFINE("Profiler", method, name, kind, request, response)
#define HISTORY(method, name, kind, scope, effect, reach, request, response) \
    DEFINE("History", method, name, kind, request, response)
#define CONTROLLER(method, name, request, response) \
    DEFINE("Controller", method, name, UNARY, request, response)
#include "proto/sonde/v1/methods.inc"

#define PROFILER(method, name, ...) &client_##name,
#define HISTORY                     PROFILER
#define CONTROLLER                  PROFILER
const struct client_method *const client_methods[] = {
#include "proto/sonde/v1/methods.inc"
};
const size_t client_method_count = sizeof client_methods / sizeof client_methods[0];
