/* SPDX-License-Identifier: Apache-2.0
 *
 * The full table of one file (T2): functions with their inlined callees, and lines, flattened from
 * DWARF once. An immutable image like the table of names.
 *
 *     header | segment starts, buckets | segment nodes u32[] | nodes | functions
 *            | row starts, buckets | row values u32[] | files u32[] | strings
 *
 * A segment is a run of code with one chain of inlined functions; it names the innermost node. A
 * node names its function and its parent, and where in the parent it was called. Chains are shared:
 * equal ones are one node. A parent always comes before its children, so a walk ends whatever the
 * bytes say. Addresses are ELF vaddrs minus header.base. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_LINES_LINE_TABLE_H
#define SONDE_SERVICE_SYMBOL_LINES_LINE_TABLE_H

#include "api/error.h"
#include "service/symbol/symtab/symbol_table.h"
#include "service/symbol/table/bucket_index.h"

#define SYMBOL_FULL_MAGIC   0x316c7546646e6f53ull /* "SondFul1" */
#define SYMBOL_FULL_VERSION 2u
#define SYMBOL_NO_NODE      UINT32_MAX

struct symbol_full_header {
    uint64_t magic;
    uint32_t version, header_bytes;
    uint64_t total_bytes, base;
    struct symbol_spans_header segments, rows;
    uint32_t node_count, function_count, file_count;
    uint32_t line_bits; /* a row's value is file << line_bits | line */
    uint64_t covers_offset, nodes_offset, functions_offset, values_offset, files_offset;
    uint64_t strings_offset, strings_bytes; /* the last byte is 0; the first string is empty */
    uint32_t flags, units;                  /* compilation units walked */
    char identity[SYMBOL_IDENTITY_MAX];
    uint64_t checksum; /* as of the table of names */
};

#define SYMBOL_FULL_IS_PARTIAL 1u /* some units could not be read */

struct symbol_node {
    uint32_t parent; /* SYMBOL_NO_NODE = the function itself, not inlined */
    uint32_t function;
    uint32_t call_file; /* in the parent; of a function itself its start, minus header.base */
    uint32_t call_line;
};

struct symbol_function {
    uint32_t name; /* offset into strings */
    uint32_t flags;
};

#define SYMBOL_NAME_IS_LINKAGE 1u /* to be demangled; otherwise as written in the source */

struct symbol_full {
    const struct symbol_full_header *header;
    struct symbol_spans segments, rows;
    const uint32_t *covers, *values, *files;
    const struct symbol_node *nodes;
    const struct symbol_function *functions;
    const char *strings;
};

/* SONDE_CORRUPT as symbol_names_open. */
SONDE_MUST_USE sonde_err symbol_full_open(const void *image, size_t len, const char *identity,
                                          bool verified, struct symbol_full *full);
/* The innermost node at vaddr, or SYMBOL_NO_NODE. */
uint32_t symbol_full_find(const struct symbol_full *full, uint64_t vaddr);
/* File and line of vaddr; false when no row covers it. */
bool symbol_full_line(const struct symbol_full *full, uint64_t vaddr, uint32_t *file,
                      uint32_t *line);
/* "" out of bounds. */
const char *symbol_full_file(const struct symbol_full *full, uint32_t file);
const char *symbol_full_function(const struct symbol_full *full, uint32_t function);

#endif
