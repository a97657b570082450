/* SPDX-License-Identifier: Apache-2.0
 *
 * One ClickHouse server over HTTP: requests on connections that are kept alive. Thread safety: any
 * thread; each request uses a connection of its own. */
#ifndef SONDE_SERVICE_STORE_CLICKHOUSE_HTTP_HTTP_H
#define SONDE_SERVICE_STORE_CLICKHOUSE_HTTP_HTTP_H

#include "api/bytes.h"
#include "service/store/store.h"

#define HTTP_MAX_SERVERS 64
#define HTTP_MAX_ANSWER  ((size_t)512 << 20)
#define HTTP_MAX_ANSWERS ((size_t)768 << 20) /* of all servers of a store, at a time */
#define HTTP_MAX_ERROR   ((size_t)64 << 10)  /* the body of a status from 400 */

struct http_server;

/* What the first URL of a list says. */
struct http_settings {
    char database[256], cluster[256];
    uint64_t max_execution_time, max_memory_usage; /* seconds, bytes; > 0 */
    uint64_t insert_quorum;                        /* 0 = the server's default */
};

/* What the servers of one store share. Zeroed memory is ready. */
struct http_shared {
    _Atomic size_t answer_bytes;  /* of answers from their first byte to http_answer_finish */
    const struct store_stop *end; /* ends all requests; NULL = never */
};

/* Parses one URL. shared must outlive the server. settings may be NULL: then the URL must not have
 * any. SONDE_INVALID_ARGUMENT. */
SONDE_MUST_USE sonde_err http_server_create(const char *url, struct http_settings *settings,
                                            struct http_shared *shared, struct http_server **server,
                                            struct sonde_diag *diag);
void http_server_destroy(struct http_server *server);           /* NULL is fine */
const char *http_server_name(const struct http_server *server); /* HOST:PORT */

struct http_request {
    const char *sql;
    const char *parameters;  /* URL parameters, each with its "&"; may be NULL */
    const char *query_id;    /* may be NULL */
    struct sonde_slice body; /* rows of an INSERT in the format that sql names */
    const uint64_t *ids;     /* a temporary table ids(id UInt64), if not NULL */
    size_t id_count;
    uint64_t timeout_ms;           /* > 0 */
    const struct store_stop *stop; /* may be NULL */
};

/* Appends the answer, which the caller frees with http_answer_finish. Errors: what the table in
 * exception.c makes of the server's exception, SONDE_UNAVAILABLE (no connection, or it broke, or
 * the store's `end` is stopped), SONDE_DEADLINE_EXCEEDED, SONDE_CANCELLED, SONDE_TOO_LARGE,
 * SONDE_TOO_MANY_CAPTURES (HTTP_MAX_ANSWERS). did_connect (may be NULL): whether the server may
 * have seen the request. */
SONDE_MUST_USE sonde_err http_run(struct http_server *server, const struct http_request *request,
                                  struct sonde_buf *answer, bool *did_connect,
                                  struct sonde_diag *diag);

/* Frees the answers to requests to servers that share `shared`. */
void http_answer_finish(struct http_shared *shared, struct sonde_buf *answer);

/* Turns the server's text ("Code: 241, e.displayText() = DB::Exception: ...") into an error. status
 * is HTTP's. */
sonde_err http_exception(const char *server, long status, struct sonde_slice text,
                         struct sonde_diag *diag);

#endif
