/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/service/service.h"

#include "api/os/secret_file.h"
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
    struct sonde_tokens *tokens;
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

static sonde_err read_tokens(const char *path, struct sonde_tokens **tokens,
                             struct sonde_diag *diag) {
    struct sonde_buf text = {.limit = SONDE_TOKENS_MAX_FILE};
    sonde_err err = sonde_file_read(path, "token file", SONDE_FILE_SECRET, &text, diag);
    if (!err)
        err = sonde_tokens_parse(sonde_buf_slice(&text), MIN_TOKEN, tokens, diag);
    if (text.data)
        explicit_bzero(text.data, text.len);
    sonde_buf_finish(&text);
    return err;
}

static void finish(struct service *service) {
    server_destroy(service->server);
    sonde_tokens_destroy(service->tokens);
    free(service);
}

sonde_err service_start(const struct service_options *options, struct controller *controller,
                        struct service **started, struct sonde_diag *diag) {
    struct service *service = calloc(1, sizeof *service);
    *started = NULL;
    if (!service)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "not enough memory");
    sonde_err err =
        options->token_file ? read_tokens(options->token_file, &service->tokens, diag) : SONDE_OK;
    const struct server_options server = {
        .methods = methods,
        .method_count = sizeof methods / sizeof methods[0],
        .context = controller,
        .addresses = options->addresses,
        .address_count = options->address_count,
        .tokens = service->tokens,
        .cert_file = options->cert_file,
        .key_file = options->key_file,
        .client_ca_file = options->client_ca_file,
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
