/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes one block in ClickHouse's Native format: counts of columns and rows, then for each column
 * its name, its type and its values. Numbers are little-endian; a text has its length as a varint;
 * an array column has the cumulative ends of its rows' arrays, then all elements.
 *
 *     2 columns | 3 rows | "ts" "DateTime('UTC')" 4 B 4 B 4 B | "threads" "Array(String)" 8 B ...
 *
 * The server spends a third of the CPU time that RowBinary costs it. Thread safety: none needed. */
#ifndef SONDE_SERVICE_STORE_CLICKHOUSE_WIRE_NATIVE_H
#define SONDE_SERVICE_STORE_CLICKHOUSE_WIRE_NATIVE_H

#include "api/bytes.h"

void native_varint(struct sonde_buf *block, uint64_t number);
void native_text(struct sonde_buf *block, const char *text);

/* A column of a table whose rows are items of any type. */
struct native_column {
    const char *name, *type;
    /* Appends the item's value, or all elements of its array. */
    void (*write)(struct sonde_buf *block, const void *item);
    /* Elements of the item's array; NULL if the column is not an array. */
    size_t (*count)(const void *item);
};

/* Appends a block with the items. */
void native_block(struct sonde_buf *block, const struct native_column *columns, size_t column_count,
                  const void *const *items, size_t item_count);
/* Appends "(name, name)", the columns' list for INSERT. */
void native_names(struct sonde_buf *sql, const struct native_column *columns, size_t column_count);

#endif
