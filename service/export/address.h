/* SPDX-License-Identifier: Apache-2.0
 *
 * A receiver's URL, and the headers that are sent to it. Neither appears in full in logs or errors,
 * because both may have passwords. Thread safety: any thread. */
#ifndef SONDE_SERVICE_EXPORT_ADDRESS_H
#define SONDE_SERVICE_EXPORT_ADDRESS_H

#include "api/bytes.h"
#include "api/error.h"

#define ADDRESS_MAX_URL     1024
#define ADDRESS_MAX_HEADERS 32
#define ADDRESS_MAX_HEADER  4096 /* bytes of one header */

struct export_address {
    bool is_grpc, is_tls;
    char url[ADDRESS_MAX_URL + 64]; /* HTTP: with the path */
    char host[300];                 /* HOST:PORT; of HTTP, as in the URL */
    char shown[320];                /* "https://HOST:PORT", for people */
};

enum export_path {
    EXPORT_PATH_DEFAULT,  /* of OTLP, unless the URL has a path: "/v1development/profiles" */
    EXPORT_PATH_APPENDED, /* of Pyroscope, always appended: "/push.v1.PusherService/Push" */
    EXPORT_PATH_GIVEN,    /* of a webhook: that of the URL, with its query */
};

/* option: "--otlp", for errors. gRPC is allowed with EXPORT_PATH_DEFAULT only.
 * SONDE_INVALID_ARGUMENT. */
SONDE_MUST_USE sonde_err address_read(const char *option, const char *url, enum export_path path,
                                      struct export_address *address, struct sonde_diag *diag);

struct export_header {
    const char *name, *value;
};

struct export_headers {
    struct export_header items[ADDRESS_MAX_HEADERS];
    size_t count;
    struct sonde_arena arena;
};

/* Adds "Name: value". The error does not quote the value. SONDE_INVALID_ARGUMENT,
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err headers_add(const char *option, const char *line, size_t len,
                                     struct export_headers *headers, struct sonde_diag *diag);
/* Adds the lines of a file that others cannot read; empty ones and those that begin with '#' are
 * skipped. Errors also: SONDE_IO, SONDE_PERMISSION_DENIED, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err headers_add_file(const char *option, const char *path,
                                          struct export_headers *headers, struct sonde_diag *diag);
void headers_finish(struct export_headers *headers);

#endif
