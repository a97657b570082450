/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks between a request and its handler, in this order: Host header, access, route, method,
 * the token's scope, body size, origin, target. Each passes or answers the request. The order
 * ensures that an unauthenticated client learns nothing and that a refused request starts nothing.
 */
#include "gateway/gateway.h"
#include "gateway/parameters.h"
#include "gateway/reply/reply.h"
#include "gateway/request/credentials.h"
#include "gateway/request/formats.h"
#include "gateway/request/forwarded.h"
#include "gateway/request/host.h"
#include "gateway/routes.h"

#include "api/os/secrets/token_file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Scopes 0 if the request has no token, or an unknown one. */
static struct sonde_token_match find_token(const struct request_context *context) {
    char bearer[CREDENTIALS_SIZE];
    struct token_file *tokens = context->gateway->tokens;
    bool is_sent =
        tokens && credentials_read(http_request_header(context->request, "authorization"), bearer);
    return is_sent ? token_file_find(tokens, sonde_slice_of(bearer))
                   : (struct sonde_token_match){0};
}

static bool has_token(const struct request_context *context) {
    return context->token.scopes != 0;
}

/* Protects against DNS rebinding: a page whose own name was made to resolve to this machine is
 * same-origin to the browser, but its Host header has a name that is not the gateway's. Such a page
 * cannot use a unix socket and has no certificate or token. An open listener (--insecure) checks
 * names only if --host-name was given. */
static bool is_known_host(const struct request_context *context, enum http_trust trust) {
    const struct gateway *gateway = context->gateway;
    struct sonde_slice host = http_request_authority(context->request);
    if (host.len == 0 || trust == HTTP_UNIX || trust == HTTP_CERTIFIED || host_is_loopback(host) ||
        host_is_listed(host, gateway->host_names, gateway->host_name_count))
        return true;
    return trust != HTTP_LOCAL && (gateway->host_name_count == 0 || host_is_address(host));
}

static bool check_host(struct request_context *context) {
    if (is_known_host(context, http_request_trust(context->request)) || has_token(context))
        return true;
    reply_status(context->request, context->family, 421, "PERMISSION_DENIED",
                 "the Host header is not a name of this gateway: use localhost or 127.0.0.1, or "
                 "start sonde-gateway with --host-name NAME");
    return false;
}

static bool is_local(enum http_trust trust) {
    return trust == HTTP_LOCAL || trust == HTTP_UNIX;
}

/* On loopback and unix sockets root and the user who runs the gateway may ask. Somebody whom the
 * kernel does not know any more may not. */
static bool is_own_user(const struct request_context *context) {
    uid_t uid;
    return http_request_uid(context->request, &uid) && (uid == 0 || uid == geteuid());
}

/* What is the same for everybody and says nothing about this machine. */
static bool is_public(const struct request_context *context) {
    unsigned flags = context->route ? context->route->flags : 0;
    return (flags & ROUTE_PUBLIC) ||
           ((flags & ROUTE_PUBLIC_HTML) && negotiate_wants_html(&context->headers));
}

static bool is_admitted(const struct request_context *context, enum http_trust trust) {
    const struct gateway *gateway = context->gateway;
    return trust == HTTP_CERTIFIED || gateway->insecure || has_token(context) ||
           (is_local(trust) && (gateway->serves_everybody || is_own_user(context)));
}

/* The service shows other local users only their own processes, unless they have a token. The user
 * of a closed connection is (uid_t)-1, who has none. */
static void limit_user(struct request_context *context, enum http_trust trust) {
    if (!is_local(trust) || has_token(context) || is_own_user(context))
        return;
    context->is_limited = true;
    context->uid = (uid_t)-1;
    (void)http_request_uid(context->request, &context->uid);
}

/* Somebody on this machine who is not let in, or whom the kernel does not name. */
static void refuse_local(struct request_context *context) {
    char refusal[256], text[384];
    http_request_uid_refusal(context->request, refusal, sizeof refusal);
    snprintf(text, sizeof text,
             "%s, or send a token (Authorization: Bearer ..., or as the password of any user)",
             refusal);
    reply_status(context->request, context->family, 401, "UNAUTHENTICATED",
                 refusal[0]
                     ? text
                     : "this gateway serves its own user and root: send a token "
                       "(Authorization: Bearer ..., or as the password of any user), or start it "
                       "with --loopback everybody");
}

static bool check_access(struct request_context *context) {
    enum http_trust trust = http_request_trust(context->request);
    limit_user(context, trust);
    if (is_public(context) || is_admitted(context, trust))
        return true;
    if (trust == HTTP_CERT_REFUSED)
        reply_status(context->request, context->family, 403, "PERMISSION_DENIED",
                     "certificate role error");
    else if (is_local(trust))
        refuse_local(context);
    else
        reply_error(context->request, context->family, SONDE_UNAUTHENTICATED, NULL);
    return false;
}

