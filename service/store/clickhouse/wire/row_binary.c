/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/clickhouse/wire/row_binary.h"

#include <string.h>

struct row_binary row_binary_of(const struct sonde_buf *answer) {
    const unsigned char *data = (const unsigned char *)answer->data;
    return (struct row_binary){data, data ? data + answer->len : NULL, false};
}

bool row_binary_more(const struct row_binary *rows) {
    return !rows->failed && rows->at < rows->end;
}

/* Copies the next bytes, or zeroes. */
static void take(struct row_binary *rows, void *to, size_t size) {
    memset(to, 0, size);
    if (rows->failed || (size_t)(rows->end - rows->at) < size) {
        rows->failed = true;
        return;
    }
    memcpy(to, rows->at, size);
    rows->at += size;
}

uint8_t row_binary_u8(struct row_binary *rows) {
    uint8_t number;
    take(rows, &number, sizeof number);
    return number;
}

uint16_t row_binary_u16(struct row_binary *rows) {
    uint16_t number;
    take(rows, &number, sizeof number);
    return number;
}

uint32_t row_binary_u32(struct row_binary *rows) {
    uint32_t number;
    take(rows, &number, sizeof number);
    return number;
}

uint64_t row_binary_u64(struct row_binary *rows) {
    uint64_t number;
    take(rows, &number, sizeof number);
    return number;
}

int64_t row_binary_i64(struct row_binary *rows) {
    int64_t number;
    take(rows, &number, sizeof number);
    return number;
}

static uint64_t varint(struct row_binary *rows) {
    uint64_t number = 0;
    for (int shift = 0; shift < 63; shift += 7) {
        uint8_t byte = row_binary_u8(rows);
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return number;
    }
    rows->failed = true;
    return 0;
}

size_t row_binary_count(struct row_binary *rows, size_t min_size) {
    uint64_t count = varint(rows);
    if (rows->failed || count > (size_t)(rows->end - rows->at) / min_size) {
        rows->failed = true;
        return 0;
    }
    return (size_t)count;
}

struct sonde_slice row_binary_slice(struct row_binary *rows) {
    size_t len = row_binary_count(rows, 1);
    if (rows->failed)
        return (struct sonde_slice){"", 0};
    struct sonde_slice text = {(const char *)rows->at, len};
    rows->at += len;
    return text;
}

const char *row_binary_text(struct row_binary *rows, struct sonde_arena *arena) {
    struct sonde_slice text = row_binary_slice(rows);
    const char *copy = sonde_arena_dup(arena, text.data, text.len);
    rows->failed = rows->failed || !copy;
    return copy ? copy : "";
}
