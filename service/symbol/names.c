/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/names.h"

#include "service/symbol/elf.h"

#include <stddef.h>
#include <string.h>

static bool header_fits(const struct symbol_names_header *h, size_t len) {
    return h->magic == SYMBOL_NAMES_MAGIC && h->version == SYMBOL_NAMES_VERSION &&
           h->header_bytes == sizeof *h && h->total_bytes == len &&
           symbol_array_fits(len, h->covers_offset, h->segments.count, 4) &&
           symbol_array_fits(len, h->symbols_offset, h->symbol_count,
                             sizeof(struct symbol_entry)) &&
           symbol_array_fits(len, h->strings_offset, h->strings_bytes, 1) && h->strings_bytes > 0 &&
           h->identity[SYMBOL_IDENTITY_MAX - 1] == 0;
}

static bool checksum_fits(const struct symbol_names_header *header, size_t len) {
    struct symbol_names_header copy = *header;
    copy.checksum = 0;
    uint64_t hash = symbol_checksum(0, &copy, sizeof copy);
    return symbol_checksum(hash, header + 1, len - sizeof *header) == header->checksum;
}

sonde_err symbol_names_open(const void *image, size_t len, const char *identity, bool verified,
                            struct symbol_names *names) {
    const struct symbol_names_header *header = image;
    struct symbol_spans segments;
    *names = (struct symbol_names){0};
    if (len < sizeof *header || (uintptr_t)image % 8 != 0 || !header_fits(header, len) ||
        ((const char *)image)[header->strings_offset + header->strings_bytes - 1] != 0 ||
        (identity && strcmp(header->identity, identity) != 0) ||
        !symbol_spans_open(image, len, &header->segments, &segments) ||
        (!verified && !checksum_fits(header, len)))
        return SONDE_CORRUPT;
    const char *bytes = image;
    *names = (struct symbol_names){
        .header = header,
        .segments = segments,
        .covers = (const void *)(bytes + header->covers_offset),
        .symbols = (const void *)(bytes + header->symbols_offset),
        .strings = bytes + header->strings_offset,
    };
    return SONDE_OK;
}

bool symbol_table_is_whole(int fd) {
    char header[1024], piece[SYMBOL_CHECKSUM_PIECE];
    struct symbol_elf_input file;
    uint32_t header_bytes;
    uint64_t total, wanted;
    if (!symbol_elf_input_of_file(fd, &file) || !symbol_elf_read(&file, 12, &header_bytes, 4) ||
        !symbol_elf_read(&file, 16, &total, 8) || total != file.size || header_bytes < 64 ||
        header_bytes > sizeof header || !symbol_elf_read(&file, 0, header, header_bytes))
        return false;
    memcpy(&wanted, header + header_bytes - 8, 8);
    memset(header + header_bytes - 8, 0, 8);
    uint64_t hash = symbol_checksum(0, header, header_bytes), at = header_bytes;
    while (at < total) {
        size_t len = total - at < sizeof piece ? total - at : sizeof piece;
        if (!symbol_elf_read(&file, at, piece, len))
            return false;
        hash = symbol_checksum(hash, piece, len);
        at += len;
    }
    return hash == wanted;
}

uint32_t symbol_names_find(const struct symbol_names *names, uint64_t vaddr) {
    uint32_t segment = symbol_spans_find(&names->segments, vaddr - names->header->base);
    if (segment == SYMBOL_NO_SPAN)
        return SYMBOL_NO_SYMBOL;
    uint32_t symbol = names->covers[segment];
    return symbol < names->header->symbol_count ? symbol : SYMBOL_NO_SYMBOL;
}

const char *symbol_names_text(const struct symbol_names *names, uint32_t symbol) {
    if (symbol >= names->header->symbol_count)
        return "";
    uint32_t name = names->symbols[symbol].name;
    return name < names->header->strings_bytes ? names->strings + name : "";
}
