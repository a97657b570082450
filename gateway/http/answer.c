/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers, whole and streamed. h2o requires that the bytes passed to h2o_send live until `proceed`,
 * and that no other send comes before it. After FINAL or ERROR it calls neither `proceed` nor
 * `stop`, but the last bytes must live until the request's pool is cleared, as `sending` does. */
#include "gateway/http/http_server.h"
#include "gateway/request/negotiate.h"

#define SMALL      1024 /* smaller bodies are not worth compressing */
#define GZIP_LEVEL 1

static bool is_head(const struct http_request *request) {
    return h2o_memis(request->req->input.method.base, request->req->input.method.len,
                     H2O_STRLIT("HEAD"));
}

static bool client_takes_gzip(struct http_request *request) {
    return negotiate_lists_coding(http_request_header(request, "accept-encoding"), "gzip");
}

static void add_header(h2o_req_t *req, const char *name, const char *value) {
    h2o_iovec_t own = h2o_strdup(&req->pool, value, SIZE_MAX);
    h2o_iovec_t own_name = h2o_strdup(&req->pool, name, SIZE_MAX);
    h2o_add_header_by_str(&req->pool, &req->res.headers, own_name.base, own_name.len, 1, NULL,
                          own.base, own.len);
}

/* The same for a name that h2o has a token for. */
static void add_known(h2o_req_t *req, const h2o_token_t *name, const char *value) {
    h2o_iovec_t own = h2o_strdup(&req->pool, value, SIZE_MAX);
    h2o_add_header(&req->pool, &req->res.headers, name, NULL, own.base, own.len);
}

