/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of variable length: 7 bits a byte, lowest first. Signed numbers are zigzag-coded. The
 * reader is for bytes from disk: beyond the end it returns 0 and sets `failed`. Any thread. */
#ifndef SONDE_SERVICE_STORE_SQLITE_FORMAT_VARINT_H
#define SONDE_SERVICE_STORE_SQLITE_FORMAT_VARINT_H

#include "api/bytes.h"

#include <string.h>

#define VARINT_MAX 10 /* bytes */

struct varint_reader {
    const uint8_t *at, *end;
    bool failed;
};

static inline struct varint_reader varint_reader(const void *data, size_t len) {
    return (struct varint_reader){data, (const uint8_t *)data + len, false};
}

static inline uint64_t varint_get(struct varint_reader *reader) {
    if (reader->at < reader->end && *reader->at < 0x80)
        return *reader->at++;
    uint64_t number = 0;
    for (int shift = 0; shift < 64 && reader->at < reader->end; shift += 7) {
        uint8_t byte = *reader->at++;
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return number;
    }
    reader->failed = true;
    return 0;
}

static inline int64_t varint_get_signed(struct varint_reader *reader) {
    uint64_t number = varint_get(reader);
    return (int64_t)(number >> 1 ^ (0 - (number & 1)));
}

/* A number that must not exceed max. */
static inline uint64_t varint_get_max(struct varint_reader *reader, uint64_t max) {
    uint64_t number = varint_get(reader);
    if (number <= max)
        return number;
    reader->failed = true;
    return 0;
}

/* The number of items that follow, of at least item_bytes each: so many fit into the rest. */
static inline size_t varint_get_count(struct varint_reader *reader, size_t item_bytes) {
    uint64_t count = varint_get(reader);
    if (count <= (size_t)(reader->end - reader->at) / item_bytes)
        return count;
    reader->failed = true;
    return 0;
}

/* Borrowed bytes that their length precedes. */
static inline struct sonde_slice varint_get_bytes(struct varint_reader *reader) {
    size_t len = varint_get_count(reader, 1);
    struct sonde_slice slice = {(const char *)reader->at, reader->failed ? 0 : len};
    reader->at += slice.len;
    return slice;
}

/* Needs VARINT_MAX bytes; returns the end. */
static inline uint8_t *varint_write(uint8_t *at, uint64_t number) {
    while (number >= 0x80) {
        *at++ = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    *at++ = (uint8_t)number;
    return at;
}

static inline uint64_t varint_zigzag(int64_t number) {
    return (uint64_t)number << 1 ^ (uint64_t)(number >> 63);
}

static inline void varint_put(struct sonde_buf *buf, uint64_t number) {
    uint8_t bytes[VARINT_MAX];
    sonde_buf_append(buf, bytes, (size_t)(varint_write(bytes, number) - bytes));
}

static inline void varint_put_signed(struct sonde_buf *buf, int64_t number) {
    varint_put(buf, varint_zigzag(number));
}

static inline void varint_put_bytes(struct sonde_buf *buf, const char *data, size_t len) {
    varint_put(buf, len);
    sonde_buf_append(buf, data, len);
}

#endif
