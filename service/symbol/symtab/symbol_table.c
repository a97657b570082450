/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/symtab/symbol_table.h"

#include "service/symbol/table/table_file.h"

#include <string.h>

static bool header_fits(const struct symbol_table_header *h, size_t len) {
    return h->magic == SYMBOL_TABLE_MAGIC && h->version == SYMBOL_TABLE_VERSION &&
           h->header_bytes == sizeof *h && h->total_bytes == len &&
           table_array_fits(len, h->covers_offset, h->segments.count, 4) &&
           table_array_fits(len, h->symbols_offset, h->symbol_count, sizeof(struct symbol_entry)) &&
           table_array_fits(len, h->strings_offset, h->strings_bytes, 1) && h->strings_bytes > 0 &&
           h->identity[SYMBOL_IDENTITY_MAX - 1] == 0;
}

sonde_err symbol_table_open(const void *image, size_t len, const char *identity, bool verified,
                            struct symbol_table *table) {
    const struct symbol_table_header *header = image;
    struct bucket_index segments;
    *table = (struct symbol_table){0};
    if (len < sizeof *header || (uintptr_t)image % 8 != 0 || !header_fits(header, len) ||
        ((const char *)image)[header->strings_offset + header->strings_bytes - 1] != 0 ||
        (identity && strcmp(header->identity, identity) != 0) ||
        !bucket_index_open(image, len, &header->segments, &segments) ||
        (!verified && !table_image_is_whole(image, sizeof *header, len)))
        return SONDE_CORRUPT;
    const char *bytes = image;
    *table = (struct symbol_table){
        .header = header,
        .segments = segments,
        .covers = (const void *)(bytes + header->covers_offset),
        .symbols = (const void *)(bytes + header->symbols_offset),
        .strings = bytes + header->strings_offset,
    };
    return SONDE_OK;
}

uint32_t symbol_table_find(const struct symbol_table *table, uint64_t vaddr) {
    uint32_t segment = bucket_index_find(&table->segments, vaddr - table->header->base);
    if (segment == BUCKET_INDEX_NONE)
        return SYMBOL_NO_SYMBOL;
    uint32_t symbol = table->covers[segment];
    return symbol < table->header->symbol_count ? symbol : SYMBOL_NO_SYMBOL;
}

const char *symbol_table_name(const struct symbol_table *table, uint32_t symbol) {
    if (symbol >= table->header->symbol_count)
        return "";
    uint32_t name = table->symbols[symbol].name;
    return name < table->header->strings_bytes ? table->strings + name : "";
}
