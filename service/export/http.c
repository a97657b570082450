/* SPDX-License-Identifier: Apache-2.0 */
#include "api/base/container_of.h"
#include "api/os/secrets/ca_bundle.h"
#include "api/settings/options.h"
#include "service/export/transport.h"
#include "service/http/failure.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct http {
    struct transport transport;
    char url[sizeof((struct export_address *)0)->url];
    char host[sizeof((struct export_address *)0)->host];
    struct curl_slist *headers;
    char *ca_file, *cert_file, *key_file;
    CURL *handle; /* with a connection that is kept alive */
    _Atomic bool is_cancelled;
    struct sonde_buf body; /* of the answer that is being received */
    bool is_too_long;
};

static size_t on_data(char *data, size_t size, size_t count, void *context) {
    struct http *http = context;
    http->is_too_long = http->body.len + size * count > ANSWER_MAX_BYTES;
    if (http->is_too_long)
        return 0;
    sonde_buf_append(&http->body, data, size * count);
    return size * count;
}

static int on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    return atomic_load(&((struct http *)context)->is_cancelled);
}

static void set_options(struct http *http, struct sonde_slice request, uint32_t deadline_ms) {
    const struct http_library *curl = http_library();
    CURL *handle = http->handle;
    curl->set(handle, CURLOPT_URL, http->url);
    curl->set(handle, CURLOPT_HTTPHEADER, http->headers);
    curl->set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl->set(handle, CURLOPT_NOSIGNAL, 1L);
    curl->set(handle, CURLOPT_QUICK_EXIT, 1L); /* cancel does not wait for a name server */
    curl->set(handle, CURLOPT_CONNECTTIMEOUT_MS, (long)TRANSPORT_CONNECT_MS);
    curl->set(handle, CURLOPT_TIMEOUT_MS, (long)deadline_ms);
    curl->set(handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request.len);
    curl->set(handle, CURLOPT_POSTFIELDS, request.data);
    curl->set(handle, CURLOPT_WRITEFUNCTION, on_data);
    curl->set(handle, CURLOPT_WRITEDATA, http);
    curl->set(handle, CURLOPT_NOPROGRESS, 0L);
    curl->set(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl->set(handle, CURLOPT_XFERINFODATA, http);
    curl->set(handle, CURLOPT_CA_CACHE_TIMEOUT, 0L); /* a new connection reads its files */
    const char *ca = http->ca_file ? http->ca_file : sonde_ca_bundle();
    if (ca)
        curl->set(handle, CURLOPT_CAINFO, ca);
    if (http->cert_file)
        curl->set(handle, CURLOPT_SSLCERT, http->cert_file);
    if (http->key_file)
        curl->set(handle, CURLOPT_SSLKEY, http->key_file);
}

static void fill_answer(struct http *http, CURLcode code, struct export_answer *answer) {
    const struct http_library *curl = http_library();
    long status = 0;
    curl_off_t retry_after = 0;
    const char *type = NULL;
    curl->get(http->handle, CURLINFO_RESPONSE_CODE, &status);
    curl->get(http->handle, CURLINFO_RETRY_AFTER, &retry_after);
    curl->get(http->handle, CURLINFO_CONTENT_TYPE, &type);
    bool is_protobuf = type && (strncmp(type, "application/x-protobuf", 22) == 0 ||
                                strncmp(type, "application/proto", 17) == 0);
    if (code == CURLE_OK || (http->is_too_long && status)) {
        struct sonde_slice body = sonde_buf_slice(&http->body);
        answer_of_http(status, retry_after, body, is_protobuf, answer);
        if (answer->outcome == EXPORT_DONE && is_protobuf)
            answer_read_partial(body, answer);
        return;
    }
    *answer = (struct export_answer){.outcome = EXPORT_RETRY,
                                     .is_timeout = code == CURLE_OPERATION_TIMEDOUT};
    (void)unreached_text(http_failure(http->handle, code), http->host, answer->text,
                         sizeof answer->text);
}

static void send_request(struct transport *transport, struct sonde_slice request,
                         uint32_t deadline_ms, struct export_answer *answer) {
    struct http *http = container_of(transport, struct http, transport);
    const struct http_library *curl = http_library();
    sonde_buf_finish(&http->body);
    http->is_too_long = false;
    set_options(http, request, deadline_ms);
    CURLcode code = curl->perform(http->handle);
    fill_answer(http, code, answer);
    curl->reset(http->handle); /* keeps the connection */
}

static void cancel(struct transport *transport) {
    atomic_store(&container_of(transport, struct http, transport)->is_cancelled, true);
}

static void destroy(struct transport *transport) {
    struct http *http = container_of(transport, struct http, transport);
    const struct http_library *curl = http_library();
    for (struct curl_slist *item = http->headers; item; item = item->next)
        explicit_bzero(item->data, strlen(item->data));
    curl->slist_free(http->headers);
    if (http->handle)
        curl->cleanup(http->handle);
    sonde_buf_finish(&http->body);
    free(http->ca_file);
    free(http->cert_file);
    free(http->key_file);
    explicit_bzero(http->url, sizeof http->url);
    free(http);
}

static bool add_header(struct http *http, const char *name, const char *value) {
    const struct http_library *curl = http_library();
    struct sonde_buf line = {0};
    sonde_buf_printf(&line, "%s:%s%s", name, *value ? " " : "", value);
    struct curl_slist *longer = line.failed ? NULL : curl->slist_append(http->headers, line.data);
    if (line.data)
        explicit_bzero(line.data, line.len);
    sonde_buf_finish(&line);
    if (longer)
        http->headers = longer;
    return longer != NULL;
}

/* "Expect:" saves a round trip. */
static bool add_headers(struct http *http, const struct transport_options *options) {
    bool is_fine = add_header(http, "expect", "") &&
                   add_header(http, "content-type", options->content_type) &&
                   add_header(http, "user-agent", "sonded/" SONDE_VERSION);
    for (size_t i = 0; i < options->headers->count && is_fine; i++)
        is_fine =
            add_header(http, options->headers->items[i].name, options->headers->items[i].value);
    return is_fine;
}

static bool set_file(char **copy, const char *path) {
    *copy = path ? strdup(path) : NULL;
    return !path || *copy;
}

/* libcurl reports a missing file only when it connects. */
static sonde_err check_files(const struct transport_options *options, struct sonde_diag *diag) {
    const char *const files[] = {options->ca_file, options->cert_file, options->key_file};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (files[i] && access(files[i], R_OK) != 0)
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%.200s cannot be read", files[i]);
    if ((options->cert_file == NULL) != (options->key_file == NULL))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "a client certificate needs its key, and a key its certificate");
    return SONDE_OK;
}

sonde_err http_transport_create(const struct transport_options *options, struct transport **created,
                                struct sonde_diag *diag) {
    static const struct transport_ops ops = {send_request, cancel, destroy};
    const struct http_library *curl = http_library();
    *created = NULL;
    if (!curl)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "sending over HTTP needs libcurl.so.4: apt-get install libcurl4");
    sonde_err err = check_files(options, diag);
    if (err)
        return err;
    struct http *http = calloc(1, sizeof *http);
    if (!http)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    http->transport.ops = &ops;
    memcpy(http->url, options->address->url, sizeof http->url);
    memcpy(http->host, options->address->host, sizeof http->host);
    http->handle = curl->init();
    if (!http->handle || !add_headers(http, options) ||
        !set_file(&http->ca_file, options->ca_file) ||
        !set_file(&http->cert_file, options->cert_file) ||
        !set_file(&http->key_file, options->key_file)) {
        destroy(&http->transport);
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    }
    *created = &http->transport;
    return SONDE_OK;
}