static const char *reason_of(int status) {
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {201, "Created"},
        {301, "Moved Permanently"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {409, "Conflict"},
        {410, "Gone"},
        {413, "Payload Too Large"},
        {415, "Unsupported Media Type"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Entity"},
        {429, "Too Many Requests"},
        {499, "Client Closed Request"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Answer";
}

static void begin(struct http_request *request, const struct http_answer *answer, bool gzip) {
    h2o_req_t *req = request->req;
    req->res.status = answer->status;
    req->res.reason = reason_of(answer->status);
    if (answer->content_type)
        add_known(req, H2O_TOKEN_CONTENT_TYPE, answer->content_type);
    if (answer->content_security_policy)
        add_header(req, "content-security-policy", answer->content_security_policy);
    for (size_t i = 0; i < answer->header_count; i++)
        add_header(req, answer->headers[i].name, answer->headers[i].value);
    if (gzip)
        h2o_add_header(&req->pool, &req->res.headers, H2O_TOKEN_CONTENT_ENCODING, NULL,
                       H2O_STRLIT("gzip"));
    if (!answer->no_gzip)
        h2o_add_header(&req->pool, &req->res.headers, H2O_TOKEN_VARY, NULL,
                       H2O_STRLIT("Accept-Encoding"));
    req->compress_hint = H2O_COMPRESS_HINT_DISABLE;
}

static h2o_iovec_t sending(struct http_request *request) {
    return h2o_iovec_init(request->sending.data, request->sending.len);
}

/* Sends the answer whose whole body is in `sending`. */
static void send_whole(struct http_request *request, const struct http_answer *answer, bool gzip) {
    h2o_req_t *req = request->req;
    http_request_answered(request);
    begin(request, answer, gzip);
    bool has_length = request->sending.len || (!is_head(request) && answer->status != 304);
    if (has_length) /* of what GET sends, where it is known */
        req->res.content_length = request->sending.len;
    h2o_start_response(req, &request->generator);
    h2o_iovec_t bytes = sending(request);
    if (is_head(request) || bytes.len == 0)
        h2o_send(req, NULL, 0, H2O_SEND_STATE_FINAL);
    else
        h2o_send(req, &bytes, 1, H2O_SEND_STATE_FINAL);
}

static bool compress_whole(struct http_request *request, const struct http_answer *answer,
                           struct sonde_slice body) {
    if (answer->no_gzip || body.len < SMALL || !client_takes_gzip(request))
        return false;
    struct sonde_gzip_writer *gzip = sonde_gzip_writer_create(GZIP_LEVEL, &request->sending);
    bool done = false;
    if (gzip) {
        sonde_gzip_writer_add(gzip, body);
        done = sonde_gzip_writer_end(gzip) == SONDE_OK;
    }
    sonde_gzip_writer_destroy(gzip);
    if (!done)
        sonde_buf_finish(&request->sending);
    return done;
}

void http_answer(struct http_request *request, const struct http_answer *answer,
                 struct sonde_slice body) {
    bool gzip = compress_whole(request, answer, body);
    if (!gzip)
        sonde_buf_append(&request->sending, body.data, body.len);
    send_whole(request, answer, gzip);
}

void http_answer_take(struct http_request *request, const struct http_answer *answer,
                      struct sonde_buf *body) {
    bool gzip = compress_whole(request, answer, sonde_buf_slice(body));
    if (!gzip) {
        request->sending = *body;
        *body = (struct sonde_buf){0};
    }
    sonde_buf_finish(body);
    send_whole(request, answer, gzip);
}

void http_request_release_slices(struct http_request *request) {
    void (*release)(void *context) = request->release;
    request->release = NULL;
    if (release)
        release(request->release_context);
}

/* The last send of a stream. Nothing may be in flight. */
static void finish(struct http_request *request) {
    bool cut = request->cutting;
    request->sending.len = 0;
    if (!cut && request->gzip)
        cut = sonde_gzip_writer_end(request->gzip) != SONDE_OK;
    h2o_iovec_t bytes = sending(request);
    h2o_send(request->req, bytes.len ? &bytes : NULL, bytes.len != 0,
             cut ? H2O_SEND_STATE_ERROR : H2O_SEND_STATE_FINAL);
}

static void on_proceed(h2o_generator_t *generator, h2o_req_t *req) {
    struct http_request *request =
        H2O_STRUCT_FROM_MEMBER(struct http_request, generator, generator);
    request->in_flight = false;
    request->sending.len = 0;
    http_request_release_slices(request);
    if (request->ending)
        finish(request);
    else if (request->on_ready)
        request->on_ready(request->ready_context);
}

void http_stream_start(struct http_request *request, const struct http_answer *answer,
                       uint64_t size, void (*on_ready)(void *context), void *context) {
    h2o_req_t *req = request->req;
    if (!answer->no_gzip && size >= SMALL && client_takes_gzip(request))
        request->gzip = sonde_gzip_writer_create(GZIP_LEVEL, &request->sending);
    request->state = REQUEST_STREAMING;
    request->on_ready = on_ready;
    request->ready_context = context;
    request->generator.proceed = on_proceed;
    begin(request, answer, request->gzip != NULL);
    if (size != HTTP_UNKNOWN && !request->gzip)
        req->res.content_length = size;
    h2o_start_response(req, &request->generator);
}

/* Reports a send that produced no bytes, because the compressor holds them back. h2o will not. */
static void on_skipped(h2o_timeout_entry_t *entry) {
    struct http_request *request = H2O_STRUCT_FROM_MEMBER(struct http_request, skipped, entry);
    if (request->on_ready)
        request->on_ready(request->ready_context);
}

/* Sends the contents of `sending`. */
static void send_pending(struct http_request *request) {
    h2o_iovec_t piece = sending(request);
    if (piece.len == 0) {
        request->skipped.cb = on_skipped;
        h2o_timeout_link(request->server->loop, &request->server->context.zero_timeout,
                         &request->skipped);
        return;
    }
    request->in_flight = true;
    h2o_send(request->req, &piece, 1, H2O_SEND_STATE_IN_PROGRESS);
}

void http_stream_send(struct http_request *request, struct sonde_slice bytes) {
    if (request->gzip)
        sonde_gzip_writer_add(request->gzip, bytes);
    else
        sonde_buf_append(&request->sending, bytes.data, bytes.len);
    send_pending(request);
}

static void compress(struct http_request *request, const struct sonde_slice *slices, size_t count) {
    for (size_t i = 0; i < count; i++)
        sonde_gzip_writer_add(request->gzip, slices[i]);
    http_request_release_slices(request);
    send_pending(request);
}

void http_stream_send_slices(struct http_request *request, const struct sonde_slice *slices,
                             size_t count, void (*release)(void *context), void *context) {
    h2o_iovec_t vectors[HTTP_MAX_SLICES];
    request->release = release;
    request->release_context = context;
    if (request->gzip) {
        compress(request, slices, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        vectors[i] = h2o_iovec_init(slices[i].data, slices[i].len);
    request->in_flight = true;
    h2o_send(request->req, vectors, count, H2O_SEND_STATE_IN_PROGRESS);
}

static void end(struct http_request *request, bool cut) {
    request->ending = true;
    request->cutting = cut;
    http_request_answered(request);
    if (!request->in_flight)
        finish(request);
}

void http_stream_end(struct http_request *request) {
    end(request, false);
}

void http_stream_cut(struct http_request *request) {
    end(request, true);
}
