/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/symbol_body.h"

#include "api/text/utf8.h"
#include "gateway/request/query.h"

#include <string.h>

static bool is_blank(char byte) {
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

static struct sonde_slice trim(struct sonde_slice text) {
    while (text.len && is_blank(text.data[0]))
        text.data++, text.len--;
    while (text.len && is_blank(text.data[text.len - 1]))
        text.len--;
    return text;
}

bool symbol_body_next(struct sonde_slice *body, uint64_t *address) {
    while (body->len) {
        const char *plus = memchr(body->data, '+', body->len);
        size_t len = plus ? (size_t)(plus - body->data) : body->len;
        struct sonde_slice token = trim((struct sonde_slice){body->data, len});
        size_t used = len + (plus != NULL);
        body->data += used;
        body->len -= used;
        if (query_hex(token, address) && *address)
            return true;
    }
    return false;
}

/* Number of bytes that can be copied: up to a control character or the second '-' of "--". */
static size_t plain_len(const char *name) {
    size_t len = 0, whole = strlen(name), step;
    while (len < whole && (step = sonde_utf8_printable(name + len, whole - len)) &&
           !(len > 0 && name[len] == '-' && name[len - 1] == '-'))
        len += step;
    return len;
}

void symbol_body_append_name(struct sonde_buf *out, const char *name) {
    while (*name) {
        size_t len = plain_len(name);
        sonde_buf_append(out, name, len);
        name += len;
        if (len == 0)
            name++; /* a control character */
        if (len == 0 || *name == '-')
            sonde_buf_putc(out, ' ');
    }
}
