/* SPDX-License-Identifier: Apache-2.0
 *
 * A SELECT is the body of a POST. If there is something to send, rows or a temporary table, the
 * statement is in the URL. wait_end_of_query makes the server send its status after the last row,
 * so that an answer that breaks off in the middle is never taken for a whole one. */
#include "service/store/clickhouse/http/server.h"

#include "api/os/secrets/ca_bundle.h"
#include "service/http/failure.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_TIMEOUT_MS 3000L

void http_server_destroy(struct http_server *server) {
    if (!server)
        return;
    const struct http_library *curl = http_library();
    for (size_t i = 0; i < server->idle_count; i++)
        curl->cleanup(server->idle[i]);
    lock_finish(&server->lock);
    curl->release(server->user);
    curl->release(server->password);
    free(server);
}

const char *http_server_name(const struct http_server *server) {
    return server->name;
}

static CURL *take_handle(struct http_server *server) {
    const struct http_library *curl = http_library();
    CURL *handle = NULL;
    lock_take(&server->lock);
    if (server->idle_count)
        handle = server->idle[--server->idle_count];
    lock_drop(&server->lock);
    return handle ? handle : curl->init();
}

static void give_back(struct http_server *server, CURL *handle) {
    const struct http_library *curl = http_library();
    curl->reset(handle); /* keeps the connection */
    lock_take(&server->lock);
    bool is_kept = server->idle_count < HTTP_MAX_IDLE;
    if (is_kept)
        server->idle[server->idle_count++] = handle;
    lock_drop(&server->lock);
    if (!is_kept)
        curl->cleanup(handle);
}

/* One request under way. */
struct call {
    struct sonde_buf *answer;
    size_t begin; /* of this answer in the buffer */
    struct http_shared *shared;
    const struct store_stop *stop;
    sonde_err stopped;
    struct sonde_diag *diag;
    bool is_too_large, is_error; /* is_error: the body of an error */
    bool is_one_too_many;        /* beyond HTTP_MAX_ANSWERS */
    CURL *handle;
};

/* An error needs a sentence; only data may be long. */
static size_t limit_of(const struct call *call) {
    long status = 0;
    http_library()->get(call->handle, CURLINFO_RESPONSE_CODE, &status);
    return status >= 400 ? HTTP_MAX_ERROR : HTTP_MAX_ANSWER;
}

/* False if all answers together would be too large. */
static bool reserve(struct http_shared *shared, size_t bytes) {
    size_t before = atomic_fetch_add(&shared->answer_bytes, bytes);
    if (before + bytes <= HTTP_MAX_ANSWERS)
        return true;
    shared->answer_bytes -= bytes;
    return false;
}

static size_t on_data(char *data, size_t size, size_t count, void *context) {
    struct call *call = context;
    call->is_too_large = call->answer->len - call->begin + size * count > limit_of(call);
    call->is_error = limit_of(call) == HTTP_MAX_ERROR;
    if (call->is_too_large)
        return 0;
    call->is_one_too_many = !reserve(call->shared, size * count);
    if (call->is_one_too_many)
        return 0;
    sonde_buf_append(call->answer, data, size * count);
    if (!call->answer->failed)
        return size * count;
    call->shared->answer_bytes -= size * count;
    return 0;
}

void http_answer_finish(struct http_shared *shared, struct sonde_buf *answer) {
    shared->answer_bytes -= answer->len;
    sonde_buf_finish(answer);
}

static sonde_err check_stop(const struct call *call) {
    if (store_stop_check(call->shared->end, NULL) != SONDE_OK)
        return sonde_fail(call->diag, SONDE_UNAVAILABLE,
                          "the service is stopping, and does not wait for ClickHouse");
    return store_stop_check(call->stop, call->diag);
}

static int on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    struct call *call = context;
    call->stopped = check_stop(call);
    return call->stopped != SONDE_OK;
}

static void put_parameter(struct sonde_buf *url, CURL *handle, const char *name,
                          const char *value) {
    const struct http_library *curl = http_library();
    char *encoded = curl->escape(handle, value, 0);
    if (encoded)
        sonde_buf_printf(url, "&%s=%s", name, encoded);
    else
        url->failed = true;
    curl->release(encoded);
}

