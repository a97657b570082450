/* SPDX-License-Identifier: Apache-2.0 */
#include "service/export/export.h"

#include "api/base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct exporter {
    struct sender *senders[EXPORT_MAX_DESTINATIONS];
    size_t count;
};

static const struct kind {
    size_t settings; /* offset in the options */
    const char *option, *header_option, *file_option;
    enum export_path path;
    const struct export_protocol *protocol;
} kinds[EXPORT_MAX_DESTINATIONS] = {
    {offsetof(struct export_options, otlp), "--otlp", "--otlp-header", "--otlp-header-file",
     EXPORT_PATH_DEFAULT, &otlp_protocol},
    {offsetof(struct export_options, pyroscope), "--pyroscope", "--pyroscope-header",
     "--pyroscope-header-file", EXPORT_PATH_APPENDED, &pyroscope_protocol},
};

static const struct export_settings *settings_of(const struct export_options *options,
                                                 const struct kind *kind) {
    return (const void *)((const char *)options + kind->settings);
}

static sonde_err read_headers(const struct export_settings *settings, const struct kind *kind,
                              struct export_headers *headers, struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < settings->headers.count && !err; i++) {
        struct sonde_slice line = sonde_slice_of(settings->headers.items[i]);
        err = headers_add(kind->header_option, line.data, line.len, headers, diag);
    }
    if (!err && settings->header_file)
        err = headers_add_file(kind->file_option, settings->header_file, headers, diag);
    return err;
}

static sonde_err create_transport(const struct export_settings *settings, const struct kind *kind,
                                  const struct export_address *address,
                                  void (*log)(const char *line), struct transport **transport,
                                  struct sonde_diag *diag) {
    struct export_headers headers = {0};
    struct transport_options options = {.address = address,
                                        .headers = &headers,
                                        .content_type = kind->protocol->content_type,
                                        .ca_file = settings->ca_file,
                                        .cert_file = settings->cert_file,
                                        .key_file = settings->key_file,
                                        .log = log};
    sonde_err err = read_headers(settings, kind, &headers, diag);
    if (!err)
        err = address->is_grpc ? grpc_transport_create(&options, transport, diag)
                               : http_transport_create(&options, transport, diag);
    headers_finish(&headers);
    return err;
}

/* Settings of a destination that is not named are a mistake. */
static sonde_err check_unused(const struct export_settings *settings, const struct kind *kind,
                              struct sonde_diag *diag) {
    bool is_set = settings->headers.count || settings->header_file || settings->ca_file ||
                  settings->cert_file || settings->key_file;
    if (!is_set)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "there are settings for %s, but no receiver: add %s URL",
                      kind->protocol->name, kind->option);
}

static sonde_err add_sender(struct exporter *exporter, const struct export_options *options,
                            const struct kind *kind, struct sonde_diag *diag) {
    const struct export_settings *settings = settings_of(options, kind);
    struct export_address address;
    char host[256] = "";
    if (!settings->url)
        return check_unused(settings, kind, diag);
    gethostname(host, sizeof host - 1);
    struct sender_options sender = {.protocol = kind->protocol,
                                    .shown = address.shown,
                                    .host = host,
                                    .queue_bytes = options->queue_mib << 20,
                                    .retry_ms = options->retry_ms,
                                    .deadline_ms = options->deadline_ms,
                                    .log = options->log};
    sonde_err err = address_read(kind->option, settings->url, kind->path, &address, diag);
    if (!err)
        err = create_transport(settings, kind, &address, options->log, &sender.transport, diag);
    if (!err)
        err = sender_create(&sender, &exporter->senders[exporter->count], diag);
    exporter->count += !err;
    return err;
}

sonde_err export_create(const struct export_options *options, struct exporter **created,
                        struct sonde_diag *diag) {
    struct exporter *exporter = calloc(1, sizeof *exporter);
    sonde_err err = exporter ? SONDE_OK : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    *created = NULL;
    for (size_t i = 0; i < EXPORT_MAX_DESTINATIONS && !err; i++)
        err = add_sender(exporter, options, &kinds[i], diag);
    if (err || exporter->count == 0)
        export_destroy(exporter);
    else
        *created = exporter;
    return err;
}

void export_record(struct exporter *exporter, const struct record *record) {
    for (size_t i = 0; i < exporter->count; i++) {
        struct record shared = *record;
        shared.profile = sonde_profile_share(record->profile);
        sender_add(exporter->senders[i], &shared);
    }
}

size_t export_states(struct exporter *exporter,
                     struct sender_state states[EXPORT_MAX_DESTINATIONS]) {
    for (size_t i = 0; i < exporter->count; i++)
        sender_state(exporter->senders[i], &states[i]);
    return exporter->count;
}

/* They stop one after the other, but share the time: while one is awaited, the other sends. */
void export_stop(struct exporter *exporter) {
    if (!exporter)
        return;
    int64_t until_ns = clock_ns(CLOCK_MONOTONIC) + EXPORT_STOP_MS * INT64_C(1000000);
    for (size_t i = 0; i < exporter->count; i++)
        sender_stop(exporter->senders[i], until_ns);
}

void export_destroy(struct exporter *exporter) {
    for (size_t i = 0; exporter && i < exporter->count; i++)
        sender_destroy(exporter->senders[i]);
    free(exporter);
}
