/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocols that recorded profiles are sent in: how a record becomes the bytes of a request.
 *
 * Thread safety: any thread. */
#ifndef SONDE_SERVICE_EXPORT_PROTOCOL_H
#define SONDE_SERVICE_EXPORT_PROTOCOL_H

#include "service/engine/record/record.h"

/* A little less than the 4 MiB that gRPC receivers and Pyroscope accept by default. */
#define PROTOCOL_MAX_BYTES (4000u << 10)

struct export_protocol {
    const char *name;              /* "otlp", of the settings and of the metrics' label */
    const char *content_type;      /* HTTP */
    size_t max_bytes, max_samples; /* of a request; a larger record is halved */
    /* Appends the request. host: this machine's name. SONDE_OUT_OF_MEMORY; those of writing a pprof
     * file. */
    sonde_err (*encode)(const struct record *record, const char *host, struct sonde_buf *out);
};

extern const struct export_protocol otlp_protocol, pyroscope_protocol;

#endif
