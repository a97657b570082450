/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client wants, read from its headers: pure functions over the header texts, tested as
 * tables. Accept and Accept-Encoding are parsed as RFC 9110 says; an element that is malformed
 * names nothing, and neither does one with q=0 or a wildcard. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_NEGOTIATE_H
#define SONDE_GATEWAY_REQUEST_NEGOTIATE_H

#include "api/bytes.h"

/* data NULL = the header was not sent; several of one name joined by ", ". */
struct negotiate_headers {
    struct sonde_slice accept, accept_encoding, content_type, user_agent;
};

enum negotiate_shape {
    NEGOTIATE_PROTO,          /* pprof */
    NEGOTIATE_SVG_INLINE,     /* a browser that shows it */
    NEGOTIATE_SVG_ATTACHMENT, /* everybody else */
};

/* The documented order for CPU and allocation profiles; `output=` was looked at before. */
enum negotiate_shape negotiate_profile(const struct negotiate_headers *headers);
/* Whether the client shows pictures: Accept names text/html or image/svg+xml. */
bool negotiate_is_browser(const struct negotiate_headers *headers);
/* A Go client: no Accept, and gzip in Accept-Encoding or Go's own User-Agent. */
bool negotiate_is_go(const struct negotiate_headers *headers);
/* Heap profiles: a type of protobuf is named (octet-stream is not one: raw dumps are that too), or
 * it is a Go client. */
bool negotiate_heap_is_pprof(const struct negotiate_headers *headers);
/* text/html is named. */
bool negotiate_wants_html(const struct negotiate_headers *headers);

bool negotiate_names_type(struct sonde_slice accept, const char *type);
bool negotiate_lists_coding(struct sonde_slice accept_encoding, const char *coding);
/* The media type of a Content-Type, without regard to case and parameters. */
bool negotiate_type_is(struct sonde_slice content_type, const char *type);

#endif
