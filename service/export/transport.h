/* SPDX-License-Identifier: Apache-2.0
 *
 * How requests reach a receiver: over HTTP (http.c) or gRPC (grpc.c).
 *
 * Thread safety: one thread sends; cancel from any thread. */
#ifndef SONDE_SERVICE_EXPORT_TRANSPORT_H
#define SONDE_SERVICE_EXPORT_TRANSPORT_H

#include "service/export/address.h"
#include "service/export/answer.h"

#define TRANSPORT_CONNECT_MS 5000u

struct transport {
    const struct transport_ops *ops;
};

struct transport_ops {
    /* Fills the answer within deadline_ms. */
    void (*send)(struct transport *transport, struct sonde_slice request, uint32_t deadline_ms,
                 struct export_answer *answer);
    /* Ends a running send and all later ones with EXPORT_RETRY. */
    void (*cancel)(struct transport *transport);
    void (*destroy)(struct transport *transport);
};

struct transport_options {
    const struct export_address *address;
    const struct export_headers *headers;
    const char *content_type;                   /* HTTP */
    const char *ca_file, *cert_file, *key_file; /* NULL = the system's CAs, no certificate */
    void (*log)(const char *line);              /* about files that have changed; may be NULL */
};

/* Copies what it needs. SONDE_INVALID_ARGUMENT, SONDE_IO, SONDE_OUT_OF_MEMORY;
 * SONDE_NOT_AVAILABLE: there is no libcurl. */
SONDE_MUST_USE sonde_err http_transport_create(const struct transport_options *options,
                                               struct transport **transport,
                                               struct sonde_diag *diag);
SONDE_MUST_USE sonde_err grpc_transport_create(const struct transport_options *options,
                                               struct transport **transport,
                                               struct sonde_diag *diag);

#endif
