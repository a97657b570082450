/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits a list header at commas and each element at semicolons, except inside quoted strings. An
 * element is a name with parameters, of which only a weight of zero matters. */
#include "gateway/request/negotiate.h"

#include <string.h>
#include <strings.h>

static bool is_blank(char byte) {
    return byte == ' ' || byte == '\t';
}

static struct sonde_slice trim(struct sonde_slice text) {
    while (text.len && is_blank(text.data[0]))
        text.data++, text.len--;
    while (text.len && is_blank(text.data[text.len - 1]))
        text.len--;
    return text;
}

static bool equals(struct sonde_slice text, const char *word) {
    return strlen(word) == text.len && strncasecmp(text.data, word, text.len) == 0;
}

/* Removes the text up to `separator` from the front of rest and returns it. */
static struct sonde_slice next_piece(struct sonde_slice *rest, char separator) {
    bool quoted = false;
    size_t at = 0;
    for (; at < rest->len && (quoted || rest->data[at] != separator); at++) {
        if (quoted && rest->data[at] == '\\')
            at += at + 1 < rest->len;
        else if (rest->data[at] == '"')
            quoted = !quoted;
    }
    struct sonde_slice piece = {rest->data, at};
    size_t used = at + (at < rest->len);
    rest->data += used;
    rest->len -= used;
    return trim(piece);
}

/* "0", "0.", "0.000". A malformed weight counts as nonzero. */
static bool is_zero(struct sonde_slice weight) {
    if (weight.len == 0 || weight.data[0] != '0')
        return false;
    for (size_t i = 1; i < weight.len; i++)
        if (weight.data[i] != (i == 1 ? '.' : '0'))
            return false;
    return true;
}

static bool is_refused(struct sonde_slice parameters) {
    while (parameters.len) {
        struct sonde_slice parameter = next_piece(&parameters, ';');
        struct sonde_slice value = parameter;
        struct sonde_slice name = next_piece(&value, '=');
        if (equals(name, "q"))
            return is_zero(value);
    }
    return false;
}

static bool names(struct sonde_slice list, const char *word) {
    while (list.len) {
        struct sonde_slice element = next_piece(&list, ',');
        struct sonde_slice parameters = element;
        struct sonde_slice name = next_piece(&parameters, ';');
        if (equals(name, word) && !is_refused(parameters))
            return true;
    }
    return false;
}

bool negotiate_names_type(struct sonde_slice accept, const char *type) {
    return names(accept, type);
}

bool negotiate_lists_coding(struct sonde_slice accept_encoding, const char *coding) {
    return names(accept_encoding, coding);
}

bool negotiate_type_is(struct sonde_slice content_type, const char *type) {
    return equals(next_piece(&content_type, ';'), type);
}

bool negotiate_is_browser(const struct negotiate_headers *headers) {
    return names(headers->accept, "text/html") || names(headers->accept, "image/svg+xml");
}

bool negotiate_wants_html(const struct negotiate_headers *headers) {
    return names(headers->accept, "text/html");
}

bool negotiate_reads_pprof(const struct negotiate_headers *headers) {
    return !headers->accept.data;
}

static bool names_proto(struct sonde_slice accept) {
    static const char *const types[] = {"application/protobuf", "application/x-protobuf",
                                        "application/vnd.google.protobuf"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (names(accept, types[i]))
            return true;
    return false;
}

enum negotiate_shape negotiate_profile(const struct negotiate_headers *headers) {
    if (headers->content_type.data &&
        negotiate_type_is(headers->content_type, "application/protobuf"))
        return NEGOTIATE_PROTO;
    if (names_proto(headers->accept) || names(headers->accept, "application/octet-stream"))
        return NEGOTIATE_PROTO;
    if (negotiate_is_browser(headers))
        return NEGOTIATE_SVG_INLINE;
    return negotiate_reads_pprof(headers) ? NEGOTIATE_PROTO : NEGOTIATE_SVG_ATTACHMENT;
}

bool negotiate_heap_is_pprof(const struct negotiate_headers *headers) {
    return names_proto(headers->accept) || negotiate_reads_pprof(headers);
}
