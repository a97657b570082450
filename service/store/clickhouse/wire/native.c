/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/clickhouse/wire/native.h"

#include <string.h>

void native_varint(struct sonde_buf *block, uint64_t number) {
    for (; number >= 0x80; number >>= 7)
        sonde_buf_putc(block, (char)(number | 0x80));
    sonde_buf_putc(block, (char)number);
}

void native_text(struct sonde_buf *block, const char *text) {
    size_t len = strlen(text);
    native_varint(block, len);
    sonde_buf_append(block, text, len);
}

static void put_ends(struct sonde_buf *block, const struct native_column *column,
                     const void *const *items, size_t item_count) {
    uint64_t end = 0;
    for (size_t i = 0; i < item_count; i++) {
        end += column->count(items[i]);
        sonde_buf_append(block, &end, sizeof end);
    }
}

void native_block(struct sonde_buf *block, const struct native_column *columns, size_t column_count,
                  const void *const *items, size_t item_count) {
    native_varint(block, column_count);
    native_varint(block, item_count);
    for (size_t i = 0; i < column_count; i++) {
        native_text(block, columns[i].name);
        native_text(block, columns[i].type);
        if (columns[i].count)
            put_ends(block, &columns[i], items, item_count);
        for (size_t j = 0; j < item_count; j++)
            columns[i].write(block, items[j]);
    }
}

void native_names(struct sonde_buf *sql, const struct native_column *columns, size_t column_count) {
    for (size_t i = 0; i < column_count; i++)
        sonde_buf_printf(sql, "%s%s", i ? ", " : " (", columns[i].name);
    sonde_buf_puts(sql, ")");
}
