/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects functions, inlined calls and rows from DWARF, and writes them as a line table. If a
 * builder runs out of memory or exceeds a limit, its calls do nothing until the write reports the
 * error. Thread safety: one thread per builder; only workers use it. */
#ifndef SONDE_SERVICE_SYMBOL_LINES_LINE_TABLE_BUILD_H
#define SONDE_SERVICE_SYMBOL_LINES_LINE_TABLE_BUILD_H

#include "service/symbol/lines/line_table.h"

struct line_table_builder;

/* Code outside [base, limit) is ignored; at most 4 GiB of addresses count. `scratch` is an empty
 * file, borrowed, to which large lists move; -1 = all in memory. NULL if out of memory. */
struct line_table_builder *line_table_builder_create(uint64_t base, uint64_t limit, int scratch);
/* Returns the pages of the scratch file to the kernel. Call it regularly. */
void line_table_drop_pages(const struct line_table_builder *builder);
void line_table_builder_destroy(struct line_table_builder *builder);

/* Each returns the number of the item. Equal items are stored once; of nodes, those of one
 * function. */
uint32_t line_table_add_file(struct line_table_builder *builder, const char *path);
uint32_t line_table_add_function(struct line_table_builder *builder, const char *name,
                                 uint32_t flags);
uint32_t line_table_add_node(struct line_table_builder *builder, struct line_table_node node);

/* Whether a function already has that range. When a linker discards copies of a function, the DWARF
 * of every copy points at the one that it kept, and one of them is enough. */
bool line_table_has_range(const struct line_table_builder *builder, uint64_t start, uint64_t end);
/* One function: begin; add its own ranges (depth 0) and those of functions inlined into it
 * (deeper); end. */
void line_table_begin_function(struct line_table_builder *builder);
void line_table_add_range(struct line_table_builder *builder, uint64_t start, uint64_t end,
                          uint32_t node, uint32_t depth);
void line_table_end_function(struct line_table_builder *builder);

/* The code in [start, end) belongs to one line. */
void line_table_add_row(struct line_table_builder *builder, uint64_t start, uint64_t end,
                        uint32_t file, uint32_t line);

/* Appends the image. The builder can only be destroyed afterwards. SONDE_OUT_OF_MEMORY,
 * SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err line_table_write(struct line_table_builder *builder, const char *identity,
                                          uint32_t flags, uint32_t units, struct sonde_buf *image);
/* The same into an empty file that is open for reading and writing. Also SONDE_IO. */
SONDE_MUST_USE sonde_err line_table_write_file(struct line_table_builder *builder,
                                               const char *identity, uint32_t flags, uint32_t units,
                                               int fd);

#endif
