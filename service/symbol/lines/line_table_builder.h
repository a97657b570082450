/* SPDX-License-Identifier: Apache-2.0
 *
 * The builder's internals, shared by line_table_build.c (names, nodes, functions),
 * line_table_rows.c (rows) and line_table_write.c. Lists that grow with the file are in a spill.
 * The sets that find equal items are accessed at random, so they stay in memory. */
#ifndef SONDE_SERVICE_SYMBOL_LINES_LINE_TABLE_BUILDER_H
#define SONDE_SERVICE_SYMBOL_LINES_LINE_TABLE_BUILDER_H

#include "api/hash_index.h"
#include "service/symbol/lines/line_table_build.h"
#include "service/symbol/lines/spill.h"

/* A run of code with one inline chain. */
struct builder_piece {
    uint32_t start, end, node;
};

/* A range that belongs to a function, unless another function also has it. */
struct builder_claim {
    uint32_t start, end, function;
};

/* The pieces of a function. */
struct builder_owner {
    uint32_t first_piece, piece_count;
};

struct builder_range {
    uint32_t start, end, node, depth;
};

/* A run of code without gaps, and its rows. */
struct builder_run {
    uint32_t start, end;
    uint64_t rows; /* offset into row_bytes */
    uint32_t count;
};

/* A growing array of one type. */
struct builder_list {
    struct symbol_block block;
    uint32_t count;
};

struct line_table_builder {
    uint64_t base, limit;
    bool failed, too_large;
    struct symbol_spill spill;
    struct hash_index string_set; /* by offset into strings */
    struct hash_index function_set, file_set, claim_set;
    struct hash_index node_set; /* of the current function: chains of others differ */
    struct builder_list functions, files, nodes, pieces, claims, owners, runs;
    struct builder_list ranges; /* of the current function */
    struct builder_list open;   /* indexes of the ranges that contain the current address */
    struct symbol_block strings, row_bytes;
    size_t strings_len, row_bytes_len;
    uint32_t row_count, largest_line;
    uint32_t last_start, last_file, last_line; /* the last row */
};

/* Adds an item, which the caller fills. NULL if that fails; then the builder has also failed. */
void *builder_list_add(struct line_table_builder *builder, struct builder_list *list,
                       size_t item_size);
/* Makes room for `len` bytes behind the first `used` of a block. If it fails, so has the
 * builder. */
bool builder_block_reserve(struct line_table_builder *builder, struct symbol_block *block,
                           size_t used, size_t len);

/* Frees the sets once nothing more will be added. */
void builder_sets_finish(struct line_table_builder *builder);

/* Reads the rows of a run one by one: call begin, then next for each row. */
struct row_reader {
    const uint8_t *at, *end;
    uint32_t start, file, line;
};
void row_reader_begin(const struct line_table_builder *builder, const struct builder_run *run,
                      struct row_reader *reader);
void row_reader_next(struct row_reader *reader);

#endif
