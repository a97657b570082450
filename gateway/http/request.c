/* SPDX-License-Identifier: Apache-2.0
 *
 * One request. h2o frees its h2o_req_t at any time once the client has gone, and does not report
 * that before an answer has started. So our request is allocated in the h2o request's pool, with a
 * dispose callback that runs exactly once in every case. That callback reports on_gone. */
#include "gateway/http/http_server.h"

#include <stdarg.h>

static struct sonde_slice slice_of(h2o_iovec_t bytes) {
    return (struct sonde_slice){bytes.base ? bytes.base : "", bytes.len};
}

struct connection *http_connection_of(h2o_req_t *req) {
    h2o_socket_t *sock = req->conn->callbacks->get_socket(req->conn);
    return sock ? sock->on_close.data : NULL;
}

/* Our request is stored in h2o's per-request variables, which only CGI handlers read. */
static h2o_iovec_t *variable(h2o_req_t *req) {
    return h2o_req_getenv(req, H2O_STRLIT("SONDE_REQUEST"), 1);
}

struct http_request *http_request_of(h2o_req_t *req) {
    h2o_iovec_t *found = h2o_req_getenv(req, H2O_STRLIT("SONDE_REQUEST"), 0);
    return found ? (struct http_request *)(void *)found->base : NULL;
}

static void unlink_request(struct http_request *request) {
    *request->link = request->next;
    if (request->next)
        request->next->link = request->link;
    request->server->requests--;
}

/* From here on only h2o owns the request. */
void http_request_answered(struct http_request *request) {
    request->state = REQUEST_ANSWERED;
    request->on_gone = NULL;
    request->on_ready = NULL;
}

static void report_gone(struct http_request *request) {
    void (*on_gone)(void *) = request->on_gone;
    request->on_gone = NULL;
    request->on_ready = NULL;
    if (on_gone)
        on_gone(request->gone_context);
}

static void dispose_request(void *memory) {
    struct http_request *request = memory;
    h2o_timeout_unlink(&request->watch);
    h2o_timeout_unlink(&request->skipped);
    unlink_request(request);
    http_connection_request_ended(request->connection);
    if (request->req->version >= 0x200 && request->state != REQUEST_ANSWERED)
        http_watch_wasted(request);
    report_gone(request);
    sonde_gzip_writer_destroy(request->gzip);
    sonde_buf_finish(&request->sending);
    http_request_release_slices(request);
}

/* Reports on_gone, then ends the answer and the connection. */
void http_request_abandon(struct http_request *request, int status) {
    report_gone(request);
    if (request->state == REQUEST_STREAMING) {
        http_stream_cut(request);
        return;
    }
    request->req->http1_is_persistent = 0;
    http_answer(request, &(struct http_answer){.status = status}, (struct sonde_slice){"", 0});
}

static struct http_request *create(struct http_server *server, h2o_req_t *req) {
    struct http_request *request =
        h2o_mem_alloc_shared(&req->pool, sizeof *request, dispose_request);
    *request =
        (struct http_request){.req = req, .server = server, .connection = http_connection_of(req)};
    http_connection_request_began(request->connection);
    *variable(req) = h2o_iovec_init(request, sizeof *request);
    request->next = server->first;
    request->link = &server->first;
    if (request->next)
        request->next->link = &request->next;
    server->first = request;
    server->requests++;
    return request;
}

int http_on_request(h2o_handler_t *handler, h2o_req_t *req) {
    struct http_server *server = ((struct our_handler *)(void *)handler)->server;
    struct http_request *request = create(server, req);
    const struct connection *connection = request->connection;
    http_watch_start(request);
    if (connection && http_watch_is_wasteful(connection))
        http_answer(request, &(struct http_answer){.status = 503}, (struct sonde_slice){"", 0});
    else
        server->options.on_request(server->options.context, request);
    return 0;
}

struct sonde_slice http_request_method(const struct http_request *request) {
    return slice_of(request->req->input.method);
}

/* Uses input.path, because path_normalized is decoded and has its dots resolved; our paths must
 * match exactly. */
struct sonde_slice http_request_path(const struct http_request *request) {
    h2o_iovec_t path = request->req->input.path;
    if (request->req->input.query_at != SIZE_MAX)
        path.len = request->req->input.query_at;
    return slice_of(path);
}

struct sonde_slice http_request_query(const struct http_request *request) {
    const h2o_req_t *req = request->req;
    if (req->input.query_at == SIZE_MAX)
        return (struct sonde_slice){"", 0};
    size_t start = req->input.query_at + 1;
    return (struct sonde_slice){req->input.path.base + start, req->input.path.len - start};
}

struct sonde_slice http_request_body(const struct http_request *request) {
    return slice_of(request->req->entity);
}

/* h2o fills in its own host's name if the client sent none. */
struct sonde_slice http_request_authority(const struct http_request *request) {
    const h2o_req_t *req = request->req;
    if (req->hostconf && req->input.authority.base == req->hostconf->authority.hostport.base)
        return (struct sonde_slice){"", 0};
    return slice_of(req->input.authority);
}

struct sonde_slice http_request_header(struct http_request *request, const char *name) {
    const h2o_headers_t *headers = &request->req->headers;
    struct sonde_slice joined = {NULL, 0};
    size_t name_len = strlen(name);
    for (size_t i = 0; i < headers->size; i++) {
        const h2o_header_t *header = &headers->entries[i];
        if (header->name->len != name_len || memcmp(header->name->base, name, name_len) != 0)
            continue;
        struct sonde_slice value = slice_of(header->value);
        if (!joined.data) {
            joined = value;
            continue;
        }
        char *both = h2o_mem_alloc_pool(&request->req->pool, joined.len + value.len + 2);
        memcpy(both, joined.data, joined.len);
        memcpy(both + joined.len, ", ", 2);
        memcpy(both + joined.len + 2, value.data, value.len);
        joined = (struct sonde_slice){both, joined.len + value.len + 2};
    }
    return joined;
}

enum http_trust http_request_trust(const struct http_request *request) {
    const struct connection *connection = http_connection_of(request->req);
    return connection ? connection->trust : HTTP_STRANGER;
}

bool http_request_uid(const struct http_request *request, uid_t *uid) {
    const struct connection *connection = http_connection_of(request->req);
    if (!connection || !connection->has_uid)
        return false;
    *uid = connection->uid;
    return true;
}

void http_request_uid_refusal(const struct http_request *request, char *text, size_t size) {
    static const struct socket_peer_refusal none;
    const struct connection *connection = http_connection_of(request->req);
    socket_peer_explain(connection ? &connection->refusal : &none, text, size);
}

void http_request_certificate(const struct http_request *request, char *text, size_t size) {
    const struct connection *connection = http_connection_of(request->req);
    snprintf(text, size, "%s", connection ? connection->certificate : "");
}

void http_request_peer(const struct http_request *request, char *text, size_t size) {
    const struct connection *connection = http_connection_of(request->req);
    snprintf(text, size, "%s", connection ? connection->peer : "unknown");
}

void http_request_note(struct http_request *request, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(request->note, sizeof request->note, format, arguments);
    va_end(arguments);
}

void http_request_on_gone(struct http_request *request, void (*on_gone)(void *context),
                          void *context) {
    request->on_gone = on_gone;
    request->gone_context = context;
}
