/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads arbitrary bytes as if ClickHouse had sent them. The first byte decides which types the
 * values have; then the same bytes are read as an error message. */
#include "service/store/clickhouse/http/http.h"
#include "service/store/clickhouse/wire/row_binary.h"

#include <stdlib.h>
#include <string.h>

static void read_value(struct row_binary *rows, unsigned kind, struct sonde_arena *arena) {
    switch (kind % 7) {
    case 0:
        row_binary_u8(rows);
        return;
    case 1:
        row_binary_u16(rows);
        return;
    case 2:
        row_binary_u32(rows);
        return;
    case 3:
        row_binary_i64(rows);
        return;
    case 4:
        if (strlen(row_binary_text(rows, arena)) > (size_t)(rows->end - rows->at) + 4096)
            abort();
        return;
    case 5:
        row_binary_slice(rows);
        return;
    default:
        for (size_t count = row_binary_count(rows, 8); count > 0; count--)
            row_binary_u64(rows);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_buf answer = {0};
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    unsigned kind = size ? data[0] : 0;
    if (size)
        sonde_buf_append(&answer, data + 1, size - 1);
    struct row_binary rows = row_binary_of(&answer);
    for (int i = 0; i < 10000 && row_binary_more(&rows); i++, kind = kind * 5 + 3)
        read_value(&rows, kind, &arena);
    if (http_exception("host:1", 500, sonde_buf_slice(&answer), &diag) == SONDE_OK || !diag.text[0])
        abort();
    sonde_arena_finish(&arena);
    sonde_buf_finish(&answer);
    return 0;
}
