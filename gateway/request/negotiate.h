/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the format of an answer by the client's headers. Accept and Accept-Encoding are parsed
 * according to RFC 9110. A malformed element, one with q=0 and a wildcard name nothing; other
 * weights are ignored. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_NEGOTIATE_H
#define SONDE_GATEWAY_REQUEST_NEGOTIATE_H

#include "api/bytes.h"

/* data NULL = the header was not sent. Repeated headers are joined by ", ". */
struct negotiate_headers {
    struct sonde_slice accept, accept_encoding, content_type, user_agent;
};

enum negotiate_shape {
    NEGOTIATE_PROTO,          /* pprof */
    NEGOTIATE_SVG_INLINE,     /* for browsers */
    NEGOTIATE_SVG_ATTACHMENT, /* for other clients */
};

/* The format of a CPU or allocation profile without `output=`. */
enum negotiate_shape negotiate_profile(const struct negotiate_headers *headers);
/* Whether Accept names text/html or image/svg+xml. */
bool negotiate_is_browser(const struct negotiate_headers *headers);
/* Whether there is no Accept header: Go's tools, and the scrapers of Parca and Grafana Alloy, which
 * do not send Accept-Encoding either. curl, wget and browsers send one. */
bool negotiate_reads_pprof(const struct negotiate_headers *headers);
/* Whether a heap profile without `output=` is pprof: Accept names a protobuf type, or there is no
 * Accept. application/octet-stream does not count, because jemalloc dumps also have that type. */
bool negotiate_heap_is_pprof(const struct negotiate_headers *headers);
/* Whether Accept names text/html. */
bool negotiate_wants_html(const struct negotiate_headers *headers);

bool negotiate_names_type(struct sonde_slice accept, const char *type);
bool negotiate_lists_coding(struct sonde_slice accept_encoding, const char *coding);
/* Whether a Content-Type has that media type, ignoring case and parameters. */
bool negotiate_type_is(struct sonde_slice content_type, const char *type);

#endif
