/* SPDX-License-Identifier: Apache-2.0
 *
 * Types and functions that the files of this folder share. */
#ifndef SONDE_GATEWAY_HTTP_HTTP_SERVER_H
#define SONDE_GATEWAY_HTTP_HTTP_SERVER_H

#include "api/gzip.h"
#include "api/os/secrets/tls_files.h"
#include "api/os/socket_peer.h"
#include "api/text/line_limit.h"
#include "gateway/http/http.h"

#include <h2o.h>
#include <openssl/ssl.h>
#include <stdatomic.h>

struct listener {
    struct http_server *server;
    h2o_socket_t *sock; /* NULL once closed */
    h2o_accept_ctx_t accept;
    bool local; /* loopback or unix */
    bool is_unix;
    char address[160];     /* as printed */
    const char *unix_path; /* removed at the end */
};

/* Stored in the socket's on_close.data, where every request of the connection finds it. */
struct connection {
    struct http_server *server;
    const struct listener *listener;
    struct connection *next, **link; /* in the server's list */
    h2o_socket_t *sock;
    enum http_trust trust;
    bool has_uid;
    uid_t uid; /* the local user at the other end; unix sockets and loopback only */
    struct socket_peer_refusal refusal; /* why the kernel does not say */
    char certificate[64];               /* the client's name in it; "" = none */
    char peer[64];         /* address without port; stays valid after the peer has gone */
    uint64_t wasted_until; /* in h2o_now's time; see watch.c */
    uint32_t requests;     /* running */
    uint64_t idle_since;   /* in h2o_now's time: since when no request has been running */
    bool is_closing;       /* shut down to make room */
    SSL_CTX *ssl;          /* NULL = no TLS */
};

struct http_server {
    struct http_options options;
    h2o_globalconf_t config;
    h2o_context_t context;
    h2o_loop_t *loop;
    h2o_multithread_receiver_t posts;
    h2o_timeout_t watch; /* the interval of watch.c */
    struct listener listeners[HTTP_MAX_LISTENERS];
    size_t listener_count;
    struct tls_files *tls; /* NULL = no TLS */
    SSL_CTX *ssl;          /* of new connections */
    uint64_t tls_version;  /* of the files that ssl has, or that were no good */
    bool offers_http2;
    struct connection *open;
    uint32_t connections;
    uint32_t requests;
    struct http_request *first; /* requests that h2o has not freed yet */
    struct line_limit refusals; /* log.c */
    bool accepting;
    atomic_int stops;
    h2o_multithread_message_t wake; /* sent by http_server_stop */
    atomic_flag wake_sent;
    h2o_timeout_entry_t abandon;    /* runs on_abandon in the loop */
    struct http_server *next_ended; /* destroyed servers */
};

struct our_handler {
    h2o_handler_t super;
    struct http_server *server;
};

enum request_state { REQUEST_WAITING, REQUEST_STREAMING, REQUEST_ANSWERED };

/* Allocated in the h2o request's pool; dispose_request frees what it owns. */
struct http_request {
    h2o_generator_t generator;
    h2o_req_t *req;
    struct http_server *server;
    struct http_request *next, **link; /* in the server's list */
    struct connection *connection;     /* NULL = unknown */
    enum request_state state;
    bool in_flight; /* a send has not completed; the next one must wait */
    bool ending, cutting;
    h2o_timeout_entry_t watch, skipped;
    uint64_t taken, moved_at; /* bytes acknowledged, and when that number last changed */
    void (*on_gone)(void *context);
    void *gone_context;
    void (*on_ready)(void *context);
    void *ready_context;
    struct sonde_gzip_writer *gzip; /* appends to sending; NULL: the answer is not compressed */
    struct sonde_buf sending;       /* the bytes in flight, unless they are slices of the owner's */
    void (*release)(void *context); /* releases those slices; NULL = none */
    void *release_context;
    char note[192];
};

/* listen.c */
SONDE_MUST_USE sonde_err http_listen(struct http_server *server, const char *text,
                                     struct sonde_diag *diag);
void http_listen_start(struct http_server *server);
void http_listen_close(struct http_server *server);
/* connections.c */
/* NULL: the socket was closed. */
struct connection *http_connection_open(struct listener *listener, h2o_socket_t *sock);
void http_connection_request_began(struct connection *connection);
void http_connection_request_ended(struct connection *connection);
bool http_connection_make_room(struct http_server *server);
/* tls.c */
SONDE_MUST_USE sonde_err http_tls_create(struct http_server *server, bool http2,
                                         struct sonde_diag *diag);
/* The context for a new connection, with the newest files. The caller frees it. NULL = no TLS. */
SSL_CTX *http_tls_take(struct http_server *server);
void http_tls_destroy(struct http_server *server);
/* request.c */
int http_on_request(h2o_handler_t *handler, h2o_req_t *req);
void http_request_answered(struct http_request *request);
void http_request_abandon(struct http_request *request, int status);
struct http_request *http_request_of(h2o_req_t *req);
struct connection *http_connection_of(h2o_req_t *req);
/* answer.c: releases the slices in flight, if any. */
void http_request_release_slices(struct http_request *request);
/* watch.c */
void http_watch_start(struct http_request *request);
bool http_watch_is_wasteful(const struct connection *connection);
void http_watch_wasted(struct http_request *request); /* the client reset an HTTP/2 request */
/* log.c */
void http_log_register(struct http_server *server, h2o_pathconf_t *path);
void http_log_finish(struct http_server *server); /* writes how many lines were left out */
void http_headers_register(struct http_server *server, h2o_pathconf_t *path);

#endif
