/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables as files. Every kind of table begins with the same fields (magic, version, header_bytes,
 * total_bytes) and ends its header with the checksum. The readers stay in bounds on damaged tables;
 * the checksum is there to keep wrong names out of profiles. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_TABLE_TABLE_FILE_H
#define SONDE_SERVICE_SYMBOL_TABLE_TABLE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the file has the length and the checksum that its header states. Reads the file in small
 * pieces instead of mapping it, so that only the pages that lookups touch stay in memory. A sealed
 * file is not read. */
bool table_file_is_whole(int fd);
/* The same check for the bytes of a table in memory, which has header_bytes <= len. */
bool table_image_is_whole(const void *image, size_t header_bytes, size_t len);
/* Marks a checked table, so that the next open need not read all of it: the nanoseconds of its
 * modification time become a part of the checksum. Any write to the file changes them. */
void table_file_seal(int fd);

/* Whether `count` items of item_size fit at offset in an image of len bytes, aligned to 4. */
static inline bool table_array_fits(uint64_t len, uint64_t offset, uint64_t count,
                                    size_t item_size) {
    return offset <= len && offset % 4 == 0 && count <= (len - offset) / item_size;
}

#endif