static sonde_err put_url(struct http_server *server, const struct http_request *request,
                         CURL *handle) {
    const struct http_library *curl = http_library();
    struct sonde_buf url = {0};
    sonde_buf_printf(&url, "%s?wait_end_of_query=1&buffer_size=1048576%s", server->url,
                     request->parameters ? request->parameters : "");
    if (request->query_id)
        put_parameter(&url, handle, "query_id", request->query_id);
    if (request->ids)
        sonde_buf_puts(&url, "&ids_format=RowBinary&ids_structure=id%20UInt64");
    if (request->ids || request->body.len)
        put_parameter(&url, handle, "query", request->sql);
    bool is_set = !url.failed && curl->set(handle, CURLOPT_URL, url.data) == CURLE_OK;
    sonde_buf_finish(&url);
    return is_set ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

static void put_body(const struct http_request *request, CURL *handle, curl_mime **form) {
    const struct http_library *curl = http_library();
    if (request->ids) {
        *form = curl->mime_init(handle);
        curl_mimepart *ids = curl->mime_addpart(*form);
        curl->mime_name(ids, "ids");
        curl->mime_filename(ids, "ids");
        curl->mime_data(ids, (const char *)request->ids, request->id_count * sizeof *request->ids);
        curl->set(handle, CURLOPT_MIMEPOST, *form);
        return;
    }
    struct sonde_slice body = request->body.len ? request->body : sonde_slice_of(request->sql);
    curl->set(handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
    curl->set(handle, CURLOPT_POSTFIELDS, body.data);
}

/* User and password as headers: a URL would end in logs. "Expect:" saves a round trip. */
static struct curl_slist *headers_of(const struct http_server *server) {
    const struct http_library *curl = http_library();
    struct sonde_buf line = {0};
    struct curl_slist *list = curl->slist_append(NULL, "Expect:");
    if (server->user) {
        sonde_buf_printf(&line, "X-ClickHouse-User: %s", server->user);
        list = line.failed ? list : curl->slist_append(list, line.data);
        line.len = 0;
        sonde_buf_printf(&line, "X-ClickHouse-Key: %s", server->password ? server->password : "");
        list = line.failed ? list : curl->slist_append(list, line.data);
    }
    sonde_buf_finish(&line);
    return list;
}

static void set_options(CURL *handle, const struct http_request *request, struct call *call,
                        struct curl_slist *headers) {
    const struct http_library *curl = http_library();
    const char *ca = sonde_ca_bundle();
    if (ca)
        curl->set(handle, CURLOPT_CAINFO, ca);
    curl->set(handle, CURLOPT_HTTPHEADER, headers);
    curl->set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl->set(handle, CURLOPT_NOSIGNAL, 1L);
    curl->set(handle, CURLOPT_TCP_KEEPALIVE, 1L);
    curl->set(handle, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    curl->set(handle, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
    curl->set(handle, CURLOPT_WRITEFUNCTION, on_data);
    curl->set(handle, CURLOPT_WRITEDATA, call);
    curl->set(handle, CURLOPT_NOPROGRESS, 0L);
    curl->set(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl->set(handle, CURLOPT_XFERINFODATA, call);
    /* A connection that the server closed meanwhile would be retried silently, also for inserts; an
     * insert is repeated by its owner, who first asks what was stored. */
    curl->set(handle, CURLOPT_FRESH_CONNECT, request->body.len ? 1L : 0L);
}

static sonde_err failed(const struct http_server *server, const struct call *call, CURLcode code,
                        const struct http_request *request, struct sonde_diag *diag) {
    if (call->stopped)
        return call->stopped;
    if (call->is_too_large && call->is_error)
        return sonde_fail(diag, SONDE_UNAVAILABLE,
                          "ClickHouse at %s sent an error of more than %zu KiB: check what listens "
                          "there",
                          server->name, HTTP_MAX_ERROR >> 10);
    if (call->is_too_large)
        return sonde_fail(diag, SONDE_TOO_LARGE,
                          "the answer is larger than 512 MiB: ask for a shorter range");
    if (call->is_one_too_many)
        return sonde_fail(
            diag, SONDE_TOO_MANY_CAPTURES,
            "all answers of ClickHouse that are being read are larger than %zu MiB, which "
            "is the limit: try again later, or ask for a shorter range",
            HTTP_MAX_ANSWERS >> 20);
    if (code == CURLE_OUT_OF_MEMORY || call->answer->failed)
        return SONDE_OUT_OF_MEMORY;
    if (code == CURLE_OPERATION_TIMEDOUT)
        return sonde_fail(diag, SONDE_UNAVAILABLE, "ClickHouse at %s did not answer within %u s",
                          server->name, (unsigned)(request->timeout_ms / 1000));
    char subject[160], text[sizeof diag->text];
    snprintf(subject, sizeof subject, "ClickHouse at %s", server->name);
    return sonde_fail(diag, SONDE_UNAVAILABLE, "%s",
                      unreached_text(http_failure(call->handle, code), subject, text, sizeof text));
}

static void forget(struct call *call) {
    call->shared->answer_bytes -= call->answer->len - call->begin;
    call->answer->len = call->begin;
}

static bool may_have_arrived(CURLcode code) {
    return code != CURLE_COULDNT_CONNECT && code != CURLE_COULDNT_RESOLVE_HOST;
}

sonde_err http_run(struct http_server *server, const struct http_request *request,
                   struct sonde_buf *answer, bool *did_connect, struct sonde_diag *diag) {
    const struct http_library *curl = http_library();
    struct call call = {.answer = answer,
                        .begin = answer->len,
                        .shared = server->shared,
                        .stop = request->stop,
                        .diag = diag};
    if (did_connect)
        *did_connect = false;
    sonde_err err = check_stop(&call);
    if (err)
        return err;
    CURL *handle = take_handle(server);
    if (!handle)
        return SONDE_OUT_OF_MEMORY;
    call.handle = handle;
    curl_mime *form = NULL;
    struct curl_slist *headers = headers_of(server);
    set_options(handle, request, &call, headers);
    put_body(request, handle, &form);
    err = put_url(server, request, handle);
    if (!err) {
        CURLcode code = curl->perform(handle);
        long status = 0;
        curl->get(handle, CURLINFO_RESPONSE_CODE, &status);
        if (did_connect)
            *did_connect = may_have_arrived(code);
        struct sonde_slice text = {answer->data + call.begin, answer->len - call.begin};
        if (code != CURLE_OK)
            err = failed(server, &call, code, request, diag);
        else if (status != 200)
            err = http_exception(server->name, status, text, diag);
    }
    if (err)
        forget(&call);
    curl->slist_free(headers);
    give_back(server, handle);
    curl->mime_free(form);
    return err;
}
