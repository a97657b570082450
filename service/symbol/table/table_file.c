/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/table/table_file.h"

#include "api/elf/elf.h"
#include "service/symbol/table/checksum.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define NS_PER_S         1000000000u
#define MAX_HEADER_BYTES 1024u

/* The header of either kind of table, with its checksum taken out. */
struct file_header {
    char bytes[MAX_HEADER_BYTES];
    uint32_t len;
    uint64_t total, checksum;
};

static bool read_header(int fd, struct file_header *header) {
    struct elf_input file;
    if (!elf_input_of_file(fd, &file) || !elf_read(&file, 12, &header->len, 4) ||
        !elf_read(&file, 16, &header->total, 8) || header->total != file.size || header->len < 64 ||
        header->len > sizeof header->bytes || !elf_read(&file, 0, header->bytes, header->len))
        return false;
    memcpy(&header->checksum, header->bytes + header->len - 8, 8);
    memset(header->bytes + header->len - 8, 0, 8);
    return true;
}

static long seal_of(const struct file_header *header) {
    return (long)(header->checksum % NS_PER_S);
}

static bool is_sealed(int fd, const struct file_header *header) {
    struct stat info;
    return fstat(fd, &info) == 0 && info.st_mtim.tv_nsec == seal_of(header);
}

void table_file_seal(int fd) {
    struct file_header header;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL)}};
    if (!read_header(fd, &header))
        return;
    times[1].tv_nsec = seal_of(&header);
    futimens(fd, times); /* if this fails, the next open reads the file again */
}

static bool checksum_of_file_fits(int fd, const struct file_header *header) {
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

bool table_file_is_whole(int fd) {
    struct file_header header;
    return read_header(fd, &header) &&
           (is_sealed(fd, &header) || checksum_of_file_fits(fd, &header));
}

bool table_image_is_whole(const void *image, size_t header_bytes, size_t len) {
    char header[MAX_HEADER_BYTES];
    uint64_t checksum;
    if (header_bytes < sizeof checksum || header_bytes > sizeof header)
        return false;
    memcpy(header, image, header_bytes);
    memcpy(&checksum, header + header_bytes - sizeof checksum, sizeof checksum);
    memset(header + header_bytes - sizeof checksum, 0, sizeof checksum);
    uint64_t hash = symbol_checksum(0, header, header_bytes);
    return symbol_checksum(hash, (const char *)image + header_bytes, len - header_bytes) ==
           checksum;
}
