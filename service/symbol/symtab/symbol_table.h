/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbol table of one file: its functions and variables by address, without inlined functions
 * and lines. It is an immutable image, the same in memory and in the cache.
 *
 *     header | segment starts u16[] | buckets u32[] | segment symbols u32[] | symbols | strings
 *
 * ELF symbols may nest and overlap. Segments are disjoint and sorted; each refers to the innermost
 * symbol that covers it, or to none. Addresses are ELF vaddrs minus header.base. Lookups go through
 * a bucket index and stay in bounds whatever the bytes are. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_SYMTAB_SYMBOL_TABLE_H
#define SONDE_SERVICE_SYMBOL_SYMTAB_SYMBOL_TABLE_H

#include "api/bytes.h"
#include "api/error.h"
#include "service/symbol/files/file_identity.h"
#include "service/symbol/table/bucket_index.h"

#define SYMBOL_TABLE_MAGIC   0x316d7953646e6f53ull /* "SondSym1" */
#define SYMBOL_TABLE_VERSION 5u
#define SYMBOL_NO_SYMBOL     UINT32_MAX
#define SYMBOL_IDENTITY_MAX  FILE_IDENTITY_MAX

struct symbol_table_header {
    uint64_t magic;
    uint32_t version, header_bytes;
    uint64_t total_bytes;
    uint64_t base; /* every start is relative to it */
    uint32_t quality, flags;
    struct bucket_index_header segments;
    uint32_t symbol_count, reserved;
    uint64_t covers_offset, symbols_offset;
    uint64_t strings_offset, strings_bytes; /* the last byte is 0 */
    char identity[SYMBOL_IDENTITY_MAX];     /* of the ELF file, NUL-padded */
    uint64_t checksum;                      /* of the image with this field 0 */
};

#define SYMBOL_TABLE_IS_CUT    1u /* symbols beyond SYMBOL_MAX_SYMBOLS were left out */
#define SYMBOL_TABLE_HAD_DEBUG 2u /* a debug file was also read */

#define SYMBOL_IS_FOLDED  1u /* functions of different names share this code */
#define SYMBOL_IS_PLAIN   2u /* not a linkage name: do not demangle */
#define SYMBOL_IS_UNNAMED 4u /* a function of a stripped file: only its start is known */

struct symbol_entry {
    uint32_t start; /* minus header.base */
    uint32_t name;  /* offset into strings: the linkage name */
    uint32_t flags;
};

/* A view of a checked image. */
struct symbol_table {
    const struct symbol_table_header *header;
    struct bucket_index segments;
    const uint32_t *covers; /* per segment: an index into symbols, or SYMBOL_NO_SYMBOL */
    const struct symbol_entry *symbols;
    const char *strings;
};

struct symbol_collection;

/* Builds the image from a collection, whose items it reorders. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_table_build(struct symbol_collection *collection,
                                            const char *identity, uint32_t flags,
                                            struct sonde_buf *image);
/* Builds the image of an ELF file. debug_fd is its debug file; -1, or anything but a regular file,
 * = none. SONDE_CORRUPT if fd is not an ELF file, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_table_build_from_files(int fd, int debug_fd, const char *identity,
                                                       struct sonde_buf *image);
/* SONDE_CORRUPT if the image is damaged, or not of that identity (NULL = any). `verified`: the
 * caller has already checked the checksum. */
SONDE_MUST_USE sonde_err symbol_table_open(const void *image, size_t len, const char *identity,
                                           bool verified, struct symbol_table *names);

/* The index of the innermost symbol that covers vaddr, or SYMBOL_NO_SYMBOL. */
uint32_t symbol_table_find(const struct symbol_table *names, uint64_t vaddr);
/* "" if the index or its name is out of bounds. */
const char *symbol_table_name(const struct symbol_table *names, uint32_t symbol);

#endif
