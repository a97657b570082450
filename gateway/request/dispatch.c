/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of a request to its handler: under which name it came, who is let in, which row, which
 * method, what its token allows, how large, from which page, about which target. Each step either
 * passes or answers, in this order, so that a stranger learns nothing and a refused request has
 * started nothing. */
#include "gateway/gateway.h"
#include "gateway/request/host.h"
#include "gateway/request/reply.h"
#include "gateway/routes.h"

#include "api/tokens.h"

#include <stdio.h>
#include <string.h>

/* Of the token that is shown; 0: none, or a wrong one. */
static unsigned shown_scopes(const struct visit *visit) {
    struct sonde_slice header = http_request_header(visit->request, "authorization");
    const struct sonde_tokens *tokens = visit->gateway->tokens;
    return tokens && header.data ? sonde_tokens_scopes(tokens, header) : 0;
}

/* A page whose name was made to point here (DNS rebinding) has the browser's whole trust, but not
 * our names. Who shows a token, or a certificate, is no such page; where everybody is let in,
 * names are looked at only when some were given. */
static bool knows_host(const struct visit *visit, enum http_trust trust) {
    const struct gateway *gateway = visit->gateway;
    struct sonde_slice host = http_request_authority(visit->request);
    if (host.len == 0 || trust == HTTP_UNIX || trust == HTTP_CERTIFIED || host_is_loopback(host) ||
        host_is_listed(host, gateway->host_names, gateway->host_name_count))
        return true;
    return trust != HTTP_LOCAL && (gateway->host_name_count == 0 || host_is_address(host));
}

static bool check_host(struct visit *visit) {
    if (knows_host(visit, http_request_trust(visit->request)) || shown_scopes(visit))
        return true;
    reply_status(visit->request, visit->family, 421, "PERMISSION_DENIED",
                 "the Host header is no name of this gateway: ask for localhost or 127.0.0.1, or "
                 "start sonde-gateway with --host-name and the name that you use");
    return false;
}

static bool check_access(struct visit *visit) {
    enum http_trust trust = http_request_trust(visit->request);
    if (trust == HTTP_LOCAL || trust == HTTP_UNIX || trust == HTTP_CERTIFIED ||
        visit->gateway->insecure || shown_scopes(visit))
        return true;
    if (trust == HTTP_CERT_REFUSED)
        reply_status(visit->request, visit->family, 403, "PERMISSION_DENIED",
                     "certificate role error");
    else
        reply_error(visit->request, visit->family, SONDE_UNAUTHENTICATED, NULL);
    return false;
}

static bool check_method(struct visit *visit) {
    struct sonde_slice method = http_request_method(visit->request);
    visit->head = sonde_slice_equals(method, "HEAD");
    unsigned wanted = visit->head || sonde_slice_equals(method, "GET") ? METHOD_GET
                      : sonde_slice_equals(method, "POST")             ? METHOD_POST
                      : sonde_slice_equals(method, "PUT")              ? METHOD_PUT
                                                                       : 0;
    visit->method = wanted;
    if (visit->route->methods & wanted)
        return true;
    if (visit->family == FAMILY_PROF || visit->family == FAMILY_JULIA)
        reply_method(visit->request, visit->route);
    else
        reply_no_path(visit->request, visit->family);
    return false;
}

/* GET and HEAD of such a row only look. */
static bool switches(const struct visit *visit) {
    return (visit->route->flags & ROUTE_CHANGES_STATE) &&
           !((visit->route->flags & ROUTE_GET_READS) && visit->method == METHOD_GET);
}

/* The service asks again, where it knows tokens. */
static bool check_scope(struct visit *visit) {
    unsigned shown = shown_scopes(visit);
    bool controls = switches(visit) && !(visit->route->flags & ROUTE_SCOPE_READ);
    if (shown == 0 || (shown & (controls ? SONDE_SCOPE_CONTROL : SONDE_SCOPE_READ)))
        return true;
    reply_status(visit->request, visit->family, 403, "PERMISSION_DENIED",
                 controls ? "the token does not allow this: it needs the scope control"
                          : "the token does not allow this: it needs the scope read");
    return false;
}

static bool check_size(struct visit *visit) {
    struct sonde_slice body = http_request_body(visit->request);
    if ((visit->route->flags & ROUTE_LARGE_BODY) || body.len <= SMALL_BODY)
        return true;
    reply_status(visit->request, visit->family, 413, "TOO_LARGE",
                 "the body may have at most 1048576 bytes");
    return false;
}

/* Whether an Origin header ("https://host:port") names the host that was asked. */
static bool is_own_origin(struct sonde_slice origin, struct sonde_slice authority) {
    const char *slashes = memmem(origin.data, origin.len, "://", 3);
    if (!slashes)
        return false;
    size_t skip = (size_t)(slashes - origin.data) + 3;
    return origin.len - skip == authority.len &&
           strncasecmp(origin.data + skip, authority.data, authority.len) == 0;
}

