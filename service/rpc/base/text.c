/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/base/text.h"

#include "api/text/utf8.h"

#include <stdio.h>
#include <string.h>

#define MAX_CHARACTER 4 /* bytes of UTF-8 */

/* Length of the first character of text, which is not empty; 0 when it is not UTF-8. */
static size_t character(const char *text) {
    uint32_t unused;
    return sonde_utf8_next(text, strnlen(text, MAX_CHARACTER), &unused);
}

void rpc_text_copy(char *out, size_t size, const char *text) {
    size_t at = 0;
    for (size_t len; *text; text += len ? len : 1) {
        len = character(text);
        if (at + (len ? len : 4) >= size)
            break;
        if (len)
            memcpy(out + at, text, len);
        else
            snprintf(out + at, 5, "\\x%02x", (unsigned char)*text);
        at += len ? len : 4;
    }
    out[at] = 0;
}

/* Most names are ASCII; this checks eight bytes at a time. */
static bool is_ascii(const char *text, size_t len) {
    uint64_t word, high = 0;
    size_t at = 0;
    for (; at + sizeof word <= len; at += sizeof word) {
        memcpy(&word, text + at, sizeof word);
        high |= word;
    }
    for (; at < len; at++)
        high |= (unsigned char)text[at];
    return (high & 0x8080808080808080u) == 0;
}

const char *rpc_text(struct sonde_arena *arena, const char *text) {
    size_t wrong = 0, total = 0;
    if (!text)
        return "";
    if (is_ascii(text, strlen(text)))
        return text;
    for (size_t len; text[total]; total += len ? len : 1) {
        len = character(text + total);
        wrong += len == 0;
    }
    if (wrong == 0)
        return text;
    char *clean = sonde_arena_alloc(arena, total + 3 * wrong + 1);
    if (!clean)
        return "";
    rpc_text_copy(clean, total + 3 * wrong + 1, text);
    return clean;
}
