/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of a request to its handler: who is let in, which row, which method, how large, from
 * which page, about which target. Each step either passes or answers, in this order, so that a
 * stranger learns nothing and a refused request has started nothing. */
#include "gateway/gateway.h"
#include "gateway/reply.h"
#include "gateway/routes.h"

#include <stdio.h>
#include <string.h>

/* Takes the same time for every wrong token of one length. */
static bool is_same(struct sonde_slice shown, const char *wanted) {
    size_t len = strlen(wanted);
    unsigned char different = shown.len != len;
    for (size_t i = 0; i < shown.len; i++)
        different |= (unsigned char)(shown.data[i] ^ wanted[len ? i % len : 0]);
    return !different && len;
}

static bool shows_token(struct visit *visit) {
    struct sonde_slice header = http_request_header(visit->request, "authorization");
    if (!visit->gateway->token || !header.data || header.len < 7 ||
        strncasecmp(header.data, "bearer ", 7) != 0)
        return false;
    return is_same((struct sonde_slice){header.data + 7, header.len - 7}, visit->gateway->token);
}

static bool check_access(struct visit *visit) {
    enum http_trust trust = http_request_trust(visit->request);
    if (trust == HTTP_LOCAL || trust == HTTP_CERTIFIED || visit->gateway->insecure ||
        shows_token(visit))
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
    if (!(visit->route->flags & ROUTE_CHANGES_STATE) ||
        ((visit->route->flags & ROUTE_GET_READS) && visit->method == METHOD_GET))
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
    return sonde_fail(diag, SONDE_TARGET_NOT_FOUND, "no target \"%s\" is attached",
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

static void route_visit(struct visit *visit, bool good_prefix) {
    struct sonde_diag diag = {0};
    if (!check_access(visit))
        return;
    if (!visit->route) {
        reply_no_path(visit->request, visit->family);
        return;
    }
    if (!check_method(visit) || !check_size(visit) || !check_site(visit))
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
