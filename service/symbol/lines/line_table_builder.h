/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the builder share: full_build.c (names, chains, one function), full_rows.c
 * (lines), full_write.c. Lists that grow with the file lie in a spill; the sets that find equal
 * items stay in memory, for they are touched everywhere. */
#ifndef SONDE_SERVICE_SYMBOL_LINES_LINE_TABLE_BUILDER_H
#define SONDE_SERVICE_SYMBOL_LINES_LINE_TABLE_BUILDER_H

#include "api/hash_index.h"
#include "service/symbol/lines/line_table_build.h"
#include "service/symbol/lines/spill.h"

/* A run of code with one chain. */
struct full_piece {
    uint32_t start, end, node;
};

/* A range that a function claims. */
struct full_claim {
    uint32_t start, end, function;
};

struct full_owner {
    uint32_t first_piece, piece_count;
};

struct full_range {
    uint32_t start, end, node, depth;
};

/* Code without a gap in it, and where its rows are. */
struct full_run {
    uint32_t start, end;
    uint64_t rows; /* offset into row_bytes */
    uint32_t count;
};

/* A growing array of one type. */
struct full_list {
    struct symbol_block block;
    uint32_t count;
};

struct symbol_full_builder {
    uint64_t base, limit;
    bool failed, too_large;
    struct symbol_spill spill;
    struct hash_index string_set; /* by offset into strings */
    struct hash_index function_set, file_set, claim_set;
    struct hash_index node_set; /* of the function at hand: no other has equal chains */
    struct full_list functions, files, nodes, pieces, claims, owners, runs;
    struct full_list ranges; /* of the function at hand */
    struct full_list open;   /* indexes of ranges around the sweep's place */
    struct symbol_block strings, row_bytes;
    size_t strings_len, row_bytes_len;
    uint32_t row_count, largest_line;
    uint32_t last_start, last_file, last_line; /* the last row of the last run */
};

/* Room for one more; NULL, and the builder has failed, when there is none. */
void *full_list_add(struct symbol_full_builder *builder, struct full_list *list, size_t item_size);
/* Room for `len` more bytes behind the first `used` of a block; false as above. */
bool full_block_reserve(struct symbol_full_builder *builder, struct symbol_block *block,
                        size_t used, size_t len);

/* Nothing is added any more. */
void full_sets_finish(struct symbol_full_builder *builder);

/* Takes rows of a run in turn: begin it, then once for each of its rows. */
struct full_row_reader {
    const uint8_t *at, *end;
    uint32_t start, file, line;
};
void full_rows_begin(const struct symbol_full_builder *builder, const struct full_run *run,
                     struct full_row_reader *reader);
void full_rows_next(struct full_row_reader *reader);

#endif
