/* SPDX-License-Identifier: Apache-2.0
 *
 * The types that the parts of the gateway share. dispatch.c looks a request up in the route table
 * (routes.c), checks it and passes it to the row's handler (families/) as a request context. The
 * handler answers immediately or starts a relay (reply/relay.h), which answers with the result of
 * an RPC. All of it runs in the loop's thread (http/http.h). */
#ifndef SONDE_GATEWAY_GATEWAY_H
#define SONDE_GATEWAY_GATEWAY_H

#include "api/os/secrets/tokens.h"
#include "gateway/http/http.h"
#include "gateway/request/negotiate.h"
#include "gateway/request/path.h"
#include "gateway/request/query.h"

struct asset_folder;
struct client;
struct mcp_call;
struct sonde_format_info;

struct gateway {
    struct http_server *server;
    struct client *client, *history; /* the same unless --history names another service */
    const struct route *routes;      /* for the list of links */
    size_t route_count;
    const char *default_target;    /* --target; NULL = none */
    struct token_file *tokens;     /* one of which strangers must send; NULL = none configured */
    struct tls_files *service_tls; /* for both clients; NULL = plaintext */
    bool insecure;                 /* strangers need no token */
    bool serves_everybody;         /* other local users need no token */
    const char *const *host_names; /* allowed in a Host header, besides loopback's names */
    size_t host_name_count;
    bool redact_arguments;
    const struct asset_folder *speedscope; /* NULL = not installed */
    char svg_policy[512];                  /* Content-Security-Policy of pictures */
    uint32_t relays;                       /* running */
    struct mcp_call *tool_calls;           /* running; see mcp/call.h */
    uint32_t grace_s;                      /* for running requests after SIGTERM */
};

/* Decides the shape of an error's body. */
enum family {
    FAMILY_PLAIN,   /* text */
    FAMILY_PPROF,   /* text and an X-Go-Pprof header; a wrong method is 404 */
    FAMILY_PROF,    /* GreptimeDB: {"error": ...} */
    FAMILY_JULIA,   /* text */
    FAMILY_V1,      /* {code, status, message} */
    FAMILY_TRACING, /* DeepFlow's envelope */
    FAMILY_CONNECT, /* {code, message} with the names of Connect's codes */
    FAMILY_MCP,     /* JSON-RPC's error object */
};

enum { METHOD_GET = 1, METHOD_POST = 2, METHOD_PUT = 4 };

enum {
    ROUTE_CHANGES_STATE = 1,  /* needs the scope control; refused to pages of other sites */
    ROUTE_LARGE_BODY = 2,     /* up to HTTP_MAX_BODY instead of SMALL_BODY */
    ROUTE_SLASH = 4,          /* also matches with one more slash at the end */
    ROUTE_NO_TARGET = 8,      /* ignores which target the request names */
    ROUTE_GET_READS = 16,     /* with ROUTE_CHANGES_STATE: GET and HEAD change nothing */
    ROUTE_TAIL = 32,          /* the handler reads what matches the path's {...} */
    ROUTE_SCOPE_READ = 64,    /* with ROUTE_CHANGES_STATE: the scope read is enough */
    ROUTE_WORKS = 128,        /* costs the target something; refused to pages of other sites */
    ROUTE_MANY = 256,         /* several processes can be its target: /t/@all */
    ROUTE_PUBLIC = 512,       /* static: needs neither a token nor a known user */
    ROUTE_PUBLIC_HTML = 1024, /* the same for clients that want HTML */
};

#define SMALL_BODY (1u << 20)

struct request_context;

/* One row of the route table. */
struct route {
    const char *path;
    unsigned methods, flags; /* METHOD_*, ROUTE_* */
    enum family family;
    void (*handle)(const struct request_context *context);
    const void *setup;      /* defaults of this path, for the handler; often a profile_setup */
    const char *parameters; /* "seconds frequency output", without the target's */
    const char *link;       /* example query for the list of links; NULL = not on the list */
    const char *summary;
};

/* A request whose access, method, size and target have been checked. Valid until the handler
 * returns. */
struct request_context {
    struct gateway *gateway;
    struct http_request *request;
    const struct route *route;
    enum family family;
    struct path_parts path;
    const struct sonde_format_info *extension; /* that the path ends with; NULL = none */
    struct query query;
    struct target_choice target;
    struct negotiate_headers headers;
    unsigned method; /* METHOD_*; METHOD_GET for HEAD */
    bool head;       /* the handler must not start anything */
    /* Of the gateway's file. */
    struct sonde_token_match token;
    bool is_limited; /* to what the user `uid` of this machine may see and control */
    uid_t uid;
};

/* Handles one request; for http_options.on_request. `gateway` is the struct gateway. */
void gateway_on_request(void *gateway, struct http_request *request);

#endif
