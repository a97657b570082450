/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects what a walk over DWARF finds and writes the full table. Used in the worker process
 * alone: one thread, one builder. A builder that ran out of memory or over a bound says so when it
 * is written; until then its calls do nothing. */
#ifndef SONDE_SERVICE_SYMBOL_LINES_LINE_TABLE_BUILD_H
#define SONDE_SERVICE_SYMBOL_LINES_LINE_TABLE_BUILD_H

#include "service/symbol/lines/line_table.h"

struct symbol_full_builder;

/* Only code within [base, limit) is kept; limit - base is below 4 GiB. `scratch` is an empty file,
 * borrowed, into which lists go that grow large; -1 = all in memory. NULL when out of memory. */
struct symbol_full_builder *symbol_full_builder_create(uint64_t base, uint64_t limit, int scratch);
/* Gives pages of the scratch file back to the kernel: for now and then, in a long walk. */
void symbol_full_drop_pages(const struct symbol_full_builder *builder);
void symbol_full_builder_destroy(struct symbol_full_builder *builder);

/* Equal ones are kept once, nodes within their function. */
uint32_t symbol_full_add_file(struct symbol_full_builder *builder, const char *path);
uint32_t symbol_full_add_function(struct symbol_full_builder *builder, const char *name,
                                  uint32_t flags);
uint32_t symbol_full_add_node(struct symbol_full_builder *builder, struct symbol_node node);

/* Whether a function has that range already: linkers let all copies of a function that was thrown
 * out say where the one is that was kept, and one of them is enough. */
bool symbol_full_is_known(const struct symbol_full_builder *builder, uint64_t start, uint64_t end);
/* One function: begin, its own ranges (depth 0) and those of its inlined callees (deeper), end. */
void symbol_full_begin(struct symbol_full_builder *builder);
void symbol_full_add_range(struct symbol_full_builder *builder, uint64_t start, uint64_t end,
                           uint32_t node, uint32_t depth);
void symbol_full_end(struct symbol_full_builder *builder);

/* One run of code with one line. */
void symbol_full_add_row(struct symbol_full_builder *builder, uint64_t start, uint64_t end,
                         uint32_t file, uint32_t line);

/* Appends the image; nothing can be added after. SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err symbol_full_write(struct symbol_full_builder *builder,
                                           const char *identity, uint32_t flags, uint32_t units,
                                           struct sonde_buf *image);
/* The same into an empty file, open for reading and writing. SONDE_IO too. */
SONDE_MUST_USE sonde_err symbol_full_write_file(struct symbol_full_builder *builder,
                                                const char *identity, uint32_t flags,
                                                uint32_t units, int fd);

#endif
