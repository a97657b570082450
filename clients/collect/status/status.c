/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/status/status.h"

#include "api/text/port.h"
#include "clients/collect/controller/report.h"
#include "clients/collect/status/metrics.h"
#include "gateway/http/http.h"
#include "gateway/request/host.h"
#include "gateway/request/query.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ANSWER (64u << 20)
#define MAX_PATH   64u /* longer ones are not found */

#define TEXT_TYPE    "text/plain; charset=utf-8"
#define JSON_TYPE    "application/json"
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct status_server {
    struct http_server *http;
    struct controller *controller;
    char numbers[96]; /* the address to listen on, without a name */
    const char *listen;
    bool is_loopback;
    pthread_t thread;
};

/* ---- Pages ---- */

static void write_status(struct controller *controller, const char *name, struct sonde_buf *out) {
    char line[1024];
    (void)name;
    controller_line(controller, line, sizeof line);
    sonde_buf_printf(out, "%s\n\n", line);
    controller_hosts_text(controller, out);
}

static void write_metrics(struct controller *controller, const char *name, struct sonde_buf *out) {
    struct controller_report report;
    (void)name;
    controller_report(controller, &report);
    metrics_text(out, &report);
}

static const struct page {
    const char *path, *type;
    void (*write)(struct controller *controller, const char *name, struct sonde_buf *out);
} pages[] = {
    {"/", TEXT_TYPE, write_status},
    {"/hosts", JSON_TYPE, controller_hosts_json},
    {"/metrics", METRICS_TYPE, write_metrics},
};

static const struct page *find_page(struct sonde_slice path) {
    char text[MAX_PATH];
    if (path.len > sizeof text)
        return NULL;
    size_t len = query_decode_path(path, text);
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        if (strlen(pages[i].path) == len && memcmp(pages[i].path, text, len) == 0)
            return &pages[i];
    return NULL;
}

/* ---- Answers ---- */

static void refuse(struct http_request *request, int status, const char *message) {
    struct http_answer answer = {.status = status, .content_type = TEXT_TYPE, .no_gzip = true};
    if (status == 405)
        answer.headers[answer.header_count++] = (struct http_header){"allow", "GET, HEAD"};
    http_answer(request, &answer, sonde_slice_of(message));
}

/* Returns the first "name" of the query, which the caller frees; NULL if there is none. */
static char *take_name(const struct http_request *request) {
    struct query query;
    char *name = NULL;
    query_parse(&query, http_request_query(request));
    for (size_t i = 0; i < query.count && !name; i++)
        if (sonde_slice_equals(query.pairs[i].key, "name"))
            name = strndup(query.pairs[i].value.data, query.pairs[i].value.len);
    query_finish(&query);
    return name;
}

static void send_page(struct status_server *server, struct http_request *request,
                      const struct page *page) {
    const struct http_answer answer = {.status = 200, .content_type = page->type, .no_gzip = true};
    struct sonde_buf out = {.limit = MAX_ANSWER};
    char *name = take_name(request);
    page->write(server->controller, name, &out);
    free(name);
    if (!out.failed) {
        http_answer_take(request, &answer, &out);
        return;
    }
    sonde_buf_finish(&out);
    http_stream_start(request, &answer, HTTP_UNKNOWN, NULL, NULL);
    http_stream_cut(request);
}

/* An HTTP/1.0 request may have no authority. */
static bool is_loopback_name(struct sonde_slice authority) {
    static const char *const names[] = {"localhost"};
    return authority.len == 0 || host_is_listed(authority, names, 1) || host_is_address(authority);
}

static void on_request(void *context, struct http_request *request) {
    struct status_server *server = context;
    struct sonde_slice method = http_request_method(request);
    if (server->is_loopback && !is_loopback_name(http_request_authority(request))) {
        refuse(request, 403, "this address answers requests for localhost or an IP address only\n");
        return;
    }
    if (!sonde_slice_equals(method, "GET") && !sonde_slice_equals(method, "HEAD")) {
        refuse(request, 405, "use GET\n");
        return;
    }
    const struct page *page = find_page(http_request_path(request));
    if (page)
        send_page(server, request, page);
    else
        refuse(request, 404, "there is /, /hosts, /hosts?name=NAME and /metrics\n");
}

/* ---- Life ---- */

/* Stores the address as numbers, which need no name server. False: the text is not HOST:PORT. */
static bool read_address(const char *text, struct status_server *server) {
    char host[64], bytes[sizeof(struct in6_addr)];
    unsigned port;
    const char *colon = strrchr(text, ':');
    bool has_bracket = text[0] == '[';
    size_t len = colon ? (size_t)(colon - text) : 0;
    if (len == 0 || len >= sizeof host || !sonde_port_read(colon + 1, &port) ||
        (has_bracket && (len < 3 || text[len - 1] != ']')))
        return false;
    snprintf(host, sizeof host, "%.*s", (int)(len - 2 * has_bracket), text + has_bracket);
    if (strcmp(host, "localhost") == 0 && !has_bracket)
        strcpy(host, "127.0.0.1");
    server->is_loopback = has_bracket ? strcmp(host, "::1") == 0 : strncmp(host, "127.", 4) == 0;
    server->listen = server->numbers;
    snprintf(server->numbers, sizeof server->numbers, has_bracket ? "[%s]:%u" : "%s:%u", host,
             port);
    return inet_pton(has_bracket ? AF_INET6 : AF_INET, host, bytes) == 1;
}

static void *run(void *context) {
    struct status_server *server = context;
    http_server_run(server->http, 0, NULL);
    return NULL;
}

/* Listens, and runs the server on a thread of its own. */
static sonde_err serve(struct status_server *server, const char *text, struct sonde_diag *diag) {
    struct sonde_diag cause = {0};
    const struct http_options options = {
        .listen = &server->listen,
        .listen_count = 1,
        .v6_only = true,
        .max_connections = STATUS_CONNECTIONS,
        .on_request = on_request,
        .context = server,
    };
    if (http_server_create(&options, &server->http, &cause))
        return sonde_fail(diag, SONDE_UNAVAILABLE,
                          "cannot listen on %.64s: %s; choose another address", text,
                          cause.os_error ? strerror(cause.os_error) : "the system refuses");
    int failure = pthread_create(&server->thread, NULL, run, server);
    if (!failure)
        return SONDE_OK;
    http_server_destroy(server->http);
    return sonde_fail_os(diag, failure, "cannot start a thread for %.64s", text);
}

sonde_err status_start(const char *text, struct controller *controller,
                       struct status_server **started, struct sonde_diag *diag) {
    *started = NULL;
    struct status_server *server = calloc(1, sizeof *server);
    if (!server)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "not enough memory");
    server->controller = controller;
    sonde_err err = SONDE_OK;
    if (!read_address(text, server))
        err = sonde_fail(
            diag, SONDE_INVALID_ARGUMENT,
            "\"%.64s\" is not IP:PORT or [IPv6]:PORT, for example 127.0.0.1:9464; " SONDE_PORT_RULE,
            text);
    if (!err)
        err = serve(server, text, diag);
    if (err)
        free(server);
    else
        *started = server;
    return err;
}

const char *status_url(const struct status_server *server) {
    return http_server_address(server->http, 0);
}

void status_stop(struct status_server *server) {
    if (!server)
        return;
    http_server_stop(server->http);
    pthread_join(server->thread, NULL);
    http_server_destroy(server->http);
    free(server);
}
