/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/credentials.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#define PREFIX_LEN (sizeof CREDENTIALS_PREFIX - 1)

/* Moves past a scheme and the spaces after it. */
static bool skip_scheme(struct sonde_slice *header, const char *scheme) {
    size_t len = strlen(scheme);
    if (header->len <= len || strncasecmp(header->data, scheme, len) != 0 ||
        header->data[len] != ' ')
        return false;
    while (len < header->len && header->data[len] == ' ')
        len++;
    header->data += len;
    header->len -= len;
    return true;
}

static int digit_of(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = c ? strchr(digits, c) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* Decodes base64 until its padding. Returns the number of bytes, or -1 if it has another character
 * or does not fit. */
static int decode(struct sonde_slice text, char *out, size_t size) {
    uint32_t bits = 0;
    size_t len = 0;
    unsigned count = 0;
    while (text.len > 0 && text.data[text.len - 1] == '=')
        text.len--;
    for (size_t i = 0; i < text.len; i++) {
        int digit = digit_of(text.data[i]);
        if (digit < 0 || len == size)
            return -1;
        bits = bits << 6 | (uint32_t)digit;
        count += 6;
        if (count >= 8) {
            count -= 8;
            out[len++] = (char)(bits >> count & 0xff);
        }
    }
    return (int)len;
}

/* Sets the part of "NAME:PASSWORD" that is the token. */
static struct sonde_slice token_of(const char *pair, size_t len) {
    const char *colon = memchr(pair, ':', len);
    size_t name_len = colon ? (size_t)(colon - pair) : len;
    if (name_len + 1 < len)
        return (struct sonde_slice){colon + 1, len - name_len - 1};
    return (struct sonde_slice){pair, name_len};
}

bool credentials_read(struct sonde_slice authorization, char bearer[CREDENTIALS_SIZE]) {
    char pair[CREDENTIALS_SIZE - PREFIX_LEN - 1];
    struct sonde_slice token = authorization;
    if (!authorization.data)
        return false;
    if (!skip_scheme(&token, "bearer")) {
        int len = skip_scheme(&token, "basic") ? decode(token, pair, sizeof pair) : -1;
        if (len < 0)
            return false;
        token = token_of(pair, (size_t)len);
    }
    if (token.len == 0 || token.len > sizeof pair)
        return false;
    for (size_t i = 0; i < token.len; i++)
        if (token.data[i] <= ' ' || token.data[i] >= 0x7f)
            return false;
    memcpy(bearer, CREDENTIALS_PREFIX, PREFIX_LEN);
    memcpy(bearer + PREFIX_LEN, token.data, token.len);
    bearer[PREFIX_LEN + token.len] = 0;
    return true;
}

bool credentials_are_basic(struct sonde_slice authorization) {
    return authorization.data && skip_scheme(&authorization, "basic");
}
