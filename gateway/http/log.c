/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds the security headers to every answer, ours and h2o's, and logs one line when it has ended.
 * The line never contains a header's value. Refused requests share a few lines a minute, because a
 * client without a token must not fill the disk; the rest is counted. */
#include "api/base/clock.h"
#include "gateway/http/http_server.h"

#include <time.h>

#define NOTHING_LOADS "default-src 'none'; frame-ancestors 'none'"
#define MAX_PATH      256

struct our_filter {
    h2o_filter_t super;
    struct http_server *server;
};

struct our_logger {
    h2o_logger_t super;
    struct http_server *server;
};

/* name and value are literals and are not copied. */
static void set_if_missing(h2o_req_t *req, const char *name, size_t name_len, const char *value,
                           size_t value_len) {
    if (h2o_find_header_by_str(&req->res.headers, name, name_len, -1) < 0)
        h2o_add_header_by_str(&req->pool, &req->res.headers, name, name_len, 0, NULL, value,
                              value_len);
}

static bool is_pprof(const struct our_filter *filter, h2o_req_t *req) {
    struct sonde_slice path = {req->input.path.base, req->input.path.len};
    if (req->input.query_at < path.len)
        path.len = req->input.query_at;
    return filter->server->options.is_pprof_path && path.data &&
           filter->server->options.is_pprof_path(path);
}

static void on_setup_ostream(h2o_filter_t *self, h2o_req_t *req, h2o_ostream_t **slot) {
    set_if_missing(req, H2O_STRLIT("x-content-type-options"), H2O_STRLIT("nosniff"));
    h2o_set_header(&req->pool, &req->res.headers, H2O_TOKEN_CACHE_CONTROL, H2O_STRLIT("no-store"),
                   0);
    set_if_missing(req, H2O_STRLIT("content-security-policy"), H2O_STRLIT(NOTHING_LOADS));
    if (req->res.status >= 400 && is_pprof((struct our_filter *)(void *)self, req))
        set_if_missing(req, H2O_STRLIT("x-go-pprof"), H2O_STRLIT("1"));
    h2o_setup_next_ostream(req, slot);
}

void http_headers_register(struct http_server *server, h2o_pathconf_t *path) {
    struct our_filter *filter = (void *)h2o_create_filter(path, sizeof *filter);
    filter->super.on_setup_ostream = on_setup_ostream;
    filter->server = server;
}

/* Escapes spaces and unprintable bytes, so that a log line can be split at spaces. */
static void escape(char *out, size_t size, h2o_iovec_t text) {
    size_t used = 0;
    for (size_t i = 0; i < text.len && used + 5 < size; i++) {
        unsigned char byte = (unsigned char)text.base[i];
        if (byte > ' ' && byte < 0x7f && byte != '"' && byte != '\\')
            out[used++] = (char)byte;
        else
            used += (size_t)snprintf(out + used, 5, "\\x%02x", byte);
    }
    out[used] = 0;
}

static int64_t microseconds(struct timeval time) {
    return (int64_t)time.tv_sec * 1000000 + time.tv_usec;
}

static void format_stamp(char stamp[40], struct timeval now) {
    struct tm parts;
    char day[24];
    gmtime_r(&now.tv_sec, &parts);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(stamp, 40, "%s.%03dZ", day, (int)(now.tv_usec / 1000));
}

static void report_left_out(struct http_server *server) {
    char stamp[40];
    struct timeval now;
    uint64_t left_out = line_limit_take(&server->refusals);
    if (left_out == 0)
        return;
    gettimeofday(&now, NULL);
    format_stamp(stamp, now);
    fprintf(stderr,
            "time=%s %llu more requests were refused; at most %d lines a minute are written about "
            "such requests\n",
            stamp, (unsigned long long)left_out, LINE_LIMIT_LINES);
}

void http_log_finish(struct http_server *server) {
    report_left_out(server);
}

/* Whether the client was refused before anything was looked up, or sent a broken request. */
static bool is_refusal(int status) {
    static const int statuses[] = {0, 400, 401, 403, 413, 421, 429, 431};
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (status == statuses[i])
            return true;
    return false;
}

static bool is_logged(struct http_server *server, const h2o_req_t *req) {
    int64_t now_ms = clock_ms(CLOCK_MONOTONIC);
    if (now_ms - server->refusals.begin_ms >= LINE_LIMIT_SPAN_MS)
        report_left_out(server);
    return !is_refusal(req->res.status) || line_limit_admits(&server->refusals, now_ms);
}

static void log_access(h2o_logger_t *self, h2o_req_t *req) {
    if (!is_logged(((struct our_logger *)(void *)self)->server, req))
        return;
    struct http_request *request = http_request_of(req);
    char path[4 * MAX_PATH], method[64], stamp[40], peer[64] = "?";
    h2o_iovec_t head = req->input.path;
    escape(path, sizeof path, h2o_iovec_init(head.base, head.len < MAX_PATH ? head.len : MAX_PATH));
    escape(method, sizeof method, req->input.method);
    if (request)
        http_request_peer(request, peer, sizeof peer);
    struct timeval now;
    gettimeofday(&now, NULL);
    format_stamp(stamp, now);
    int64_t began = microseconds(req->timestamps.request_begin_at);
    fprintf(stderr,
            "time=%s peer=%s version=%d.%d method=%s path=%s status=%d bytes=%zu ms=%.1f%s%s\n",
            stamp, peer, req->version >> 8, req->version & 0xff, method, path, req->res.status,
            req->bytes_sent, began ? (double)(microseconds(now) - began) / 1000 : 0.0,
            request && request->note[0] ? " " : "", request ? request->note : "");
}

void http_log_register(struct http_server *server, h2o_pathconf_t *path) {
    if (!server->options.log)
        return;
    struct our_logger *logger = (void *)h2o_create_logger(path, sizeof *logger);
    logger->super.log_access = log_access;
    logger->server = server;
}