static bool check_method(struct request_context *context) {
    struct sonde_slice method = http_request_method(context->request);
    context->head = sonde_slice_equals(method, "HEAD");
    unsigned wanted = context->head || sonde_slice_equals(method, "GET") ? METHOD_GET
                      : sonde_slice_equals(method, "POST")               ? METHOD_POST
                      : sonde_slice_equals(method, "PUT")                ? METHOD_PUT
                                                                         : 0;
    context->method = wanted;
    if (context->route->methods & wanted)
        return true;
    if (context->family == FAMILY_PROF || context->family == FAMILY_JULIA ||
        context->family == FAMILY_MCP)
        reply_method(context->request, context->route);
    else
        reply_no_path(context->request, context->family);
    return false;
}

/* Whether this method of the route changes state. */
static bool changes_state(const struct request_context *context) {
    return (context->route->flags & ROUTE_CHANGES_STATE) &&
           !((context->route->flags & ROUTE_GET_READS) && context->method == METHOD_GET);
}

/* A service with tokens of its own checks the scope again. */
static bool check_scope(struct request_context *context) {
    unsigned scopes = context->token.scopes;
    bool controls = changes_state(context) && !(context->route->flags & ROUTE_SCOPE_READ);
    if (scopes == 0 || (scopes & (controls ? SONDE_SCOPE_CONTROL : SONDE_SCOPE_READ)))
        return true;
    reply_status(context->request, context->family, 403, "PERMISSION_DENIED",
                 controls ? "the token does not allow this: it needs the scope control"
                          : "the token does not allow this: it needs the scope read");
    return false;
}

static bool check_size(struct request_context *context) {
    struct sonde_slice body = http_request_body(context->request);
    if ((context->route->flags & ROUTE_LARGE_BODY) || body.len <= SMALL_BODY)
        return true;
    reply_status(context->request, context->family, 413, "TOO_LARGE",
                 "the request body is larger than 1048576 bytes, the limit of this path");
    return false;
}

/* Whether an Origin or Referer header ("https://host:port/...") names the host and port of the Host
 * header. */
static bool is_own_origin(struct sonde_slice url, struct sonde_slice authority) {
    const char *slashes = memmem(url.data, url.len, "://", 3);
    if (!slashes)
        return false;
    const char *host = slashes + 3;
    size_t left = url.len - (size_t)(host - url.data);
    const char *end = memchr(host, '/', left);
    size_t len = end ? (size_t)(end - host) : left;
    return len == authority.len && strncasecmp(host, authority.data, authority.len) == 0;
}

/* Browsers say where a request comes from: Sec-Fetch-Site; older ones Origin, or for a GET only
 * Referer. Clients that are not browsers send none of them. */
static bool is_cross_site(const struct request_context *context) {
    struct sonde_slice site = http_request_header(context->request, "sec-fetch-site");
    struct sonde_slice origin = http_request_header(context->request, "origin");
    struct sonde_slice referer = http_request_header(context->request, "referer");
    struct sonde_slice authority = http_request_authority(context->request);
    if (site.data)
        return !sonde_slice_equals(site, "same-origin") && !sonde_slice_equals(site, "none");
    if (origin.data)
        return !is_own_origin(origin, authority);
    return referer.len > 0 && !is_own_origin(referer, authority);
}

/* Refuses cross-site requests: a page of another site must not change state through the browser of
 * someone who visits it, nor start captures. */
static bool check_site(struct request_context *context) {
    bool changes = changes_state(context);
    if ((!changes && !(context->route->flags & ROUTE_WORKS)) || !is_cross_site(context))
        return true;
    reply_status(context->request, context->family, 403, "PERMISSION_DENIED",
                 changes
                     ? "cross-site request refused: a page of another site must not change state "
                       "here"
                     : "cross-site request refused: a page of another site must not start captures "
                       "here");
    return false;
}

static sonde_err no_such_target(struct sonde_diag *diag, struct sonde_slice name) {
    char quoted[QUERY_QUOTED_SIZE];
    return sonde_fail(diag, SONDE_TARGET_NOT_FOUND,
                      "no process is called \"%s\"; /v1/targets?all=true lists all processes",
                      query_quote(name, quoted));
}

static bool contradict(const struct target_choice *a, const struct target_choice *b) {
    if (a->all != b->all)
        return true;
    if (a->all)
        return strcmp(a->name, b->name) != 0 || a->pid != b->pid;
    return (a->name[0] && b->name[0] && strcmp(a->name, b->name) != 0) ||
           (a->pid && b->pid && a->pid != b->pid);
}

static sonde_err add(struct target_choice *target, const struct target_choice *more,
                     struct sonde_diag *diag) {
    if (path_is_said(target) && path_is_said(more) && contradict(target, more))
        return sonde_fail(diag, SONDE_TARGET_CONFLICT,
                          "the path and the query name different targets: leave one out");
    target->all = target->all || more->all;
    if (more->pid)
        target->pid = more->pid;
    if (more->name[0])
        memcpy(target->name, more->name, sizeof target->name);
    return SONDE_OK;
}

