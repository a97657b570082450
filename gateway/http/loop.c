/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates, runs and stops the server. All paths use h2o's fallback configuration, so that h2o's own
 * errors (413, broken requests) go through the same header filter and log as our answers.
 *
 * Only callbacks that h2o_evloop_run calls may write to a socket. h2o reports a completed write in
 * the same run. A write made between two runs completes in the next one, where h2o may already have
 * started to poll the socket for writing; nothing stops that poll afterwards, and write_pending
 * aborts once the reader makes room (http_test.c shows it). So other threads post messages (h2o's
 * multithread queue), and a timeout of the loop answers the requests that are left when the server
 * stops. */
#include "gateway/http/http_server.h"

#include <errno.h>

#define REQUEST_TIMEOUT_MS  10000 /* for head and body to arrive; not for the answer */
#define WATCH_MS            500
#define DEFAULT_CONNECTIONS 4096
#define STREAMS_PER_CLIENT  100
#define TURN_MS             100 /* how often the clock is read while stopping */

_Static_assert(sizeof(h2o_multithread_message_t) <= sizeof(struct http_post),
               "a post holds h2o's message");

static void on_posts(h2o_multithread_receiver_t *receiver, h2o_linklist_t *messages) {
    struct http_server *server = H2O_STRUCT_FROM_MEMBER(struct http_server, posts, receiver);
    while (!h2o_linklist_is_empty(messages)) {
        h2o_multithread_message_t *message =
            H2O_STRUCT_FROM_MEMBER(h2o_multithread_message_t, link, messages->next);
        h2o_linklist_unlink(&message->link);
        if (message == &server->wake)
            atomic_flag_clear(&server->wake_sent);
        else
            server->options.on_post(server->options.context, (struct http_post *)(void *)message);
    }
}

static void configure(struct http_server *server, bool http2) {
    h2o_globalconf_t *config = &server->config;
    h2o_config_init(config);
    /* Bodies have a limit, so they stay in memory: the gateway may not make files. */
    h2o_socket_buffer_mmap_settings.threshold = SIZE_MAX;
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

const char *http_server_open_address(const struct http_server *server) {
    for (size_t i = 0; i < server->listener_count; i++)
        if (!server->listeners[i].local)
            return server->options.listen[i];
    return NULL;
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
    h2o_multithread_register_receiver(server->context.queue, &server->posts, on_posts);
    for (size_t i = 0; i < server->listener_count; i++) {
        struct listener *listener = &server->listeners[i];
        listener->accept.ctx = &server->context;
        listener->accept.hosts = server->config.hosts;
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
    server->loop = h2o_evloop_create();
    sonde_err err = bind_all(server, diag);
    bool http2 = options->http2 || !http_server_open_address(server);
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

void http_server_post(struct http_server *server, struct http_post *post) {
    h2o_multithread_message_t *message = (void *)post;
    message->link = (h2o_linklist_t){0};
    h2o_multithread_send_message(&server->posts, message);
}

void http_server_stop(struct http_server *server) {
    atomic_fetch_add(&server->stops, 1);
    if (!atomic_flag_test_and_set(&server->wake_sent))
        h2o_multithread_send_message(&server->posts, &server->wake);
}

static void turn(struct http_server *server, int32_t wait_ms) {
    while (h2o_evloop_run(server->loop, wait_ms) != 0 && errno == EINTR)
        ;
}

uint32_t http_server_turn(struct http_server *server, int32_t wait_ms) {
    if (!server->accepting)
        http_listen_start(server);
    turn(server, wait_ms);
    return server->connections;
}

static void turn_until(struct http_server *server, uint64_t deadline, bool one_stop_only,
                       bool (*busy)(void *context)) {
    while (h2o_now(server->loop) < deadline &&
           (!one_stop_only || atomic_load(&server->stops) < 2) &&
           (server->requests || (busy && busy(server->options.context))))
        turn(server, TURN_MS);
}

static void on_abandon(h2o_timeout_entry_t *entry) {
    struct http_server *server = H2O_STRUCT_FROM_MEMBER(struct http_server, abandon, entry);
    struct http_request *request = server->first;
    while (request) {
        if (request->state == REQUEST_ANSWERED) {
            request = request->next;
            continue;
        }
        http_request_abandon(request, 503);
        request = server->first; /* the callbacks may have changed the list */
    }
}

void http_server_run(struct http_server *server, uint32_t grace_ms, bool (*busy)(void *context)) {
    http_listen_start(server);
    while (!atomic_load(&server->stops))
        turn(server, -1);
    http_listen_close(server);
    h2o_context_request_shutdown(&server->context);
    turn_until(server, h2o_now(server->loop) + grace_ms, true, NULL);
    server->abandon.cb = on_abandon;
    h2o_timeout_link(server->loop, &server->context.zero_timeout, &server->abandon);
    turn(server, 0);
    turn_until(server, h2o_now(server->loop) + 1000, false, busy);
    turn(server, 0); /* sends the last bytes of the last answers */
}

/* h2o cannot close the remaining connections, so its context stays until the process exits. The
 * list keeps leak checkers quiet. */
static struct http_server *ended;

void http_server_destroy(struct http_server *server) {
    if (!server)
        return;
    http_listen_close(server);
    http_log_finish(server);
    http_tls_destroy(server);
    server->next_ended = ended;
    ended = server;
}
