/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of names of one file (T1): an immutable image, the same in memory and in the cache.
 *
 *     header | segment starts u32[] | buckets u32[] | segment symbols u32[] | symbols | strings
 *
 * Symbols may nest and overlap; the segments are disjoint and sorted, each naming the innermost
 * symbol that covers it, or none. Addresses are ELF vaddrs minus header.base. The buckets cut the
 * span into equal pieces and say where each begins among the segments, so that a look-up reads two
 * or three cache lines. A look-up stays in bounds whatever the bytes are; the checksum is only
 * there to notice damage. Thread safety: any thread; nothing here changes. */
#ifndef SONDE_SERVICE_SYMBOL_SYMTAB_SYMBOL_TABLE_H
#define SONDE_SERVICE_SYMBOL_SYMTAB_SYMBOL_TABLE_H

#include "api/bytes.h"
#include "api/error.h"
#include "service/symbol/table/bucket_index.h"
#include "service/symbol/table/checksum.h"

#define SYMBOL_NAMES_MAGIC   0x316d614e646e6f53ull /* "SondNam1" */
#define SYMBOL_NAMES_VERSION 3u
#define SYMBOL_NO_SYMBOL     UINT32_MAX
#define SYMBOL_IDENTITY_MAX  96

struct symbol_names_header {
    uint64_t magic;
    uint32_t version, header_bytes;
    uint64_t total_bytes;
    uint64_t base; /* what every start is relative to */
    uint32_t quality, flags;
    struct symbol_spans_header segments;
    uint32_t symbol_count, reserved;
    uint64_t covers_offset, symbols_offset;
    uint64_t strings_offset, strings_bytes; /* the last byte is 0 */
    char identity[SYMBOL_IDENTITY_MAX];     /* of the file it was made from, NUL-padded */
    uint64_t checksum;                      /* of the header with this field 0, and the rest */
};

#define SYMBOL_NAMES_IS_CUT    1u /* the file had more symbols than are read */
#define SYMBOL_NAMES_HAD_DEBUG 2u /* a debug file was looked at too */

#define SYMBOL_IS_FOLDED  1u /* functions of different names share this code */
#define SYMBOL_IS_PLAIN   2u /* no linkage name: shown as it is */
#define SYMBOL_IS_UNNAMED 4u /* a function of a stripped file: only where it begins is known */

struct symbol_entry {
    uint32_t start; /* minus header.base */
    uint32_t name;  /* offset into strings: as linked */
    uint32_t flags;
};

/* A checked image. Borrowed. */
struct symbol_names {
    const struct symbol_names_header *header;
    struct symbol_spans segments;
    const uint32_t *covers;
    const struct symbol_entry *symbols;
    const char *strings;
};

struct symbol_collection;

/* Sorts, chooses among aliases, flattens and writes the image. Consumes the collection's items
 * (their order and number change). SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_names_build(struct symbol_collection *collection,
                                            const char *identity, uint32_t flags,
                                            struct sonde_buf *image);
/* The whole way from a file to the image. debug_fd is the file of debug information of the same
 * build-id, -1 or no regular file = none. SONDE_CORRUPT when fd is no ELF file, _OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_names_of_files(int fd, int debug_fd, const char *identity,
                                               struct sonde_buf *image);
/* SONDE_CORRUPT when the bytes are no such image of that identity (NULL = any), or damaged.
 * `verified` says that the checksum was looked at already. */
SONDE_MUST_USE sonde_err symbol_names_open(const void *image, size_t len, const char *identity,
                                           bool verified, struct symbol_names *names);

/* Index of the innermost symbol that covers vaddr, or SYMBOL_NO_SYMBOL. */
uint32_t symbol_names_find(const struct symbol_names *names, uint64_t vaddr);
/* "" when the index or its name is out of bounds. */
const char *symbol_names_text(const struct symbol_names *names, uint32_t symbol);

/* Whether a stored table has the length and the checksum that its header says. Both kinds of tables
 * begin alike (magic, version, header_bytes, total_bytes) and end their header with the checksum.
 * Reads through a small buffer, so that a table costs memory only where it is used. */
bool symbol_table_is_whole(int fd);
/* Marks a table that was looked at as whole: the fraction of a second of its time of change becomes
 * a part of the checksum, and stays so until somebody writes to the file. So a table need not be
 * read to be opened. The readers are safe on damaged tables; the checksum only keeps wrong names
 * away. */
void symbol_table_seal(int fd);

#endif
