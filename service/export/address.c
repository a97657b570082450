/* SPDX-License-Identifier: Apache-2.0 */
#include "service/export/address.h"

#include "api/os/secrets/secret_file.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define MAX_FILE (64u << 10)

static const char otlp_path[] = "/v1development/profiles";
static const char push_path[] = "/push.v1.PusherService/Push";

static const struct scheme {
    const char *name;
    bool is_grpc, is_tls;
} schemes[] = {
    {"http://", false, false},
    {"https://", false, true},
    {"grpc://", true, false},
    {"grpcs://", true, true},
};

static sonde_err malformed(const char *option, enum export_path path, const char *what,
                           struct sonde_diag *diag) {
    const char *form = path == EXPORT_PATH_DEFAULT
                           ? "http[s]://HOST[:PORT][/PATH] or grpc[s]://HOST:PORT"
                           : "http[s]://HOST[:PORT][/PATH]";
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s: %s; write %s", option, what, form);
}

static const struct scheme *find_scheme(const char *url, enum export_path path) {
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (strncmp(url, schemes[i].name, strlen(schemes[i].name)) == 0 &&
            (path == EXPORT_PATH_DEFAULT || !schemes[i].is_grpc))
            return &schemes[i];
    return NULL;
}

static bool is_clean(const char *url) {
    for (; *url; url++)
        if ((unsigned char)*url <= ' ' || (unsigned char)*url >= 0x7f || strchr("#\"<>\\", *url))
            return false;
    return true;
}

/* "[::1]" and "host"; with ":PORT" behind it, if any. */
static bool is_host(const char *host, size_t len, bool *has_port) {
    const char *end = host + len, *port = NULL;
    size_t name_len = len;
    if (len > 0 && host[0] == '[') {
        const char *close = memchr(host, ']', len);
        if (!close)
            return false;
        name_len = (size_t)(close + 1 - host);
        port = close + 1 < end ? close + 1 : NULL;
    } else {
        port = memchr(host, ':', len);
        name_len = port ? (size_t)(port - host) : len;
    }
    *has_port = port != NULL;
    if (name_len == 0 || (port && (*port != ':' || port + 1 == end || end - port > 6)))
        return false;
    for (const char *at = port ? port + 1 : end; at < end; at++)
        if (!isdigit((unsigned char)*at))
            return false;
    return true;
}

static void put_url(struct export_address *address, const char *url, size_t base_len,
                    const char *rest, enum export_path path) {
    size_t rest_len = strlen(rest);
    while (path == EXPORT_PATH_APPENDED && rest_len > 0 && rest[rest_len - 1] == '/')
        rest_len--;
    if (path == EXPORT_PATH_DEFAULT && strcmp(rest, "/") == 0)
        rest_len = 0;
    const char *last = path == EXPORT_PATH_APPENDED                   ? push_path
                       : path == EXPORT_PATH_DEFAULT && rest_len == 0 ? otlp_path
                                                                      : "";
    snprintf(address->url, sizeof address->url, "%.*s%.*s%s", (int)base_len, url, (int)rest_len,
             rest, last);
}

sonde_err address_read(const char *option, const char *url, enum export_path path,
                       struct export_address *address, struct sonde_diag *diag) {
    const struct scheme *scheme = find_scheme(url, path);
    bool has_port;
    if (!scheme)
        return malformed(option, path, "the URL has an unknown scheme", diag);
    if (strlen(url) > ADDRESS_MAX_URL || !is_clean(url))
        return malformed(option, path, "the URL is too long or has characters that must be encoded",
                         diag);
    const char *authority = url + strlen(scheme->name);
    const char *rest = authority + strcspn(authority, "/?");
    const char *host = authority;
    for (const char *at = authority; at < rest; at++)
        host = *at == '@' ? at + 1 : host;
    size_t len = (size_t)(rest - host);
    if (len > sizeof address->host - 8 || !is_host(host, len, &has_port))
        return malformed(option, path, "the URL has no valid host or port", diag);
    if (strchr(rest, '?') && path == EXPORT_PATH_APPENDED)
        return malformed(option, path, "the URL may not have a query", diag);
    if (scheme->is_grpc && (host != authority || (*rest && strcmp(rest, "/") != 0)))
        return malformed(option, path, "a gRPC URL has neither a user nor a path", diag);
    *address = (struct export_address){.is_grpc = scheme->is_grpc, .is_tls = scheme->is_tls};
    snprintf(address->host, sizeof address->host, "%.*s%s", (int)len, host,
             scheme->is_grpc && !has_port ? ":4317" : "");
    snprintf(address->shown, sizeof address->shown, "%s%s", scheme->name, address->host);
    put_url(address, url, (size_t)(rest - url), rest, path);
    return SONDE_OK;
}

