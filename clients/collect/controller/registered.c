/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/controller/registered.h"

#include "clients/collect/controller/controller_state.h"
#include "proto/sonde/v1/controller.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME     255
#define MAX_INSTANCE 63

/* ---- The transport ---- */

static void send_to_host(void *call, const ProtobufCMessage *message) {
    server_send(call, message);
}

static void read_from_host(void *call) {
    server_next(call);
}

static void end_call(void *call, sonde_err err, const char *text) {
    server_finish(call, err, text);
}

static const struct link_transport from_host = {send_to_host, read_from_host, end_call};

/* ---- The host ---- */

static bool is_name(const char *name) {
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-");
    return len > 0 && len <= MAX_NAME && name[len] == 0;
}

static sonde_err check(const Sonde__V1__HostRegistration *registration, struct sonde_diag *diag) {
    if (!registration)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "the first request has no registration");
    if (!is_name(registration->name))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "a host's name has 1 to %d letters, digits and _.:-", MAX_NAME);
    if (strlen(registration->instance) > MAX_INSTANCE)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "the instance has more than %d bytes",
                          MAX_INSTANCE);
    return SONDE_OK;
}

/* Whether a new call of that instance may have the host. It ends an earlier one of the same. */
static sonde_err claim(struct host *host, const char *instance, struct sonde_diag *diag) {
    if (!host->is_registered)
        return sonde_fail(
            diag, SONDE_SESSION_BUSY,
            "host %.100s is listed in %.100s; register under another name, see sonded "
            "--register-name",
            host->name, host->origin);
    if (!host->link)
        return SONDE_OK;
    if (strcmp(host->instance, instance) != 0)
        return sonde_fail(diag, SONDE_SESSION_BUSY,
                          "another host is connected as %.100s, from %.64s; choose another name, "
                          "see sonded --register-name",
                          host->name, host->address);
    link_break(host->link, SONDE_CANCELLED, "the host has registered again");
    host->link = NULL;
    return SONDE_OK;
}

static sonde_err add_host(struct controller *controller, const char *name, const char *address,
                          struct host **added, struct sonde_diag *diag) {
    const struct discovered_host from = {.name = name, .address = address, .origin = "registered"};
    size_t count = 0;
    for (size_t i = 0; i < controller->host_count; i++)
        count += controller->hosts[i]->is_registered;
    if (count >= REGISTERED_MAX_HOSTS)
        return sonde_fail(diag, SONDE_UNAVAILABLE, "limit of %d registered hosts reached",
                          REGISTERED_MAX_HOSTS);
    struct host *host = host_create(controller, &from, 0);
    if (!host || !hosts_insert(controller, host)) {
        if (host)
            host_drop(host);
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for another host");
    }
    host->is_seen = host->is_registered = true;
    sharing_apply_host(controller, host);
    *added = host;
    return SONDE_OK;
}

/* Of several controllers, one takes the host: it registers with each of them. */
static sonde_err check_owner(struct controller *controller, const struct host *host,
                             struct sonde_diag *diag) {
    if (host->is_own)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_UNAVAILABLE,
                      "controller %.64s has this host; register with each controller of the group",
                      sharing_owner(controller, host));
}

/* "10.0.0.7:4711" of gRPC's "ipv4:10.0.0.7:4711" */
static const char *plain_address(const char *peer) {
    const char *colon = strncmp(peer, "ipv", 3) == 0 ? strchr(peer, ':') : NULL;
    return colon ? colon + 1 : peer;
}

static sonde_err find_host(struct controller *controller,
                           const Sonde__V1__HostRegistration *registration, const char *address,
                           struct host **found, struct sonde_diag *diag) {
    struct host *host = host_find(controller, registration->name);
    bool is_known = host != NULL;
    sonde_err err =
        is_known ? SONDE_OK : add_host(controller, registration->name, address, &host, diag);
    if (!err)
        err = check_owner(controller, host, diag);
    if (!err && is_known)
        err = claim(host, registration->instance, diag);
    char *copy = err ? NULL : strdup(address);
    if (!err && !copy)
        err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for a call");
    if (err)
        return err;
    free(host->address);
    host->address = copy;
    snprintf(host->instance, sizeof host->instance, "%s", registration->instance);
    *found = host;
    return SONDE_OK;
}

/* ---- The call ---- */

static sonde_err start(struct controller *controller, struct server_call *call,
                       const Sonde__V1__RegisterHostRequest *request, struct sonde_diag *diag) {
    const Sonde__V1__HostRegistration *registration = request->registration;
    struct host *host = NULL;
    struct sonde_arena arena = {0};
    sonde_err err = controller->is_stopping
                        ? sonde_fail(diag, SONDE_UNAVAILABLE, "the controller is stopping")
                        : check(registration, diag);
    if (!err)
        err =
            find_host(controller, registration, plain_address(server_call_peer(call)), &host, diag);
    struct link *link = err ? NULL : link_create(controller, host);
    Sonde__V1__CollectRequest *first = link ? settings_start(link, &arena) : NULL;
    if (link) {
        link->transport = &from_host;
        link->call = call;
        server_call_set(call, link);
        host->state = HOST_CONNECTING;
        log_host(controller, host, "has registered");
    }
    if (first) {
        link->is_sending = true;
        server_send(call, &first->base);
        server_next(call);
    } else if (!err) {
        err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for a call");
    }
    sonde_arena_finish(&arena);
    return err;
}

void registered_on_start(void *context, struct server_call *call, const ProtobufCMessage *message) {
    struct controller *controller = context;
    struct sonde_diag diag = {0};
    lock(controller);
    sonde_err err = start(controller, call, (const Sonde__V1__RegisterHostRequest *)message, &diag);
    if (err)
        server_finish(call, err, sonde_diag_text(&diag, err));
    unlock(controller);
}

void registered_on_message(void *state, const ProtobufCMessage *message) {
    struct link *link = state;
    struct controller *controller = link->controller;
    const Sonde__V1__RegisterHostRequest *request = (const void *)message;
    lock(controller);
    if (!request)
        link_break(link, SONDE_UNAVAILABLE, "the host has ended the call");
    else if (!request->answer)
        link_break(link, SONDE_PROTOCOL, "a request of the host has no answer");
    else if (link_read(link, request->answer))
        server_next(link->call);
    unlock(controller);
}

void registered_on_sent(void *state) {
    struct link *link = state;
    struct controller *controller = link->controller;
    lock(controller);
    link_on_sent(link);
    unlock(controller);
}

void registered_on_end(void *state) {
    struct link *link = state;
    struct controller *controller = link->controller;
    lock(controller);
    link_on_end(link, SONDE_UNAVAILABLE, "the host has ended the call");
    unlock(controller);
}

void registered_sweep(struct controller *controller, int64_t now_ms) {
    bool is_any = false;
    for (size_t i = 0; i < controller->host_count; i++) {
        struct host *host = controller->hosts[i];
        if (!host->is_registered || host->link || now_ms - host->gone_ms < REGISTERED_KEEP_S * 1000)
            continue;
        host->is_seen = false;
        is_any = true;
    }
    if (is_any)
        hosts_sweep(controller);
}
