/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fleet/simulator/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* One call of Collect. */
struct serve_link {
    struct serve *serve;
    struct serve_host *host; /* NULL = displaced or ended */
    struct server_call *call;
    struct sonde_arena arena; /* of the message in flight */
    bool is_sending, owes_next, is_waiting;
    int64_t send_ms, read_ms; /* not before */
};

int64_t serve_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static void finish(struct serve_link *link, sonde_err err, const char *why) {
    struct serve_host *host = link->host;
    if (!host)
        return;
    host->link = NULL;
    link->host = NULL;
    host_disconnect(&host->host);
    server_finish(link->call, err, why);
}

void serve_disconnect(struct serve_host *host, sonde_err err, const char *why) {
    if (host->link)
        finish(host->link, err, why);
}

void serve_restart(struct serve *serve, struct serve_host *host) {
    serve_disconnect(host, SONDE_UNAVAILABLE, "the host is restarting");
    host_restart(&host->host, serve->now_unix_s);
}

/* A window of a process that was never defined. */
static Sonde__V1__CollectResponse *make_garbage(struct sonde_arena *arena) {
    Sonde__V1__CollectResponse *response = sonde_arena_alloc(arena, sizeof *response);
    Sonde__V1__CollectWindow *window = sonde_arena_alloc(arena, sizeof *window);
    Sonde__V1__CollectWindow **windows = sonde_arena_alloc(arena, sizeof(void *));
    if (!response || !window || !windows)
        abort();
    sonde__v1__collect_response__init(response);
    sonde__v1__collect_window__init(window);
    window->seq = UINT64_MAX;
    window->process = 999999;
    windows[0] = window;
    response->windows = windows;
    response->n_windows = 1;
    return response;
}

static Sonde__V1__CollectResponse *next_message(struct serve_link *link) {
    struct serve_host *host = link->host;
    if (!host->sends_garbage || !host->host.has_said_hello)
        return host_next(&host->host, &link->arena, link->serve->now_unix_s);
    host->sends_garbage = false;
    return make_garbage(&link->arena);
}

static void send_next(struct serve_link *link, int64_t now_ms) {
    if (link->is_sending)
        return;
    if (now_ms < link->send_ms) {
        link->is_waiting = true;
        return;
    }
    Sonde__V1__CollectResponse *response = next_message(link);
    if (!response)
        return;
    size_t bytes = sonde__v1__collect_response__get_packed_size(response);
    const Sonde__V1__CollectSettings *settings = link->host->host.settings;
    link->serve->messages++;
    link->serve->bytes += bytes;
    link->is_sending = true;
    link->send_ms = now_ms + link->host->slow_ms;
    if (settings && settings->max_bytes_per_s)
        link->send_ms += (int64_t)(bytes * 1000 / settings->max_bytes_per_s);
    server_send(link->call, &response->base);
}

static void read_next(struct serve_link *link, int64_t now_ms) {
    if (!link->owes_next)
        return;
    if (now_ms < link->read_ms) {
        link->is_waiting = true;
        return;
    }
    link->owes_next = false;
    link->read_ms = now_ms + link->host->slow_ms;
    server_next(link->call);
}

void serve_pump_host(struct serve *serve, struct serve_host *host) {
    if (!host->link || host->is_stalled)
        return;
    int64_t now_ms = serve_now_ms();
    read_next(host->link, now_ms);
    send_next(host->link, now_ms);
}

bool serve_pump(struct serve *serve) {
    bool is_any = false;
    for (size_t i = 0; i < serve->count; i++) {
        struct serve_link *link = serve->hosts[i].link;
        if (!link || !link->is_waiting)
            continue;
        link->is_waiting = false;
        is_any = true;
        serve_pump_host(serve, &serve->hosts[i]);
    }
    return is_any;
}

void serve_advance(struct serve *serve, int64_t now_unix_s) {
    serve->now_unix_s = now_unix_s;
    for (size_t i = 0; i < serve->count; i++) {
        host_advance(&serve->hosts[i].host, now_unix_s);
        serve_pump_host(serve, &serve->hosts[i]);
    }
}

/* Takes a request; false: the call was ended. */
static bool take(struct serve_link *link, const ProtobufCMessage *message, bool is_first) {
    struct sonde_diag diag = {0};
    const Sonde__V1__CollectRequest *request = (const void *)message;
    link->serve->acknowledging += request->ack != NULL;
    sonde_err err = host_receive(&link->host->host, request, is_first, &diag);
    if (err)
        finish(link, err, sonde_diag_text(&diag, err));
    return err == SONDE_OK;
}

static void on_message(void *state, const ProtobufCMessage *message) {
    struct serve_link *link = state;
    if (!link->host)
        return;
    if (!message) {
        finish(link, SONDE_OK, "");
        return;
    }
    if (!take(link, message, false))
        return;
    link->owes_next = true;
    serve_pump_host(link->serve, link->host);
}

static void on_sent(void *state) {
    struct serve_link *link = state;
    sonde_arena_finish(&link->arena);
    link->is_sending = false;
    if (link->host)
        serve_pump_host(link->serve, link->host);
}

static void on_end(void *state) {
    struct serve_link *link = state;
    if (link->host) {
        link->host->link = NULL;
        host_disconnect(&link->host->host);
    }
    sonde_arena_finish(&link->arena);
    free(link);
}

static struct serve_host *host_of(struct serve *serve, const char *authority) {
    unsigned net, number;
    if (!authority || sscanf(authority, "127.0.%3u.%3u:", &net, &number) != 2 || number < 1 ||
        number > SERVE_HOSTS_PER_NET)
        return NULL;
    size_t index = (size_t)net * SERVE_HOSTS_PER_NET + number - 1;
    return index < serve->count ? &serve->hosts[index] : NULL;
}

static void on_start(void *context, struct server_call *call, const ProtobufCMessage *request) {
    struct serve *serve = context;
    struct serve_host *host = host_of(serve, server_call_authority(call));
    struct serve_link *link = calloc(1, sizeof *link);
    if (!link)
        abort();
    *link = (struct serve_link){.serve = serve, .call = call};
    server_call_set(call, link);
    serve->calls++;
    if (!host || host->is_down) {
        server_finish(call, SONDE_UNAVAILABLE, "the host is down");
        return;
    }
    serve->displaced += host->link != NULL;
    serve_disconnect(host, SONDE_SESSION_BUSY, "another call has this session now");
    host->link = link;
    link->host = host;
    host_connect(&host->host);
    if (!take(link, request, true))
        return;
    link->owes_next = true;
    serve_pump_host(serve, host);
}

const struct server_method serve_method = {
    .path = "/sonde.v1.Profiler/Collect",
    .request = &sonde__v1__collect_request__descriptor,
    .scope = SONDE_SCOPE_READ,
    .on_start = on_start,
    .on_message = on_message,
    .on_sent = on_sent,
    .on_end = on_end,
};
