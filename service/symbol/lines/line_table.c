/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/lines/line_table.h"

#include "service/symbol/table/table_file.h"

#include <string.h>

static bool header_fits(const struct line_table_header *h, size_t len) {
    return h->magic == LINE_TABLE_MAGIC && h->version == LINE_TABLE_VERSION &&
           h->header_bytes == sizeof *h && h->total_bytes == len && h->line_bits <= 32 &&
           table_array_fits(len, h->covers_offset, h->segments.count, 4) &&
           table_array_fits(len, h->values_offset, h->rows.count, 4) &&
           table_array_fits(len, h->files_offset, h->file_count, 4) &&
           table_array_fits(len, h->nodes_offset, h->node_count, sizeof(struct line_table_node)) &&
           table_array_fits(len, h->functions_offset, h->function_count,
                            sizeof(struct line_table_function)) &&
           table_array_fits(len, h->strings_offset, h->strings_bytes, 1) && h->strings_bytes > 0 &&
           h->identity[SYMBOL_IDENTITY_MAX - 1] == 0;
}

sonde_err line_table_open(const void *image, size_t len, const char *identity, bool verified,
                          struct line_table *table) {
    const struct line_table_header *header = image;
    const char *bytes = image;
    struct bucket_index segments, rows;
    *table = (struct line_table){0};
    if (len < sizeof *header || (uintptr_t)image % 8 != 0 || !header_fits(header, len) ||
        bytes[header->strings_offset + header->strings_bytes - 1] != 0 ||
        (identity && strcmp(header->identity, identity) != 0) ||
        !bucket_index_open(image, len, &header->segments, &segments) ||
        !bucket_index_open(image, len, &header->rows, &rows) ||
        (!verified && !table_image_is_whole(image, sizeof *header, len)))
        return SONDE_CORRUPT;
    *table = (struct line_table){
        .header = header,
        .segments = segments,
        .rows = rows,
        .covers = (const void *)(bytes + header->covers_offset),
        .values = (const void *)(bytes + header->values_offset),
        .files = (const void *)(bytes + header->files_offset),
        .nodes = (const void *)(bytes + header->nodes_offset),
        .functions = (const void *)(bytes + header->functions_offset),
        .strings = bytes + header->strings_offset,
    };
    return SONDE_OK;
}

uint32_t line_table_find_node(const struct line_table *table, uint64_t vaddr) {
    uint32_t segment = bucket_index_find(&table->segments, vaddr - table->header->base);
    if (segment == BUCKET_INDEX_NONE)
        return LINE_TABLE_NO_NODE;
    uint32_t node = table->covers[segment];
    return node < table->header->node_count ? node : LINE_TABLE_NO_NODE;
}

bool line_table_find_line(const struct line_table *table, uint64_t vaddr, uint32_t *file,
                          uint32_t *line) {
    uint32_t row = bucket_index_find(&table->rows, vaddr - table->header->base);
    if (row == BUCKET_INDEX_NONE || table->values[row] == UINT32_MAX)
        return false;
    uint64_t value = table->values[row];
    *file = (uint32_t)(value >> table->header->line_bits);
    *line = (uint32_t)(value & ((1ull << table->header->line_bits) - 1));
    return true;
}

static const char *string_at(const struct line_table *table, uint32_t offset) {
    return offset < table->header->strings_bytes ? table->strings + offset : "";
}

const char *line_table_file_name(const struct line_table *table, uint32_t file) {
    return file < table->header->file_count ? string_at(table, table->files[file]) : "";
}

const char *line_table_function_name(const struct line_table *table, uint32_t function) {
    return function < table->header->function_count
               ? string_at(table, table->functions[function].name)
               : "";
}
