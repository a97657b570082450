/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/service/service.h"

#include "api/os/secrets/tls_files.h"
#include "api/os/secrets/token_file.h"
#include "clients/c/server/server.h"
#include "clients/collect/controller/fleet.h"
#include "clients/collect/controller/registered.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_TOKEN 16
#define WAIT_MS   100

struct service {
    struct server *server;
    struct token_file *tokens;
    struct tls_files *tls;
    pthread_t thread;
    _Atomic bool is_stopping;
};

/* ---- Methods ---- */

static void reply_fleet(void *context, const Sonde__V1__Fleet *fleet) {
    server_reply(context, &fleet->base);
}

static void reply_hosts(void *context, const Sonde__V1__ListHostsResponse *hosts) {
    server_reply(context, &hosts->base);
}

static void fail(struct server_call *call, sonde_err err, const struct sonde_diag *diag) {
    if (err)
        server_finish(call, err, sonde_diag_text(diag, err));
}

static void get_fleet(void *context, struct server_call *call, const ProtobufCMessage *message) {
    (void)message;
    fail(call, fleet_describe(context, reply_fleet, call), NULL);
}

static void list_hosts(void *context, struct server_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__ListHostsRequest *request = (const void *)message;
    struct sonde_diag diag = {0};
    fail(call,
         fleet_list(context, request->name, request->only_in_trouble, reply_hosts, call, &diag),
         &diag);
}

static void set_paused(void *context, struct server_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__SetPausedRequest *request = (const void *)message;
    struct sonde_diag diag = {0};
    sonde_err err =
        fleet_pause(context, request->is_paused, request->reason, server_call_peer(call), &diag);
    if (!err)
        err = fleet_describe(context, reply_fleet, call);
    fail(call, err, &diag);
}

static const struct server_method methods[] = {
    {.path = "/sonde.v1.Controller/GetFleet",
     .request = &sonde__v1__get_fleet_request__descriptor,
     .scope = SONDE_SCOPE_READ,
     .on_start = get_fleet},
    {.path = "/sonde.v1.Controller/ListHosts",
     .request = &sonde__v1__list_hosts_request__descriptor,
     .scope = SONDE_SCOPE_READ,
     .on_start = list_hosts},
    {.path = "/sonde.v1.Controller/SetPaused",
     .request = &sonde__v1__set_paused_request__descriptor,
     .scope = SONDE_SCOPE_CONTROL,
     .on_start = set_paused},
    {.path = "/sonde.v1.Controller/RegisterHost",
     .request = &sonde__v1__register_host_request__descriptor,
     .scope = SONDE_SCOPE_REGISTER,
     .on_start = registered_on_start,
     .on_message = registered_on_message,
     .on_sent = registered_on_sent,
     .on_end = registered_on_end},
};

/* ---- Life ---- */

static void *run(void *context) {
    struct service *service = context;
    while (!atomic_load(&service->is_stopping))
        server_run(service->server, WAIT_MS);
    return NULL;
}

static sonde_err open_files(struct service *service, const struct service_options *options,
                            struct sonde_diag *diag) {
    const struct tls_files_options tls = {.cert_file = options->cert_file,
                                          .key_file = options->key_file,
                                          .ca_file = options->client_ca_file,
                                          .key_kind = SONDE_FILE_SECRET,
                                          .log = options->log};
    bool has_tls = options->cert_file || options->key_file || options->client_ca_file;
    sonde_err err = SONDE_OK;
    if (has_tls && (!options->cert_file || !options->key_file))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "TLS needs both a certificate and its key");
    if (options->token_file)
        err =
            token_file_create(options->token_file, MIN_TOKEN, options->log, &service->tokens, diag);
    return !err && has_tls ? tls_files_create(&tls, &service->tls, diag) : err;
}

static void finish(struct service *service) {
    server_destroy(service->server);
    token_file_destroy(service->tokens);
    tls_files_destroy(service->tls);
    free(service);
}

sonde_err service_start(const struct service_options *options, struct controller *controller,
                        struct service **started, struct sonde_diag *diag) {
    struct service *service = calloc(1, sizeof *service);
    *started = NULL;
    if (!service)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "not enough memory");
    sonde_err err = open_files(service, options, diag);
    const struct server_options server = {
        .methods = methods,
        .method_count = sizeof methods / sizeof methods[0],
        .context = controller,
        .addresses = options->addresses,
        .address_count = options->address_count,
        .tokens = service->tokens,
        .tls = service->tls,
        .asks_client = options->client_ca_file != NULL,
    };
    if (!err)
        err = server_create(&server, &service->server, diag);
    int error = err ? 0 : pthread_create(&service->thread, NULL, run, service);
    if (error)
        err = sonde_fail_os(diag, error, "the service's thread cannot be started");
    if (err)
        finish(service);
    else
        *started = service;
    return err;
}

const char *service_address(const struct service *service, size_t index) {
    return server_address(service->server, index);
}

void service_stop(struct service *service) {
    if (!service)
        return;
    atomic_store(&service->is_stopping, true);
    pthread_join(service->thread, NULL);
    finish(service);
}