static sonde_err add_query(struct target_choice *target, const struct query *query,
                           struct sonde_diag *diag) {
    struct target_choice by_name = {.pid = 0}, by_pid = {.pid = 0};
    struct sonde_slice name;
    uint64_t pid = 0;
    if (query_get(query, "target", &name) && !path_read_name(name, &by_name))
        return no_such_target(diag, name);
    sonde_err err = query_whole(query, "pid", 1, INT32_MAX, &pid, diag);
    by_pid.pid = (int32_t)pid;
    if (!err)
        err = add(target, &by_name, diag);
    return err ? err : add(target, &by_pid, diag);
}

static sonde_err refuse_many(struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "several processes together have CPU profiles only: name one process, "
                      "/t/PID or /t/NAME");
}

/* The order is path prefix, query, --target. A name from one and a pid from the other are both sent
 * to the service, which knows whether they are the same process. */
static sonde_err choose_target(struct request_context *context, struct sonde_diag *diag) {
    const char *fallback = context->gateway->default_target;
    struct target_choice *target = &context->target;
    *target = context->path.target;
    sonde_err err = add_query(target, &context->query, diag);
    if (!err && fallback && !path_is_said(target) &&
        !path_is_pid(sonde_slice_of(fallback), &target->pid))
        (void)path_read_name(sonde_slice_of(fallback), target);
    if (!err && target->all && !(context->route->flags & ROUTE_MANY))
        err = refuse_many(diag);
    return err;
}

/* "redis" of the prefix "/t/redis". */
static struct sonde_slice prefix_name(const struct path_parts *path) {
    return (struct sonde_slice){path->prefix.data + 3, path->prefix.len - 3};
}

/* Below /v1/profile/ a path with one slash too many redirects to the path without it; 307 keeps
 * method and body. */
static bool redirect(struct request_context *context) {
    struct sonde_slice path = context->path.rest, query = http_request_query(context->request);
    struct sonde_buf where = {0};
    char base[FORWARDED_PREFIX_SIZE];
    if (context->family != FAMILY_TRACING || path.data[path.len - 1] != '/')
        return false;
    path.len--;
    if (!route_find(path))
        return false;
    reply_base(context->request, base);
    sonde_buf_puts(&where, base);
    sonde_buf_append(&where, context->path.prefix.data, context->path.prefix.len);
    sonde_buf_append(&where, path.data, path.len);
    if (query.len)
        sonde_buf_putc(&where, '?');
    sonde_buf_append(&where, query.data, query.len);
    reply_elsewhere(context->request, where.data);
    sonde_buf_finish(&where);
    return true;
}

/* A path that would exist without its extension is answered with those that there are. */
static void refuse_path(struct request_context *context) {
    char quoted[QUERY_QUOTED_SIZE];
    struct sonde_slice extension;
    struct sonde_buf text = {0};
    if (!route_find_extended(context->path.rest, &extension)) {
        reply_no_path(context->request, context->family);
        return;
    }
    sonde_buf_printf(&text, "path not found: \"%s\" is not the extension of a format; use one of ",
                     query_quote(extension, quoted));
    format_append_extensions(&text, FORMATS_CPU | FORMATS_ALLOCATIONS | FORMATS_HEAP);
    reply_status(context->request, context->family, 404, "NOT_FOUND", text.data);
    sonde_buf_finish(&text);
}

static void dispatch(struct request_context *context, bool is_good_prefix) {
    struct sonde_diag diag = {0};
    if (!check_host(context) || !check_access(context))
        return;
    if (!context->route) {
        if (!redirect(context))
            refuse_path(context);
        return;
    }
    if (!check_method(context) || !check_scope(context) || !check_size(context) ||
        !check_site(context))
        return;
    sonde_err err = parameters_check(context->route, &context->query, &diag);
    if (!err && !is_good_prefix)
        err = no_such_target(&diag, prefix_name(&context->path));
    if (!err && !(context->route->flags & ROUTE_NO_TARGET))
        err = choose_target(context, &diag);
    if (err)
        reply_error(context->request, context->family, err, &diag);
    else
        context->route->handle(context);
}

/* The route of the path, or of what precedes the extension of a format. */
static const struct route *find_route(struct request_context *context) {
    struct sonde_slice extension;
    const struct route *route = route_find(context->path.rest);
    if (route)
        return route;
    route = route_find_extended(context->path.rest, &extension);
    context->extension = route ? format_of_extension(extension) : NULL;
    return context->extension ? route : NULL;
}

void gateway_on_request(void *gateway, struct http_request *request) {
    struct request_context context = {.gateway = gateway, .request = request};
    bool is_good_prefix = path_split(http_request_path(request), &context.path);
    context.route = find_route(&context);
    context.family = context.route ? context.route->family : route_family(context.path.rest);
    context.headers = (struct negotiate_headers){
        .accept = http_request_header(request, "accept"),
        .accept_encoding = http_request_header(request, "accept-encoding"),
        .content_type = http_request_header(request, "content-type"),
        .user_agent = http_request_header(request, "user-agent"),
    };
    context.token = find_token(&context);
    query_parse(&context.query, http_request_query(request));
    dispatch(&context, is_good_prefix);
    query_finish(&context.query);
}
