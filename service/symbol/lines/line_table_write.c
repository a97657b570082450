/* SPDX-License-Identifier: Apache-2.0
 *
 * From lists to the table. Ranges of one function were flattened when it ended. Ranges of different
 * functions must not overlap, but do where identical code was folded or where a discarded copy left
 * its addresses behind: then the first function in the order of addresses keeps its whole range, so
 * that no chain is ever mixed from two functions. Runs of lines are treated likewise. */
#include "service/symbol/lines/line_table_builder.h"

#include <string.h>

#define DROP_EVERY (1u << 16) /* items after which pages are given back */

/* --- sorting -----------------------------------------------------------------------------------
 */

static void sort_pass(const char *from, char *to, uint32_t count, size_t item_size, int shift) {
    size_t places[257] = {0};
    for (uint32_t i = 0; i < count; i++)
        places[(*(const uint32_t *)(const void *)(from + i * item_size) >> shift & 255) + 1]++;
    for (int i = 0; i < 256; i++)
        places[i + 1] += places[i];
    for (uint32_t i = 0; i < count; i++) {
        const char *item = from + i * item_size;
        size_t place = places[*(const uint32_t *)(const void *)item >> shift & 255]++;
        memcpy(to + place * item_size, item, item_size);
    }
}

/* Stable, by the first word of each item: what came first stays first among equals. */
static bool sort_by_start(struct symbol_full_builder *builder, struct full_list *list,
                          size_t item_size) {
    struct symbol_block other = {0};
    if (list->count < 2)
        return true;
    if (!symbol_block_resize(&builder->spill, &other, list->count * item_size))
        return false;
    char *from = list->block.bytes, *to = other.bytes;
    for (int shift = 0; shift < 32; shift += 8) {
        sort_pass(from, to, list->count, item_size, shift);
        symbol_spill_drop_pages(&builder->spill);
        char *swap = from;
        from = to;
        to = swap;
    }
    symbol_block_free(&builder->spill, &other); /* four passes: the result is back in the list */
    return true;
}

/* --- spans -------------------------------------------------------------------------------------
 */

struct spans {
    struct symbol_block start_block, value_block;
    uint32_t *starts, *values;
    uint32_t count;
};

static void spans_add(struct spans *spans, uint32_t start, uint32_t value) {
    if (spans->count && spans->starts[spans->count - 1] == start)
        spans->count--;
    if (spans->count && spans->values[spans->count - 1] == value)
        return;
    spans->starts[spans->count] = start;
    spans->values[spans->count++] = value;
}

static bool spans_init(struct symbol_full_builder *builder, struct spans *spans, size_t room) {
    bool good = symbol_block_resize(&builder->spill, &spans->start_block, room * 4) &&
                symbol_block_resize(&builder->spill, &spans->value_block, room * 4);
    spans->starts = spans->start_block.bytes;
    spans->values = spans->value_block.bytes;
    return good;
}

static void spans_finish(struct symbol_full_builder *builder, struct spans *spans) {
    symbol_block_free(&builder->spill, &spans->start_block);
    symbol_block_free(&builder->spill, &spans->value_block);
}

static void drop_sometimes(struct symbol_full_builder *builder, uint32_t done) {
    if (done % DROP_EVERY == DROP_EVERY - 1)
        symbol_spill_drop_pages(&builder->spill);
}

/* --- functions ---------------------------------------------------------------------------------
 */

/* The pieces of a claim's owner within [start, end). */
static void add_claim(const struct symbol_full_builder *builder, uint32_t start, uint32_t end,
                      uint32_t function, struct spans *spans) {
    const struct full_owner *owner = (struct full_owner *)builder->owners.block.bytes + function;
    const struct full_piece *pieces = builder->pieces.block.bytes;
    uint32_t low = 0, high = owner->piece_count;
    pieces += owner->first_piece;
    while (low < high) { /* the first piece that ends after start */
        uint32_t middle = low + (high - low) / 2;
        if (pieces[middle].end <= start)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < owner->piece_count && pieces[low].start < end; low++) {
        uint32_t from = pieces[low].start > start ? pieces[low].start : start;
        uint32_t to = pieces[low].end < end ? pieces[low].end : end;
        spans_add(spans, from, pieces[low].node);
        spans_add(spans, to, SYMBOL_NO_NODE);
    }
}

static bool flatten_functions(struct symbol_full_builder *builder, struct spans *spans) {
    uint32_t reached = 0;
    size_t room = 2 * ((size_t)builder->pieces.count + builder->claims.count) + 2;
    if (!spans_init(builder, spans, room) ||
        !sort_by_start(builder, &builder->claims, sizeof(struct full_claim)))
        return false;
    for (uint32_t i = 0; i < builder->claims.count; i++) {
        struct full_claim claim = ((struct full_claim *)builder->claims.block.bytes)[i];
        if (claim.start < reached)
            claim.start = reached;
        if (claim.start >= claim.end)
            continue;
        add_claim(builder, claim.start, claim.end, claim.function, spans);
        reached = claim.end;
        drop_sometimes(builder, i);
    }
    return true;
}

/* --- rows --------------------------------------------------------------------------------------
 */

static uint32_t bits_of(uint64_t value) {
    return value ? 64 - (uint32_t)__builtin_clzll(value) : 1;
}

