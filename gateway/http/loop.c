/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's life: configure h2o, bind, turn the loop, stop. One path configuration serves all:
 * the fallback, so that h2o's own errors (413, broken requests) pass the same header filter and the
 * same log as our answers. */
#include "gateway/http/http_server.h"

#define REQUEST_TIMEOUT_MS  10000 /* for head and body to arrive; not for the answer */
#define WATCH_MS            500
#define DEFAULT_CONNECTIONS 4096
#define STREAMS_PER_CLIENT  100
#define TURN_MS             100 /* while stopping, how often the clock is looked at */

/* It brings nothing but the turn itself. */
static void on_wake(h2o_multithread_receiver_t *receiver, h2o_linklist_t *messages) {
    struct http_server *server = H2O_STRUCT_FROM_MEMBER(struct http_server, wakes, receiver);
    while (!h2o_linklist_is_empty(messages))
        h2o_linklist_unlink(messages->next);
    http_turn_woken(server);
}

static void configure(struct http_server *server, bool http2) {
    h2o_globalconf_t *config = &server->config;
    h2o_config_init(config);
    config->server_name = h2o_iovec_init(H2O_STRLIT("sonde"));
    config->max_request_entity_size = HTTP_MAX_BODY;
    config->http1.req_timeout = REQUEST_TIMEOUT_MS;
    config->http1.upgrade_to_http2 = http2;
    config->http2.max_concurrent_requests_per_connection = STREAMS_PER_CLIENT;
    h2o_hostconf_t *host =
        h2o_config_register_host(config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    struct our_handler *handler =
        (void *)h2o_create_handler(&host->fallback_path, sizeof(struct our_handler));
    handler->super.on_req = http_on_request;
    handler->server = server;
    http_headers_register(server, &host->fallback_path);
    http_log_register(server, &host->fallback_path);
}

bool http_server_is_open(const struct http_server *server) {
    for (size_t i = 0; i < server->listener_count; i++)
        if (!server->listeners[i].local)
            return true;
    return false;
}

static sonde_err bind_all(struct http_server *server, struct sonde_diag *diag) {
    for (size_t i = 0; i < server->options.listen_count; i++) {
        if (server->listener_count == HTTP_MAX_LISTENERS)
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "at most %d listeners",
                              HTTP_MAX_LISTENERS);
        sonde_err err = http_listen(server, server->options.listen[i], diag);
        if (err)
            return err;
    }
    return SONDE_OK;
}

static void prepare(struct http_server *server, bool http2) {
    configure(server, http2);
    h2o_context_init(&server->context, server->loop, &server->config);
    h2o_timeout_init(server->loop, &server->watch, WATCH_MS);
    h2o_multithread_register_receiver(server->context.queue, &server->wakes, on_wake);
    for (size_t i = 0; i < server->listener_count; i++) {
        struct listener *listener = &server->listeners[i];
        listener->accept.ctx = &server->context;
        listener->accept.hosts = server->config.hosts;
        listener->accept.ssl_ctx = listener->is_unix ? NULL : server->ssl;
    }
}

sonde_err http_server_create(const struct http_options *options, struct http_server **server_out,
                             struct sonde_diag *diag) {
    struct http_server *server = calloc(1, sizeof *server);
    if (!server)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    server->options = *options;
    if (!server->options.max_connections)
        server->options.max_connections = DEFAULT_CONNECTIONS;
    atomic_flag_clear(&server->wake_sent);
    sonde_err err = http_turn_create(server, diag);
    if (!err)
        err = bind_all(server, diag);
    bool http2 = options->http2 || !http_server_is_open(server);
    if (!err && options->cert_file)
        err = http_tls_create(server, http2, diag);
    if (err) {
        http_listen_close(server);
        h2o_evloop_run(server->loop, 0); /* frees the closed sockets */
        free(server);
        return err;
    }
    prepare(server, http2);
    *server_out = server;
    return SONDE_OK;
}

const char *http_server_address(const struct http_server *server, size_t listener) {
    return server->listeners[listener].address;
}

uint32_t http_server_turn(struct http_server *server, int32_t wait_ms) {
    pthread_mutex_lock(&server->lock);
    if (!server->accepting)
        http_listen_start(server);
    http_turn(server, wait_ms);
    uint32_t connections = server->connections;
    pthread_mutex_unlock(&server->lock);
    return connections;
}

static void turn_until(struct http_server *server, uint64_t deadline, bool one_stop_only,
                       bool (*busy)(void *context)) {
    while (h2o_now(server->loop) < deadline &&
           (!one_stop_only || atomic_load(&server->stops) < 2) &&
           (server->requests || (busy && busy(server->options.context))))
        http_turn(server, TURN_MS);
}

static void abandon_all(struct http_server *server) {
    struct http_request *request = server->first;
    while (request) {
        if (request->state == REQUEST_ANSWERED) {
            request = request->next;
            continue;
        }
        http_request_abandon(request, 503);
        request = server->first; /* the list may have changed under us */
    }
}

void http_server_run(struct http_server *server, uint32_t grace_ms, bool (*busy)(void *context)) {
    pthread_mutex_lock(&server->lock); /* and never given back: who posts now, posts in vain */
    http_listen_start(server);
    while (!atomic_load(&server->stops))
        http_turn(server, -1);
    http_listen_close(server);
    h2o_context_request_shutdown(&server->context);
    turn_until(server, h2o_now(server->loop) + grace_ms, true, NULL);
    abandon_all(server);
    turn_until(server, h2o_now(server->loop) + 1000, false, busy);
    http_turn(server, 0); /* the last bytes of the last answers */
}

/* h2o offers no way to close what is left of its connections, so its context stays until the
 * process ends; the pointer tells leak checkers that it is not lost. */
static struct http_server *ended;

void http_server_destroy(struct http_server *server) {
    if (!server)
        return;
    http_listen_close(server);
    http_tls_destroy(server);
    ended = server;
    (void)ended;
}
