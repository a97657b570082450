/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounded reading of DWARF's little numbers. A read past the end gives 0 and sets `bad`, which
 * stays: the reader looks once, at the end. */
#ifndef SONDE_SERVICE_UNWIND_CFI_CURSOR_H
#define SONDE_SERVICE_UNWIND_CFI_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
    const uint8_t *at, *end;
    bool bad;
};

static inline size_t cursor_left(const struct cursor *cursor) {
    return (size_t)(cursor->end - cursor->at);
}

static inline void cursor_skip(struct cursor *cursor, uint64_t len) {
    if (len > cursor_left(cursor)) {
        cursor->bad = true;
        len = cursor_left(cursor);
    }
    cursor->at += len;
}

/* Little-endian, of 1 to 8 bytes. */
static inline uint64_t cursor_uint(struct cursor *cursor, size_t len) {
    uint64_t value = 0;
    if (len > cursor_left(cursor)) {
        cursor->bad = true;
        cursor->at = cursor->end;
        return 0;
    }
    memcpy(&value, cursor->at, len);
    cursor->at += len;
    return value;
}

static inline int64_t cursor_sint(struct cursor *cursor, size_t len) {
    uint64_t value = cursor_uint(cursor, len);
    unsigned shift = 64 - 8 * (unsigned)len;
    return (int64_t)(value << shift) >> shift;
}

/* The bits of a LEB128 number and how many there were; over-long numbers lose their high bits. */
static inline uint64_t cursor_leb(struct cursor *cursor, unsigned *bits, uint8_t *last) {
    uint64_t value = 0;
    *bits = 0;
    do {
        *last = (uint8_t)cursor_uint(cursor, 1);
        if (*bits < 64)
            value |= (uint64_t)(*last & 0x7f) << *bits;
        *bits += 7;
    } while (*last & 0x80);
    return value;
}

static inline uint64_t cursor_uleb(struct cursor *cursor) {
    if (cursor->at < cursor->end && *cursor->at < 0x80)
        return *cursor->at++;
    unsigned bits;
    uint8_t last;
    return cursor_leb(cursor, &bits, &last);
}

static inline int64_t cursor_sleb(struct cursor *cursor) {
    unsigned bits;
    uint8_t last;
    uint64_t value = cursor_leb(cursor, &bits, &last);
    if ((last & 0x40) && bits < 64)
        value |= ~0ull << bits;
    return (int64_t)value;
}

/* The text up to a NUL, which is skipped. "" and bad when there is none. */
static inline const char *cursor_text(struct cursor *cursor) {
    const uint8_t *text = cursor->at;
    const uint8_t *nul = memchr(text, 0, cursor_left(cursor));
    if (!nul) {
        cursor->bad = true;
        cursor->at = cursor->end;
        return "";
    }
    cursor->at = nul + 1;
    return (const char *)text;
}

#endif
