/* SPDX-License-Identifier: Apache-2.0
 *
 * The line table of one file: its functions with the functions inlined into them, and source lines.
 * It is built from DWARF once, as an immutable image like the symbol table.
 *
 *     header | segment starts, buckets | segment nodes u32[] | nodes | functions
 *            | row starts, buckets | row values u32[] | files u32[] | strings
 *
 * A segment is a run of code with the same inline chain; it refers to the innermost node. A node
 * refers to its function, its parent node and the place of the call in the parent. Equal chains
 * share their nodes. Parents come before their children, so a walk to the root ends whatever the
 * bytes are. Addresses are ELF vaddrs minus header.base. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_LINES_LINE_TABLE_H
#define SONDE_SERVICE_SYMBOL_LINES_LINE_TABLE_H

#include "api/error.h"
#include "service/symbol/symtab/symbol_table.h"
#include "service/symbol/table/bucket_index.h"

#define LINE_TABLE_MAGIC   0x316e694c646e6f53ull /* "SondLin1" */
#define LINE_TABLE_VERSION 2u
#define LINE_TABLE_NO_NODE UINT32_MAX

struct line_table_header {
    uint64_t magic;
    uint32_t version, header_bytes;
    uint64_t total_bytes, base;
    struct bucket_index_header segments, rows;
    uint32_t node_count, function_count, file_count;
    uint32_t line_bits; /* a row's value is file << line_bits | line */
    uint64_t covers_offset, nodes_offset, functions_offset, values_offset, files_offset;
    uint64_t strings_offset, strings_bytes; /* the last byte is 0; the first string is empty */
    uint32_t flags, units;                  /* units: compilation units read */
    char identity[SYMBOL_IDENTITY_MAX];
    uint64_t checksum; /* of the image with this field 0 */
};

#define LINE_TABLE_IS_PARTIAL 1u /* some compilation units were damaged */

struct line_table_node {
    uint32_t parent; /* LINE_TABLE_NO_NODE = the function itself, not inlined */
    uint32_t function;
    uint32_t call_file; /* of the call in the parent; without a parent: the function's start */
    uint32_t call_line;
};

struct line_table_function {
    uint32_t name; /* offset into strings */
    uint32_t flags;
};

#define LINE_TABLE_IS_LINKAGE_NAME 1u /* demangle it; otherwise it is as written in the source */

struct line_table {
    const struct line_table_header *header;
    struct bucket_index segments, rows;
    const uint32_t *covers, *values, *files;
    const struct line_table_node *nodes;
    const struct line_table_function *functions;
    const char *strings;
};

/* As symbol_table_open. */
SONDE_MUST_USE sonde_err line_table_open(const void *image, size_t len, const char *identity,
                                         bool verified, struct line_table *table);
/* The innermost node at vaddr, or LINE_TABLE_NO_NODE. */
uint32_t line_table_find_node(const struct line_table *table, uint64_t vaddr);
/* The file and line of vaddr; false if no row covers it. */
bool line_table_find_line(const struct line_table *table, uint64_t vaddr, uint32_t *file,
                          uint32_t *line);
/* "" if the index is out of bounds. */
const char *line_table_file_name(const struct line_table *table, uint32_t file);
const char *line_table_function_name(const struct line_table *table, uint32_t function);

#endif
