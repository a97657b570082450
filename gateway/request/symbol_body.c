/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/symbol_body.h"

#include "api/text/utf8.h"

#include <string.h>

#define MAX_DIGITS 16

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

static bool read_address(struct sonde_slice token, uint64_t *address) {
    if (token.len >= 2 && token.data[0] == '0' && (token.data[1] | 0x20) == 'x')
        token.data += 2, token.len -= 2;
    while (token.len && token.data[0] == '0')
        token.data++, token.len--;
    if (token.len == 0 || token.len > MAX_DIGITS)
        return false;
    *address = 0;
    for (size_t i = 0; i < token.len; i++) {
        char digit = token.data[i];
        char lower = (char)(digit | 0x20);
        if (digit >= '0' && digit <= '9')
            *address = *address << 4 | (uint64_t)(digit - '0');
        else if (lower >= 'a' && lower <= 'f')
            *address = *address << 4 | (uint64_t)(lower - 'a' + 10);
        else
            return false;
    }
    return true;
}

bool symbol_body_next(struct sonde_slice *body, uint64_t *address) {
    while (body->len) {
        const char *plus = memchr(body->data, '+', body->len);
        size_t len = plus ? (size_t)(plus - body->data) : body->len;
        struct sonde_slice token = trim((struct sonde_slice){body->data, len});
        size_t used = len + (plus != NULL);
        body->data += used;
        body->len -= used;
        if (read_address(token, address))
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
