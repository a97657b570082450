/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads an answer in ClickHouse's RowBinary format. The bytes come from outside: reading beyond the
 * end, an array with more elements than bytes or a text without its bytes sets `failed`; from then
 * on every value is 0 or "". The caller checks `failed` once, after the last row. */
#ifndef SONDE_SERVICE_STORE_CLICKHOUSE_WIRE_ROW_BINARY_H
#define SONDE_SERVICE_STORE_CLICKHOUSE_WIRE_ROW_BINARY_H

#include "api/bytes.h"

struct row_binary {
    const unsigned char *at, *end;
    bool failed;
};

struct row_binary row_binary_of(const struct sonde_buf *answer);
/* Whether there is another row. */
bool row_binary_more(const struct row_binary *rows);

uint8_t row_binary_u8(struct row_binary *rows);
uint16_t row_binary_u16(struct row_binary *rows);
uint32_t row_binary_u32(struct row_binary *rows);
uint64_t row_binary_u64(struct row_binary *rows);
int64_t row_binary_i64(struct row_binary *rows);
/* Borrowed from the answer. */
struct sonde_slice row_binary_slice(struct row_binary *rows);
/* Returns a copy in the arena. If memory runs out, returns "" and sets `failed`. */
const char *row_binary_text(struct row_binary *rows, struct sonde_arena *arena);
/* The number of elements of an array, each of which takes min_size bytes or more; > 0. */
size_t row_binary_count(struct row_binary *rows, size_t min_size);

#endif
