/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP server. Only this folder includes h2o.
 *
 * A server owns one loop, which runs on the thread that calls http_server_run. Only
 * http_server_post and http_server_stop may be called from other threads; everything else may only
 * be called from the loop's callbacks. The server calls on_request for each request. Its owner
 * answers once, immediately or later: with a whole body (http_answer) or with a stream that is
 * pulled at the reader's speed (http_stream_*). If the client goes away before that,
 * http_request_on_gone reports it. Every answer has the security headers.
 *
 * Strings of a request are borrowed. They live until its answer has ended or it is gone. */
#ifndef SONDE_GATEWAY_HTTP_H
#define SONDE_GATEWAY_HTTP_H

#include "api/bytes.h"
#include "api/error.h"

#include <sys/types.h>

#define HTTP_MAX_LISTENERS 16
#define HTTP_MAX_BODY      (4u << 20) /* above it 413; less with over 128 connections */
#define HTTP_UNKNOWN       UINT64_MAX

struct http_server;
struct http_request;

/* Embedded in the caller's message; on_post returns it. The fields are the server's. */
struct http_post {
    void *links[2];
};

struct http_options {
    const char *const *listen; /* HOST:PORT, [V6]:PORT or unix:PATH; port 0 = any */
    size_t listen_count;
    const char *cert_file, *key_file; /* PEM; both set: TCP listeners speak TLS */
    const char *client_ca_file;       /* PEM; ask for client certificates signed by these */
    void (*report)(const char *line); /* about TLS files that have changed; may be NULL */
    const char *const *client_names;  /* allowed common names or DNS names; none = all signed */
    size_t client_name_count;
    bool v6_only;             /* an IPv6 listener does not accept IPv4 */
    bool http2;               /* offer HTTP/2 on open listeners too */
    bool log;                 /* one line per request on stderr */
    uint32_t max_connections; /* 0 = 4096; one peer may have half of them */
    void (*on_request)(void *context, struct http_request *request);
    void (*on_post)(void *context, struct http_post *post);
    /* Adds headers to answers that the server writes itself (413, broken requests). May be NULL. */
    bool (*is_pprof_path)(struct sonde_slice path);
    void *context;
};

/* Binds every listener; the options' strings must outlive the server. */
SONDE_MUST_USE sonde_err http_server_create(const struct http_options *options,
                                            struct http_server **server, struct sonde_diag *diag);
/* "http://127.0.0.1:20180", "unix:/run/x"; valid until destroy. */
const char *http_server_address(const struct http_server *server, size_t listener);
/* The first address in `listen` that other machines can reach; NULL = none. */
const char *http_server_open_address(const struct http_server *server);
/* Runs the loop until http_server_stop, and then until the last request has ended or grace_ms has
 * passed. The requests left by then are answered 503 or cut. While `busy` (may be NULL) returns
 * true the loop runs for up to another second. */
void http_server_run(struct http_server *server, uint32_t grace_ms, bool (*busy)(void *context));
/* Any thread. A second call ends the grace time. */
void http_server_stop(struct http_server *server);
/* Any thread, also from callbacks: the loop calls on_post with the post, in order. Posts after the
 * end of http_server_run are dropped. */
void http_server_post(struct http_server *server, struct http_post *post);
void http_server_destroy(struct http_server *server);

/* What is known about the client. */
enum http_trust {
    HTTP_LOCAL,        /* loopback; http_request_uid names the user */
    HTTP_UNIX,         /* a unix socket, which browsers cannot reach; the same */
    HTTP_CERTIFIED,    /* an allowed client certificate */
    HTTP_CERT_REFUSED, /* a valid client certificate that is not on the list */
    HTTP_STRANGER,     /* another machine, without a client certificate */
};

struct sonde_slice http_request_method(const struct http_request *request);
/* As sent, without the query; does not always begin with '/' ("*"). */
struct sonde_slice http_request_path(const struct http_request *request);
/* The text after '?'; empty if there is none. */
struct sonde_slice http_request_query(const struct http_request *request);
struct sonde_slice http_request_body(const struct http_request *request);
/* HOST:PORT as the client wrote it; empty if it sent none. */
struct sonde_slice http_request_authority(const struct http_request *request);
/* All values of a header joined by ", "; data NULL = not sent. name is in lower case. */
struct sonde_slice http_request_header(struct http_request *request, const char *name);
enum http_trust http_request_trust(const struct http_request *request);
/* The local user at the other end of a loopback or unix connection. False if the connection comes
 * from elsewhere, or if the client closed it before the kernel was asked. */
bool http_request_uid(const struct http_request *request, uid_t *uid);
/* Writes why the kernel does not say who that is, and what to do; "" if it has answered. 256 bytes
 * are enough. */
void http_request_uid_refusal(const struct http_request *request, char *text, size_t size);
/* The common name of the client's certificate, otherwise its first DNS name, cut to size; ""
 * without a certificate. May have any bytes but NUL. */
void http_request_certificate(const struct http_request *request, char *text, size_t size);
/* Address of the client, without port; "unix" for unix sockets. */
void http_request_peer(const struct http_request *request, char *text, size_t size);
/* Adds "key=value ..." to the request's log line; a later note replaces an earlier one. */
void http_request_note(struct http_request *request, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* on_gone is called at most once, if the client goes away before the answer has ended. The request
 * must not be used from then on. NULL removes the callback. */
void http_request_on_gone(struct http_request *request, void (*on_gone)(void *context),
                          void *context);

#define HTTP_MAX_HEADERS 8

struct http_header {
    const char *name, *value; /* lower case name; copied */
};

struct http_answer {
    int status;
    const char *content_type;            /* NULL = none */
    const char *content_security_policy; /* NULL = nothing may load, nobody may frame */
    struct http_header headers[HTTP_MAX_HEADERS];
    size_t header_count;
    bool no_gzip; /* compressed already, or clients expect it as it is */
};

/* The whole answer; the body is copied. For HEAD only its length is sent. */
void http_answer(struct http_request *request, const struct http_answer *answer,
                 struct sonde_slice body);

/* The same, but takes the body instead of copying it; *body is empty afterwards. */
void http_answer_take(struct http_request *request, const struct http_answer *answer,
                      struct sonde_buf *body);

/* A streamed answer. The first send may follow the start immediately; each later one waits for
 * on_ready, which is called once per send and never from within it. send copies its bytes. size is
 * that of the whole body, or HTTP_UNKNOWN. If the client accepts gzip the body is compressed,
 * unless no_gzip is set. end is allowed at any time; it stops on_ready and on_gone. */
void http_stream_start(struct http_request *request, const struct http_answer *answer,
                       uint64_t size, void (*on_ready)(void *context), void *context);
void http_stream_send(struct http_request *request, struct sonde_slice bytes);
/* The same without copying: at most HTTP_MAX_SLICES slices, none empty. The bytes must stay valid
 * until release, which is called exactly once, whether they were sent or not. */
#define HTTP_MAX_SLICES 256
void http_stream_send_slices(struct http_request *request, const struct sonde_slice *slices,
                             size_t count, void (*release)(void *context), void *context);
void http_stream_end(struct http_request *request);
/* Ends it so that the client sees an incomplete answer. */
void http_stream_cut(struct http_request *request);

/* Used in tests, instead of http_server_run: one turn of the loop. Returns the number of open
 * connections. */
uint32_t http_server_turn(struct http_server *server, int32_t wait_ms);

#endif
