/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/core/text.h"

#include <stdio.h>
#include <string.h>

static bool is_tail(unsigned char byte) {
    return (byte & 0xc0) == 0x80;
}

/* Bytes of the character at text, 0 when they are not UTF-8. A NUL ends every form early. */
static size_t character(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80)
        return 1;
    if (at[0] >= 0xc2 && at[0] <= 0xdf)
        return is_tail(at[1]) ? 2 : 0;
    if ((at[0] & 0xf0) == 0xe0) {
        bool overlong = at[0] == 0xe0 && at[1] < 0xa0, surrogate = at[0] == 0xed && at[1] > 0x9f;
        return is_tail(at[1]) && is_tail(at[2]) && !overlong && !surrogate ? 3 : 0;
    }
    if (at[0] >= 0xf0 && at[0] <= 0xf4) {
        bool outside = (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f);
        return is_tail(at[1]) && is_tail(at[2]) && is_tail(at[3]) && !outside ? 4 : 0;
    }
    return 0;
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

/* Whether all of it is ASCII, as most names are, eight bytes at a time. */
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
