/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/secrets/ca_bundle.h"
#include "api/text/unreached.h"
#include "clients/collect/discovery/source.h"

#include <curl/curl.h>
#include <pthread.h>
#include <string.h>

struct download {
    struct sonde_buf body;
    const atomic_bool *is_stopping;
    char error[CURL_ERROR_SIZE];
};

static size_t on_body(char *data, size_t size, size_t count, void *context) {
    struct download *download = context;
    sonde_buf_append(&download->body, data, size * count);
    return download->body.failed ? 0 : size * count;
}

static int on_progress(void *context, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                       curl_off_t up) {
    const struct download *download = context;
    return atomic_load(download->is_stopping);
}

static void init_library(void) {
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool set_up(CURL *curl, const struct source_spec *spec, struct download *download) {
    bool is_https = strncmp(spec->text, "https:", 6) == 0;
    const char *ca = sonde_ca_bundle();
    bool is_good = true;
    is_good &= !curl_easy_setopt(curl, CURLOPT_URL, spec->text);
    is_good &= !curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    is_good &=
        !curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, is_https ? "https" : "http,https");
    is_good &= !curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    is_good &= !curl_easy_setopt(curl, CURLOPT_MAXREDIRS, (long)SOURCE_HTTP_REDIRECTS);
    is_good &= !curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)SOURCE_HTTP_S);
    is_good &= !curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    is_good &= !curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    is_good &= !curl_easy_setopt(curl, CURLOPT_USERAGENT, "sonde-collect");
    is_good &= !curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, download->error);
    is_good &= !curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    is_good &= !curl_easy_setopt(curl, CURLOPT_WRITEDATA, download);
    is_good &= !curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    is_good &= !curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    is_good &= !curl_easy_setopt(curl, CURLOPT_XFERINFODATA, download);
    if (ca)
        is_good &= !curl_easy_setopt(curl, CURLOPT_CAINFO, ca);
    return is_good;
}

/* How far a request came that was not answered. */
static enum unreached failure_of(CURL *curl, CURLcode code) {
    curl_off_t looked_up_us = 0, connected_us = 0;
    curl_easy_getinfo(curl, CURLINFO_NAMELOOKUP_TIME_T, &looked_up_us);
    curl_easy_getinfo(curl, CURLINFO_CONNECT_TIME_T, &connected_us);
    if (code == CURLE_COULDNT_RESOLVE_HOST)
        return UNREACHED_NO_ADDRESS;
    if (code == CURLE_COULDNT_CONNECT)
        return UNREACHED_REFUSED;
    if (code == CURLE_SSL_CONNECT_ERROR || code == CURLE_PEER_FAILED_VERIFICATION)
        return UNREACHED_CERTIFICATE;
    if (code != CURLE_OPERATION_TIMEDOUT)
        return UNREACHED_BROKEN;
    return looked_up_us == 0 ? UNREACHED_NO_RESOLVER
           : connected_us    ? UNREACHED_NO_ANSWER
                             : UNREACHED_SILENT;
}

/* An HTTP status, or a URL that cannot be asked, has libcurl's text, which says which. */
static sonde_err refuse(const struct source_spec *spec, CURLcode code, enum unreached failure,
                        const struct download *download, struct sonde_diag *diag) {
    char text[sizeof diag->text];
    bool has_reason = code == CURLE_HTTP_RETURNED_ERROR || code == CURLE_UNSUPPORTED_PROTOCOL ||
                      code == CURLE_TOO_MANY_REDIRECTS || code == CURLE_URL_MALFORMAT;
    if (has_reason)
        return sonde_fail(diag, SONDE_UNAVAILABLE, "%.150s: %.150s", spec->name + 5,
                          *download->error ? download->error : curl_easy_strerror(code));
    return sonde_fail(diag, SONDE_UNAVAILABLE, "%s",
                      unreached_text(failure, spec->name + 5, text, sizeof text));
}

static sonde_err transfer(const struct source_spec *spec, struct download *download,
                          struct sonde_diag *diag) {
    CURL *curl = curl_easy_init();
    struct curl_slist *headers =
        curl_slist_append(NULL, "X-Prometheus-Refresh-Interval-Seconds: 30");
    if (!curl || !headers || !set_up(curl, spec, download) ||
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers)) {
        curl_slist_free_all(headers);
        curl_easy_cleanup(curl);
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "not enough memory for a request");
    }
    CURLcode code = curl_easy_perform(curl);
    enum unreached failure = failure_of(curl, code);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    if (download->body.failed)
        return sonde_fail(diag, SONDE_TOO_LARGE,
                          "%.200s: the answer has more than 8 MiB; split the list", spec->name + 5);
    if (code)
        return refuse(spec, code, failure, download, diag);
    return SONDE_OK;
}

sonde_err source_read_http(const struct source_spec *spec, const atomic_bool *is_stopping,
                           struct host_list **list, struct sonde_diag *diag) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct download download = {.body.limit = SOURCE_MAX_HTTP_BYTES, .is_stopping = is_stopping};
    pthread_once(&once, init_library);
    *list = NULL;
    sonde_err err = transfer(spec, &download, diag);
    if (!err && !(*list = host_list_create(spec->name)))
        err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "not enough memory for %.200s", spec->name + 5);
    if (!err)
        err =
            host_list_read_json(*list, spec->name + 5, download.body.data ? download.body.data : "",
                                download.body.len, diag);
    if (err) {
        host_list_destroy(*list);
        *list = NULL;
    }
    sonde_buf_finish(&download.body);
    return err;
}
