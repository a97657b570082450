/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/lines/line_table.h"

#include <string.h>

static bool header_fits(const struct symbol_full_header *h, size_t len) {
    return h->magic == SYMBOL_FULL_MAGIC && h->version == SYMBOL_FULL_VERSION &&
           h->header_bytes == sizeof *h && h->total_bytes == len && h->line_bits <= 32 &&
           symbol_array_fits(len, h->covers_offset, h->segments.count, 4) &&
           symbol_array_fits(len, h->values_offset, h->rows.count, 4) &&
           symbol_array_fits(len, h->files_offset, h->file_count, 4) &&
           symbol_array_fits(len, h->nodes_offset, h->node_count, sizeof(struct symbol_node)) &&
           symbol_array_fits(len, h->functions_offset, h->function_count,
                             sizeof(struct symbol_function)) &&
           symbol_array_fits(len, h->strings_offset, h->strings_bytes, 1) && h->strings_bytes > 0 &&
           h->identity[SYMBOL_IDENTITY_MAX - 1] == 0;
}

static bool checksum_fits(const struct symbol_full_header *header, size_t len) {
    struct symbol_full_header copy = *header;
    copy.checksum = 0;
    uint64_t hash = symbol_checksum(0, &copy, sizeof copy);
    return symbol_checksum(hash, header + 1, len - sizeof *header) == header->checksum;
}

sonde_err symbol_full_open(const void *image, size_t len, const char *identity, bool verified,
                           struct symbol_full *full) {
    const struct symbol_full_header *header = image;
    const char *bytes = image;
    struct symbol_spans segments, rows;
    *full = (struct symbol_full){0};
    if (len < sizeof *header || (uintptr_t)image % 8 != 0 || !header_fits(header, len) ||
        bytes[header->strings_offset + header->strings_bytes - 1] != 0 ||
        (identity && strcmp(header->identity, identity) != 0) ||
        !symbol_spans_open(image, len, &header->segments, &segments) ||
        !symbol_spans_open(image, len, &header->rows, &rows) ||
        (!verified && !checksum_fits(header, len)))
        return SONDE_CORRUPT;
    *full = (struct symbol_full){
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

uint32_t symbol_full_find(const struct symbol_full *full, uint64_t vaddr) {
    uint32_t segment = symbol_spans_find(&full->segments, vaddr - full->header->base);
    if (segment == SYMBOL_NO_SPAN)
        return SYMBOL_NO_NODE;
    uint32_t node = full->covers[segment];
    return node < full->header->node_count ? node : SYMBOL_NO_NODE;
}

bool symbol_full_line(const struct symbol_full *full, uint64_t vaddr, uint32_t *file,
                      uint32_t *line) {
    uint32_t row = symbol_spans_find(&full->rows, vaddr - full->header->base);
    if (row == SYMBOL_NO_SPAN || full->values[row] == UINT32_MAX)
        return false;
    uint64_t value = full->values[row];
    *file = (uint32_t)(value >> full->header->line_bits);
    *line = (uint32_t)(value & ((1ull << full->header->line_bits) - 1));
    return true;
}

static const char *string_at(const struct symbol_full *full, uint32_t offset) {
    return offset < full->header->strings_bytes ? full->strings + offset : "";
}

const char *symbol_full_file(const struct symbol_full *full, uint32_t file) {
    return file < full->header->file_count ? string_at(full, full->files[file]) : "";
}

const char *symbol_full_function(const struct symbol_full *full, uint32_t function) {
    return function < full->header->function_count ? string_at(full, full->functions[function].name)
                                                   : "";
}
