/* SPDX-License-Identifier: Apache-2.0
 *
 * A place in borrowed bytes that never leaves them. A read over the end gives 0, moves to the end
 * and sets `failed`; who reads a whole structure looks at it once, afterwards. Thread safety: one
 * thread per cursor. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_CURSOR_H
#define SONDE_SERVICE_SYMBOL_DWARF_CURSOR_H

#include "api/bytes.h"

#include <string.h>

struct dwarf_cursor {
    const uint8_t *at, *end;
    bool failed;
};

/* From `offset` of the bytes on, at most `len` of them. Failed when nothing is there. */
static inline struct dwarf_cursor dwarf_cursor_at(struct sonde_slice bytes, uint64_t offset,
                                                  uint64_t len) {
    static const uint8_t nothing;
    if (offset >= bytes.len)
        return (struct dwarf_cursor){&nothing, &nothing, true};
    const uint8_t *at = (const uint8_t *)bytes.data + offset;
    uint64_t rest = bytes.len - offset;
    return (struct dwarf_cursor){at, at + (len < rest ? len : rest), false};
}

static inline size_t dwarf_cursor_left(const struct dwarf_cursor *cursor) {
    return (size_t)(cursor->end - cursor->at);
}

static inline uint64_t dwarf_cursor_fail(struct dwarf_cursor *cursor) {
    cursor->at = cursor->end;
    cursor->failed = true;
    return 0;
}

static inline void dwarf_cursor_skip(struct dwarf_cursor *cursor, uint64_t len) {
    if (len > dwarf_cursor_left(cursor))
        dwarf_cursor_fail(cursor);
    else
        cursor->at += len;
}

/* Little-endian, as the files we read are; `size` is 1 to 8. */
static inline uint64_t dwarf_cursor_number(struct dwarf_cursor *cursor, unsigned size) {
    uint64_t value = 0;
    if (size > 8 || size > dwarf_cursor_left(cursor))
        return dwarf_cursor_fail(cursor);
    memcpy(&value, cursor->at, size);
    cursor->at += size;
    return value;
}

static inline uint8_t dwarf_cursor_u8(struct dwarf_cursor *cursor) {
    return cursor->at < cursor->end ? *cursor->at++ : (uint8_t)dwarf_cursor_fail(cursor);
}

/* Bits beyond the 64th are dropped; the bytes that carry them are still read. */
static inline uint64_t dwarf_cursor_uleb_long(struct dwarf_cursor *cursor) {
    uint64_t value = 0;
    for (unsigned shift = 0; cursor->at < cursor->end; shift += 7) {
        uint8_t byte = *cursor->at++;
        if (shift < 64)
            value |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128))
            return value;
    }
    return dwarf_cursor_fail(cursor);
}

static inline uint64_t dwarf_cursor_uleb(struct dwarf_cursor *cursor) {
    if (cursor->at < cursor->end && *cursor->at < 128)
        return *cursor->at++;
    return dwarf_cursor_uleb_long(cursor);
}

static inline int64_t dwarf_cursor_sleb(struct dwarf_cursor *cursor) {
    uint64_t value = 0;
    for (unsigned shift = 0; cursor->at < cursor->end; shift += 7) {
        uint8_t byte = *cursor->at++;
        if (shift < 64)
            value |= (uint64_t)(byte & 127) << shift;
        if (byte & 128)
            continue;
        if (shift + 7 < 64 && (byte & 64))
            value |= ~(uint64_t)0 << (shift + 7);
        return (int64_t)value;
    }
    return (int64_t)dwarf_cursor_fail(cursor);
}

/* Up to its NUL, borrowed; "" when there is none. */
static inline const char *dwarf_cursor_string(struct dwarf_cursor *cursor) {
    const char *text = (const char *)cursor->at;
    const void *end = memchr(text, 0, dwarf_cursor_left(cursor));
    if (!end) {
        dwarf_cursor_fail(cursor);
        return "";
    }
    cursor->at = (const uint8_t *)end + 1;
    return text;
}

/* The length that begins a unit or a table: tells 32-bit from 64-bit DWARF by itself. */
static inline uint64_t dwarf_cursor_length(struct dwarf_cursor *cursor, uint8_t *offset_size) {
    uint64_t len = dwarf_cursor_number(cursor, 4);
    *offset_size = len == 0xffffffff ? 8 : 4;
    if (*offset_size == 8)
        return dwarf_cursor_number(cursor, 8);
    return len < 0xfffffff0 ? len : dwarf_cursor_fail(cursor);
}

#endif