/* Files need their bits; lines get what is left. A longer line number becomes "unknown". */
static uint32_t choose_line_bits(const struct symbol_full_builder *builder) {
    uint32_t file_bits = bits_of(builder->files.count), line_bits = bits_of(builder->largest_line);
    return line_bits + file_bits > 32 ? 32 - file_bits : line_bits;
}

static void add_run(const struct symbol_full_builder *builder, const struct full_run *run,
                    uint32_t reached, uint32_t line_bits, struct spans *spans) {
    struct full_row_reader row;
    full_rows_begin(builder, run, &row);
    for (uint32_t i = 0; i < run->count; i++) {
        full_rows_next(&row);
        uint32_t line = row.line >> line_bits ? 0 : row.line;
        spans_add(spans, row.start > reached ? row.start : reached, row.file << line_bits | line);
    }
    spans_add(spans, run->end, UINT32_MAX);
}

static bool flatten_rows(struct symbol_full_builder *builder, uint32_t line_bits,
                         struct spans *spans) {
    uint32_t reached = 0;
    if (!spans_init(builder, spans, (size_t)builder->row_count + 2 * builder->runs.count + 2) ||
        !sort_by_start(builder, &builder->runs, sizeof(struct full_run)))
        return false;
    for (uint32_t i = 0; i < builder->runs.count; i++) {
        const struct full_run *run = (struct full_run *)builder->runs.block.bytes + i;
        if (run->end <= reached)
            continue;
        add_run(builder, run, reached, line_bits, spans);
        reached = run->end;
        drop_sometimes(builder, i);
    }
    return true;
}

/* --- writing -----------------------------------------------------------------------------------
 */

static uint64_t append(const struct symbol_full_builder *builder, struct symbol_sink *sink,
                       const void *items, size_t bytes) {
    uint64_t offset = symbol_sink_align(sink);
    symbol_sink_append(sink, items, bytes);
    symbol_spill_drop_pages(&builder->spill);
    return offset;
}

static void write_spans(struct symbol_full_builder *builder, struct symbol_sink *sink,
                        struct spans *spans, struct symbol_spans_header *header,
                        uint64_t *values_offset) {
    symbol_spans_write(sink, spans->starts, spans->count, header);
    symbol_spill_drop_pages(&builder->spill);
    *values_offset = append(builder, sink, spans->values, spans->count * sizeof(uint32_t));
    spans_finish(builder, spans);
}

static void write_lists(struct symbol_full_builder *builder, struct symbol_sink *sink,
                        struct symbol_full_header *header) {
    header->node_count = builder->nodes.count;
    header->nodes_offset = append(builder, sink, builder->nodes.block.bytes,
                                  builder->nodes.count * sizeof(struct symbol_node));
    header->function_count = builder->functions.count;
    header->functions_offset = append(builder, sink, builder->functions.block.bytes,
                                      builder->functions.count * sizeof(struct symbol_function));
    header->file_count = builder->files.count;
    header->files_offset =
        append(builder, sink, builder->files.block.bytes, builder->files.count * sizeof(uint32_t));
    header->strings_offset = append(builder, sink, builder->strings.bytes, builder->strings_len);
    header->strings_bytes = builder->strings_len;
}

static sonde_err write_table(struct symbol_full_builder *builder, struct symbol_full_header *header,
                             struct symbol_sink *sink) {
    struct spans functions = {0}, rows = {0};
    if (builder->failed)
        return builder->too_large ? SONDE_TOO_LARGE : SONDE_OUT_OF_MEMORY;
    full_sets_finish(builder);
    header->line_bits = choose_line_bits(builder);
    symbol_sink_append(sink, header, sizeof *header);
    bool good = flatten_functions(builder, &functions);
    if (good)
        write_spans(builder, sink, &functions, &header->segments, &header->covers_offset);
    good = good && flatten_rows(builder, header->line_bits, &rows);
    if (good)
        write_spans(builder, sink, &rows, &header->rows, &header->values_offset);
    spans_finish(builder, &functions);
    spans_finish(builder, &rows);
    if (!good)
        return SONDE_OUT_OF_MEMORY;
    write_lists(builder, sink, header);
    header->total_bytes = sink->len;
    return symbol_sink_finish(sink, header, sizeof *header);
}

static struct symbol_full_header header_of(const struct symbol_full_builder *builder,
                                           const char *identity, uint32_t flags, uint32_t units) {
    struct symbol_full_header header = {.magic = SYMBOL_FULL_MAGIC,
                                        .version = SYMBOL_FULL_VERSION,
                                        .header_bytes = sizeof header,
                                        .base = builder->base,
                                        .flags = flags,
                                        .units = units};
    strncpy(header.identity, identity, sizeof header.identity - 1);
    return header;
}

sonde_err symbol_full_write(struct symbol_full_builder *builder, const char *identity,
                            uint32_t flags, uint32_t units, struct sonde_buf *image) {
    struct symbol_full_header header = header_of(builder, identity, flags, units);
    struct symbol_sink sink;
    symbol_sink_to_buf(&sink, image);
    return write_table(builder, &header, &sink);
}

sonde_err symbol_full_write_file(struct symbol_full_builder *builder, const char *identity,
                                 uint32_t flags, uint32_t units, int fd) {
    struct symbol_full_header header = header_of(builder, identity, flags, units);
    struct symbol_sink sink;
    symbol_sink_to_file(&sink, fd);
    return write_table(builder, &header, &sink);
}
