/* SPDX-License-Identifier: Apache-2.0
 *
 * The gateway's state, and the arguments of a handler. The dispatcher looks a request up in the
 * route table, checks it (access, method, size, parameters, target) and passes it to its row's
 * handler as a visit. The handler answers immediately or starts a relay (relay.h), which answers
 * with the result of an RPC. Everything runs on the HTTP loop's thread (http/http.h). */
#ifndef SONDE_GATEWAY_GATEWAY_H
#define SONDE_GATEWAY_GATEWAY_H

#include "gateway/http/http.h"
#include "gateway/request/negotiate.h"
#include "gateway/request/path.h"
#include "gateway/request/query.h"

struct client;

struct gateway {
    struct http_server *server;
    struct client *client;
    const char *default_target;    /* --target; NULL = none */
    struct sonde_tokens *tokens;   /* strangers must show one of them; NULL = none */
    bool insecure;                 /* strangers are let in */
    const char *const *host_names; /* what a Host header may say besides loopback's names */
    size_t host_name_count;
    bool redact_arguments;
    char svg_policy[512]; /* Content-Security-Policy of pictures */
    uint32_t relays;      /* running ones */
};

/* How errors look. */
enum family {
    FAMILY_PLAIN,   /* text */
    FAMILY_PPROF,   /* text and X-Go-Pprof, no 405 */
    FAMILY_PROF,    /* {"error": ...} */
    FAMILY_JULIA,   /* text */
    FAMILY_V1,      /* {code, status, message} */
    FAMILY_TRACING, /* the envelope */
};

enum { METHOD_GET = 1, METHOD_POST = 2, METHOD_PUT = 4 };

enum {
    ROUTE_CHANGES_STATE = 1, /* refuses pages of other sites */
    ROUTE_LARGE_BODY = 2,    /* up to HTTP_MAX_BODY; the others SMALL_BODY */
    ROUTE_SLASH = 4,         /* one slash more is the same path */
    ROUTE_NO_TARGET = 8,     /* is not about a target: which one is said is not looked at */
    ROUTE_TAIL = 32,         /* what stands behind the path's '{' is the handler's to read */
    ROUTE_SCOPE_READ = 64,   /* with ROUTE_CHANGES_STATE: a token of the scope read will do */
    ROUTE_GET_READS = 16,    /* with ROUTE_CHANGES_STATE: GET and HEAD change nothing */
};

#define SMALL_BODY (1u << 20)

struct visit;

/* One row of the table. */
struct route {
    const char *path;
    unsigned methods, flags;
    enum family family;
    void (*handle)(struct visit *visit);
    const void *setup;      /* the handler's own: defaults of this path */
    const char *parameters; /* "seconds frequency output"; the target's are everybody's */
    const char *link;       /* shown on the index page: a query to try; NULL = not shown */
    const char *summary;
};

/* Which process, as far as the request says. */
struct target_choice {
    char name[PATH_MAX_NAME + 1];
    int32_t pid;
};

/* A request being handled; ends when the handler returns. */
struct visit {
    struct gateway *gateway;
    struct http_request *request;
    const struct route *route;
    enum family family;
    struct path_parts path;
    struct query query;
    struct target_choice target;
    struct negotiate_headers headers;
    unsigned method; /* METHOD_*; HEAD is METHOD_GET */
    bool head;       /* nothing may start */
};

/* Handles one request (http_options.on_request). */
void gateway_on_request(void *context, struct http_request *request);

#endif
