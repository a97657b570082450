/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/symtab/symbol_table.h"

#include "api/elf/elf.h"

#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define NS_PER_S 1000000000u

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

/* --- whole tables ------------------------------------------------------------------------------
 */

struct table_header {
    char bytes[1024];
    uint32_t len;
    uint64_t total, checksum;
};

static bool read_header(int fd, struct table_header *header) {
    struct elf_input file;
    if (!elf_input_of_file(fd, &file) || !elf_read(&file, 12, &header->len, 4) ||
        !elf_read(&file, 16, &header->total, 8) || header->total != file.size || header->len < 64 ||
        header->len > sizeof header->bytes || !elf_read(&file, 0, header->bytes, header->len))
        return false;
    memcpy(&header->checksum, header->bytes + header->len - 8, 8);
    memset(header->bytes + header->len - 8, 0, 8);
    return true;
}

static long seal_of(const struct table_header *header) {
    return (long)(header->checksum % NS_PER_S);
}

static bool is_sealed(int fd, const struct table_header *header) {
    struct stat about;
    return fstat(fd, &about) == 0 && about.st_mtim.tv_nsec == seal_of(header);
}

void symbol_table_seal(int fd) {
    struct table_header header;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL)}};
    if (!read_header(fd, &header))
        return;
    times[1].tv_nsec = seal_of(&header);
    futimens(fd, times); /* one that is refused costs a longer look next time */
}

static bool checksum_of_file_fits(int fd, const struct table_header *header) {
    char piece[SYMBOL_CHECKSUM_PIECE];
    uint64_t hash = symbol_checksum(0, header->bytes, header->len), at = header->len;
    struct elf_input file = {.fd = fd, .size = header->total};
    while (at < header->total) {
        size_t len = header->total - at < sizeof piece ? header->total - at : sizeof piece;
        if (!elf_read(&file, at, piece, len))
            return false;
        hash = symbol_checksum(hash, piece, len);
        at += len;
    }
    return hash == header->checksum;
}

bool symbol_table_is_whole(int fd) {
    struct table_header header;
    return read_header(fd, &header) &&
           (is_sealed(fd, &header) || checksum_of_file_fits(fd, &header));
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
