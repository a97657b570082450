/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP in our own words: the only folder that sees h2o.
 *
 * A server owns one loop. It is turned by the thread that calls http_server_run and, when that one
 * sleeps, by threads that post, one at a time: every callback comes out of a turn, and everything
 * here but http_server_post(ed) and http_server_stop may be called from callbacks only. For each
 * request the server calls on_request, whose owner answers once: with a whole body (http_answer),
 * or with a stream that is pulled by the reader's speed (http_stream_*), at once or later. Until
 * then a client may go away: the owner hears it through http_request_on_gone. Security headers go
 * on every answer.
 *
 * Strings of a request are borrowed from it and live until its answer has ended or it is gone. */
#ifndef SONDE_GATEWAY_HTTP_H
#define SONDE_GATEWAY_HTTP_H

#include "api/bytes.h"
#include "api/error.h"

#define HTTP_MAX_LISTENERS 16
#define HTTP_MAX_BODY      (4u << 20) /* larger ones are answered 413 unread; less in a crowd */
#define HTTP_UNKNOWN       UINT64_MAX

struct http_server;
struct http_request;

/* Room inside a message of the poster's, who gets it back in on_post. */
struct http_post {
    struct http_post *next;
};

struct http_options {
    const char *const *listen; /* HOST:PORT, [V6]:PORT or unix:PATH; port 0 = any */
    size_t listen_count;
    const char *cert_file, *key_file; /* PEM; both set: TCP listeners speak TLS */
    const char *client_ca_file;       /* PEM; ask for client certificates signed by these */
    const char *const *client_names;  /* common names or DNS names let in; none = all signed */
    size_t client_name_count;
    bool http2;               /* offer HTTP/2 on open listeners too */
    bool log;                 /* one line a request on stderr */
    uint32_t max_connections; /* 0 = 4096 */
    void (*on_request)(void *context, struct http_request *request);
    void (*on_post)(void *context, struct http_post *post);
    void (*on_turn)(void *context); /* a turn ends; may be NULL */
    /* Adds headers to answers that the server writes itself (413, broken requests). May be NULL. */
    bool (*is_pprof_path)(struct sonde_slice path);
    void *context;
};

/* Binds every listener; the options' strings must outlive the server. */
SONDE_MUST_USE sonde_err http_server_create(const struct http_options *options,
                                            struct http_server **server, struct sonde_diag *diag);
/* "http://127.0.0.1:20180", "unix:/run/x"; valid until destroy. */
const char *http_server_address(const struct http_server *server, size_t listener);
/* Whether a listener can be reached from other machines. */
bool http_server_is_open(const struct http_server *server);
/* Until http_server_stop and then until the last request has ended or grace_ms is over; what still
 * runs then is told that it is gone. `busy` (may be NULL) keeps the loop turning for the owner's
 * own sake, at most another second. */
void http_server_run(struct http_server *server, uint32_t grace_ms, bool (*busy)(void *context));
/* Any thread. A second call ends the grace time. */
void http_server_stop(struct http_server *server);
/* Any thread: a post, or several, and then once http_server_posted, which hands them to on_post,
 * before it returns when nobody else turns the loop; so both may come from within a callback, too.
 * After http_server_run nothing happens any more. */
void http_server_post(struct http_server *server, struct http_post *post);
void http_server_posted(struct http_server *server);
void http_server_destroy(struct http_server *server);

/* Who speaks. */
enum http_trust {
    HTTP_LOCAL,        /* loopback */
    HTTP_UNIX,         /* a unix socket, which no browser reaches */
    HTTP_CERTIFIED,    /* a client certificate that is let in */
    HTTP_CERT_REFUSED, /* a good client certificate, but not on the list */
    HTTP_STRANGER,
};

struct sonde_slice http_request_method(const struct http_request *request);
/* As sent, without the query; begins with '/' or is strange ("*"). */
struct sonde_slice http_request_path(const struct http_request *request);
/* Behind '?'; empty when there is none. */
struct sonde_slice http_request_query(const struct http_request *request);
struct sonde_slice http_request_body(const struct http_request *request);
/* HOST:PORT as the client wrote it; empty when it said none. */
struct sonde_slice http_request_authority(const struct http_request *request);
/* All values of one header joined by ", "; name in lower case. data NULL = not sent. */
struct sonde_slice http_request_header(struct http_request *request, const char *name);
enum http_trust http_request_trust(const struct http_request *request);
/* Address of the client, without port; "unix" for unix sockets. */
void http_request_peer(const struct http_request *request, char *text, size_t size);
/* Words for the request's log line, "key=value ..."; a later note replaces an earlier one. */
void http_request_note(struct http_request *request, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* on_gone is called at most once: the client went away before the answer had ended. Nothing of the
 * request may be touched from then on. NULL takes a callback back. */
void http_request_on_gone(struct http_request *request, void (*on_gone)(void *context),
                          void *context);

#define HTTP_MAX_HEADERS 6

struct http_header {
    const char *name, *value; /* lower case name; copied */
};

struct http_answer {
    int status;
    const char *content_type;            /* NULL = none */
    const char *content_security_policy; /* NULL = nothing may load, nobody may frame */
    struct http_header headers[HTTP_MAX_HEADERS];
    size_t header_count;
    bool no_gzip; /* compressed already, or its form is promised */
};

/* The whole answer; the body is copied. For HEAD the body's length is told and nothing sent. */
void http_answer(struct http_request *request, const struct http_answer *answer,
                 struct sonde_slice body);

/* The same, but takes a body that may be long; *body is empty then. */
void http_answer_take(struct http_request *request, const struct http_answer *answer,
                      struct sonde_buf *body);

/* A streamed answer. The first send may follow start at once; each later one waits for on_ready,
 * which comes once per send and never from within it. send copies its bytes. size: of the whole
 * body, HTTP_UNKNOWN = not known. A client that lists gzip gets it compressed, unless no_gzip. end
 * is allowed at any time, but the request counts as answered from then on: on_ready and on_gone are
 * not called any more. */
void http_stream_start(struct http_request *request, const struct http_answer *answer,
                       uint64_t size, void (*on_ready)(void *context), void *context);
void http_stream_send(struct http_request *request, struct sonde_slice bytes);
/* The same without copying: at most HTTP_MAX_PIECES pieces, none empty, which stay until release,
 * called exactly once, whether they were sent or not. */
#define HTTP_MAX_PIECES 256
void http_stream_lend(struct http_request *request, const struct sonde_slice *pieces, size_t count,
                      void (*release)(void *context), void *context);
void http_stream_end(struct http_request *request);
/* Ends it so that the client sees it incomplete. */
void http_stream_cut(struct http_request *request);

/* Used in tests, instead of http_server_run: one turn of the loop; how many connections are open
 * after it. */
uint32_t http_server_turn(struct http_server *server, int32_t wait_ms);

#endif