/* ---- Headers ---- */

/* What the protocols set themselves. */
static const char *const reserved[] = {"content-type", "content-length", "transfer-encoding",
                                       "te",           "host",           "connection"};

static bool is_name(const char *name, size_t len) {
    if (len == 0 || len > 256)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] >= 0x80 ||
            (!isalnum((unsigned char)name[i]) && !strchr("-_.", name[i])))
            return false;
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (strlen(reserved[i]) == len && strncasecmp(reserved[i], name, len) == 0)
            return false;
    return true;
}

static bool is_value(const char *value, size_t len) {
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)value[i] < ' ' || (unsigned char)value[i] >= 0x7f)
            return false;
    return len > 0;
}

sonde_err headers_add(const char *option, const char *line, size_t len,
                      struct export_headers *headers, struct sonde_diag *diag) {
    const char *colon = memchr(line, ':', len), *value = colon ? colon + 1 : NULL;
    size_t name_len = colon ? (size_t)(colon - line) : 0;
    size_t value_len = colon ? len - name_len - 1 : 0;
    while (value_len > 0 && (*value == ' ' || *value == '\t'))
        value++, value_len--;
    while (value_len > 0 && isspace((unsigned char)value[value_len - 1]))
        value_len--;
    if (!colon || len > ADDRESS_MAX_HEADER || !is_name(line, name_len) ||
        !is_value(value, value_len))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%s: write \"Name: value\" with a name of letters, digits and -_. that "
                          "the protocol does not set itself, and a value of at most %d bytes",
                          option, ADDRESS_MAX_HEADER);
    if (headers->count == ADDRESS_MAX_HEADERS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s: at most %d headers", option,
                          ADDRESS_MAX_HEADERS);
    char *name = sonde_arena_dup(&headers->arena, line, name_len);
    char *copy = sonde_arena_dup(&headers->arena, value, value_len);
    if (!name || !copy)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    for (char *at = name; *at; at++) /* gRPC wants lower case, and HTTP does not care */
        *at = (char)tolower((unsigned char)*at);
    headers->items[headers->count++] = (struct export_header){name, copy};
    return SONDE_OK;
}

sonde_err headers_add_file(const char *option, const char *path, struct export_headers *headers,
                           struct sonde_diag *diag) {
    struct sonde_buf text = {.limit = MAX_FILE};
    sonde_err err = sonde_file_read(path, "header file", SONDE_FILE_SECRET, &text, diag);
    for (char *line = text.data; !err && line && line < text.data + text.len;) {
        size_t len = strcspn(line, "\n"), skip = len;
        while (len > 0 && isspace((unsigned char)line[len - 1]))
            len--;
        if (len > 0 && line[0] != '#')
            err = headers_add(option, line, len, headers, diag);
        line += skip + 1;
    }
    if (text.data)
        explicit_bzero(text.data, text.len);
    sonde_buf_finish(&text);
    return err;
}

void headers_finish(struct export_headers *headers) {
    for (size_t i = 0; i < headers->count; i++)
        explicit_bzero((char *)headers->items[i].value, strlen(headers->items[i].value));
    sonde_arena_finish(&headers->arena);
    *headers = (struct export_headers){0};
}