/* A page of another site must not switch anything through its visitor's browser. */
static bool check_site(struct visit *visit) {
    struct sonde_slice site = http_request_header(visit->request, "sec-fetch-site");
    struct sonde_slice origin = http_request_header(visit->request, "origin");
    if (!switches(visit))
        return true;
    if (site.data && (sonde_slice_equals(site, "same-origin") || sonde_slice_equals(site, "none")))
        return true;
    if (!site.data &&
        (!origin.data || is_own_origin(origin, http_request_authority(visit->request))))
        return true;
    reply_status(visit->request, visit->family, 403, "PERMISSION_DENIED",
                 "this was sent by a page of another site; it changes state, so send it from here");
    return false;
}

static sonde_err no_such_target(struct sonde_diag *diag, struct sonde_slice name) {
    char quoted[QUERY_QUOTED_SIZE];
    return sonde_fail(diag, SONDE_TARGET_NOT_FOUND,
                      "no target \"%s\" is attached; /v1/targets lists those that are",
                      query_quote(name, quoted));
}

static sonde_err conflict(struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_TARGET_CONFLICT,
                      "the path and the query name different targets: leave one out");
}

static sonde_err add_name(struct target_choice *target, struct sonde_slice name,
                          struct sonde_diag *diag) {
    if (!path_is_name(name))
        return no_such_target(diag, name);
    if (target->name[0] && !sonde_slice_equals(name, target->name))
        return conflict(diag);
    memcpy(target->name, name.data, name.len);
    target->name[name.len] = 0;
    return SONDE_OK;
}

/* Prefix, then query, then --target. A name here and a pid there go to the service together: it
 * knows whether they are the same process. */
static sonde_err choose_target(struct visit *visit, struct sonde_diag *diag) {
    struct sonde_slice name;
    uint64_t pid = 0;
    sonde_err err = SONDE_OK;
    memcpy(visit->target.name, visit->path.name, sizeof visit->target.name);
    visit->target.pid = visit->path.pid;
    if (query_get(&visit->query, "target", &name))
        err = add_name(&visit->target, name, diag);
    if (!err)
        err = query_whole(&visit->query, "pid", 1, INT32_MAX, &pid, diag);
    if (!err && pid && visit->target.pid && visit->target.pid != (int32_t)pid)
        err = conflict(diag);
    if (!err && pid)
        visit->target.pid = (int32_t)pid;
    const char *fallback = visit->gateway->default_target;
    if (!err && fallback && !visit->target.name[0] && !visit->target.pid)
        snprintf(visit->target.name, sizeof visit->target.name, "%s", fallback);
    return err;
}

/* The piece of "/t/redis" that named the target. */
static struct sonde_slice prefix_name(const struct path_parts *path) {
    return (struct sonde_slice){path->prefix.data + 3, path->prefix.len - 3};
}

/* Below /v1/profile/ a slash too many leads to the path without it, method and body unchanged. */
static bool redirect(struct visit *visit) {
    struct sonde_slice path = visit->path.rest, query = http_request_query(visit->request);
    struct sonde_buf where = {0};
    if (visit->family != FAMILY_TRACING || path.data[path.len - 1] != '/')
        return false;
    path.len--;
    if (!route_find(path))
        return false;
    sonde_buf_append(&where, visit->path.prefix.data, visit->path.prefix.len);
    sonde_buf_append(&where, path.data, path.len);
    if (query.len)
        sonde_buf_putc(&where, '?');
    sonde_buf_append(&where, query.data, query.len);
    reply_elsewhere(visit->request, where.data);
    sonde_buf_finish(&where);
    return true;
}

static void route_visit(struct visit *visit, bool good_prefix) {
    struct sonde_diag diag = {0};
    if (!check_host(visit) || !check_access(visit))
        return;
    if (!visit->route) {
        if (!redirect(visit))
            reply_no_path(visit->request, visit->family);
        return;
    }
    if (!check_method(visit) || !check_scope(visit) || !check_size(visit) || !check_site(visit))
        return;
    sonde_err err = SONDE_OK;
    if (!good_prefix)
        err = no_such_target(&diag, prefix_name(&visit->path));
    else if (!(visit->route->flags & ROUTE_NO_TARGET))
        err = choose_target(visit, &diag);
    if (err)
        reply_error(visit->request, visit->family, err, &diag);
    else
        visit->route->handle(visit);
}

void gateway_on_request(void *context, struct http_request *request) {
    struct visit visit = {.gateway = context, .request = request};
    bool good_prefix = path_split(http_request_path(request), &visit.path);
    visit.route = route_find(visit.path.rest);
    visit.family = visit.route ? visit.route->family : route_family(visit.path.rest);
    visit.headers = (struct negotiate_headers){
        .accept = http_request_header(request, "accept"),
        .accept_encoding = http_request_header(request, "accept-encoding"),
        .content_type = http_request_header(request, "content-type"),
        .user_agent = http_request_header(request, "user-agent"),
    };
    query_parse(&visit.query, http_request_query(request));
    route_visit(&visit, good_prefix);
    query_finish(&visit.query);
}
