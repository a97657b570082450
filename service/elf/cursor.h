/* SPDX-License-Identifier: Apache-2.0
 *
 * A position in borrowed bytes, for reading DWARF's numbers. It never leaves the bytes: a read past
 * the end returns 0, moves to the end and sets `failed`, which stays set. So a caller can read a
 * whole structure and check `failed` once. Thread safety: one thread per cursor. */
#ifndef SONDE_SERVICE_ELF_CURSOR_H
#define SONDE_SERVICE_ELF_CURSOR_H

#include "api/bytes.h"

#include <string.h>

struct cursor {
    const uint8_t *at, *end;
    bool failed;
};

/* Starts at `offset` of the bytes and covers at most `len` of them. Failed if none are there. */
static inline struct cursor cursor_at(struct sonde_slice bytes, uint64_t offset, uint64_t len) {
    static const uint8_t nothing;
    if (offset >= bytes.len)
        return (struct cursor){&nothing, &nothing, true};
    const uint8_t *at = (const uint8_t *)bytes.data + offset;
    uint64_t rest = bytes.len - offset;
    return (struct cursor){at, at + (len < rest ? len : rest), false};
}

static inline size_t cursor_left(const struct cursor *cursor) {
    return (size_t)(cursor->end - cursor->at);
}

static inline uint64_t cursor_fail(struct cursor *cursor) {
    cursor->at = cursor->end;
    cursor->failed = true;
    return 0;
}

static inline void cursor_skip(struct cursor *cursor, uint64_t len) {
    if (len > cursor_left(cursor))
        cursor_fail(cursor);
    else
        cursor->at += len;
}

/* An unsigned little-endian number of 1 to 8 bytes. */
static inline uint64_t cursor_uint(struct cursor *cursor, size_t len) {
    uint64_t value = 0;
    if (len > sizeof value || len > cursor_left(cursor))
        return cursor_fail(cursor);
    memcpy(&value, cursor->at, len);
    cursor->at += len;
    return value;
}

/* The same, with a sign. */
static inline int64_t cursor_sint(struct cursor *cursor, size_t len) {
    uint64_t value = cursor_uint(cursor, len);
    unsigned shift = 64 - 8 * (unsigned)len;
    return (int64_t)(value << shift) >> shift;
}

static inline uint8_t cursor_u8(struct cursor *cursor) {
    return cursor->at < cursor->end ? *cursor->at++ : (uint8_t)cursor_fail(cursor);
}

/* A LEB128 number of any length: bits past the 64th are read and dropped. *sign: all bits above
 * those that were read, if the last one is set. */
static inline uint64_t cursor_leb(struct cursor *cursor, uint64_t *sign) {
    uint64_t value = 0;
    *sign = 0;
    for (unsigned shift = 0; cursor->at < cursor->end;) {
        uint8_t byte = *cursor->at++;
        if (shift < 64)
            value |= (uint64_t)(byte & 127) << shift;
        shift += 7;
        if (byte & 128)
            continue;
        if (shift < 64 && (byte & 64))
            *sign = ~(uint64_t)0 << shift;
        return value;
    }
    return cursor_fail(cursor);
}

static inline uint64_t cursor_uleb(struct cursor *cursor) {
    uint64_t sign;
    if (cursor->at < cursor->end && *cursor->at < 128)
        return *cursor->at++;
    return cursor_leb(cursor, &sign);
}

static inline int64_t cursor_sleb(struct cursor *cursor) {
    uint64_t sign;
    uint64_t value = cursor_leb(cursor, &sign);
    return (int64_t)(value | sign);
}

/* A text up to its NUL, borrowed. "" if there is no NUL. */
static inline const char *cursor_text(struct cursor *cursor) {
    const char *text = (const char *)cursor->at;
    const void *end = memchr(text, 0, cursor_left(cursor));
    if (!end) {
        cursor_fail(cursor);
        return "";
    }
    cursor->at = (const uint8_t *)end + 1;
    return text;
}

/* The length at the start of a unit, a table or a frame record. *offset_size: 4 in 32-bit DWARF, 8
 * in 64-bit DWARF, which begins with 0xffffffff. */
static inline uint64_t cursor_length(struct cursor *cursor, uint8_t *offset_size) {
    uint64_t len = cursor_uint(cursor, 4);
    *offset_size = len == 0xffffffff ? 8 : 4;
    if (*offset_size == 8)
        return cursor_uint(cursor, 8);
    return len < 0xfffffff0 ? len : cursor_fail(cursor);
}

#endif
