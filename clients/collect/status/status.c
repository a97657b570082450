/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/status/status.h"

#include "api/text/port.h"
#include "clients/collect/controller/report.h"
#include "clients/collect/status/metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ANSWER  (64u << 20)
#define MAX_REQUEST 8192u /* headers and the server's memory for one connection */

#define TEXT_TYPE    "text/plain; charset=utf-8"
#define JSON_TYPE    "application/json"
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct status_server {
    struct MHD_Daemon *daemon;
    struct controller *controller;
    bool is_loopback;
    char url[128];
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

static const struct page *find_page(const char *path) {
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        if (strcmp(pages[i].path, path) == 0)
            return &pages[i];
    return NULL;
}

/* ---- Answers ---- */

/* Sends the text, which is malloc'ed; NULL closes the connection. */
static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned status,
                                 const char *type, char *text, size_t len) {
    if (!text)
        return MHD_NO;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(text);
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status,
                              const char *message) {
    char *text = strdup(message);
    return send_text(connection, status, TEXT_TYPE, text, text ? strlen(text) : 0);
}

static bool is_address(const char *text) {
    struct in6_addr address;
    return inet_pton(AF_INET, text, &address) == 1 || inet_pton(AF_INET6, text, &address) == 1;
}

/* "HOST", "HOST:PORT" or "[IPv6]:PORT". */
static bool is_loopback_name(const char *host) {
    char name[64];
    bool has_bracket = host && host[0] == '[';
    if (!host)
        return true; /* HTTP 1.0 */
    snprintf(name, sizeof name, "%s", host + has_bracket);
    name[strcspn(name, has_bracket ? "]" : ":")] = 0;
    return strcmp(name, "localhost") == 0 || is_address(name);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *body,
                                  size_t *body_size, void **state) {
    static char is_begun;
    struct status_server *server = context;
    struct sonde_buf out = {.limit = MAX_ANSWER};
    size_t len = 0;
    (void)version;
    (void)body;
    if (!*state) { /* the headers are complete; the next call is the request */
        *state = &is_begun;
        return MHD_YES;
    }
    if (*body_size > 0) { /* nothing is read from it */
        *body_size = 0;
        return MHD_YES;
    }
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    if (server->is_loopback && !is_loopback_name(host))
        return refuse(connection, MHD_HTTP_FORBIDDEN,
                      "this address answers requests for localhost or an IP address only\n");
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "use GET\n");
    const struct page *page = find_page(url);
    if (!page)
        return refuse(connection, MHD_HTTP_NOT_FOUND,
                      "there is /, /hosts, /hosts?name=NAME and /metrics\n");
    const char *name = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "name");
    page->write(server->controller, name, &out);
    char *text = sonde_buf_take(&out, &len);
    return send_text(connection, MHD_HTTP_OK, page->type, text, len);
}

/* ---- Life ---- */

union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* The socket address of HOST:PORT; false: it is not one. */
static bool read_address(const char *text, union socket_address *address, bool *is_loopback) {
    char host[64];
    unsigned port;
    const char *colon = strrchr(text, ':');
    bool has_bracket = text[0] == '[';
    size_t len = colon ? (size_t)(colon - text) : 0;
    if (len == 0 || len >= sizeof host || !sonde_port_read(colon + 1, &port) ||
        (has_bracket && (len < 3 || text[len - 1] != ']')))
        return false;
    snprintf(host, sizeof host, "%.*s", (int)(len - 2 * has_bracket), text + has_bracket);
    *address = (union socket_address){.any = {.sa_family = has_bracket ? AF_INET6 : AF_INET}};
    if (has_bracket) {
        address->v6.sin6_port = htons((uint16_t)port);
        *is_loopback = strcmp(host, "::1") == 0;
        return inet_pton(AF_INET6, host, &address->v6.sin6_addr) == 1;
    }
    const char *v4 = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    address->v4.sin_port = htons((uint16_t)port);
    *is_loopback = strncmp(v4, "127.", 4) == 0;
    return inet_pton(AF_INET, v4, &address->v4.sin_addr) == 1;
}

static void name_url(struct status_server *server, const union socket_address *address) {
    char host[INET6_ADDRSTRLEN] = "";
    bool is_v6 = address->any.sa_family == AF_INET6;
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
    inet_ntop(address->any.sa_family,
              is_v6 ? (const void *)&address->v6.sin6_addr : &address->v4.sin_addr, host,
              sizeof host);
    snprintf(server->url, sizeof server->url, is_v6 ? "http://[%s]:%u" : "http://%s:%u", host,
             info ? (unsigned)info->port : 0);
}

sonde_err status_start(const char *text, struct controller *controller,
                       struct status_server **started, struct sonde_diag *diag) {
    union socket_address address;
    bool is_loopback = false;
    *started = NULL;
    if (!read_address(text, &address, &is_loopback))
        return sonde_fail(
            diag, SONDE_INVALID_ARGUMENT,
            "\"%.64s\" is not IP:PORT or [IPv6]:PORT, for example 127.0.0.1:9464; " SONDE_PORT_RULE,
            text);
    struct status_server *server = calloc(1, sizeof *server);
    if (!server)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "not enough memory");
    server->controller = controller;
    server->is_loopback = is_loopback;
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO;
    if (address.any.sa_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    errno = 0;
    server->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, server, MHD_OPTION_SOCK_ADDR, &address.any,
        MHD_OPTION_CONNECTION_LIMIT, STATUS_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        STATUS_TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MAX_REQUEST, MHD_OPTION_END);
    if (!server->daemon) {
        free(server);
        return sonde_fail(diag, SONDE_UNAVAILABLE,
                          "cannot listen on %.64s: %s; choose another address", text,
                          errno ? strerror(errno) : "the system refuses");
    }
    name_url(server, &address);
    *started = server;
    return SONDE_OK;
}

const char *status_url(const struct status_server *server) {
    return server->url;
}

void status_stop(struct status_server *server) {
    if (!server)
        return;
    MHD_stop_daemon(server->daemon);
    free(server);
}
