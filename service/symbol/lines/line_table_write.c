/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the collected lists as a table. The ranges of one function were flattened when it ended.
 * Ranges of different functions should not overlap, but do where identical code was folded or where
 * a discarded copy left its addresses behind. Then the function with the lower start keeps its
 * whole range, so that no inline chain mixes two functions. The same goes for runs of rows. */
#include "service/symbol/lines/line_table_builder.h"

#include <string.h>

#define DROP_EVERY (1u << 16) /* items between two calls of symbol_spill_drop_pages */

/* --- sorting ---------------------------------------------------------------------------------- */

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

/* A stable radix sort by the first word of each item. */
static bool sort_by_start(struct line_table_builder *builder, struct builder_list *list,
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
    symbol_block_free(&builder->spill, &other); /* after four passes the result is in the list */
    return true;
}

/* --- entries of an index ---------------------------------------------------------------------- */

/* Sorted starts, and the value from each start to the next. */
struct entries {
    struct symbol_block start_block, value_block;
    uint32_t *starts, *values;
    uint32_t count;
};

static void entries_add(struct entries *entries, uint32_t start, uint32_t value) {
    if (entries->count && entries->starts[entries->count - 1] == start)
        entries->count--;
    if (entries->count && entries->values[entries->count - 1] == value)
        return;
    entries->starts[entries->count] = start;
    entries->values[entries->count++] = value;
}

static bool entries_init(struct line_table_builder *builder, struct entries *entries, size_t room) {
    bool good = symbol_block_resize(&builder->spill, &entries->start_block, room * 4) &&
                symbol_block_resize(&builder->spill, &entries->value_block, room * 4);
    entries->starts = entries->start_block.bytes;
    entries->values = entries->value_block.bytes;
    return good;
}

static void entries_finish(struct line_table_builder *builder, struct entries *entries) {
    symbol_block_free(&builder->spill, &entries->start_block);
    symbol_block_free(&builder->spill, &entries->value_block);
}

static void drop_sometimes(struct line_table_builder *builder, uint32_t done) {
    if (done % DROP_EVERY == DROP_EVERY - 1)
        symbol_spill_drop_pages(&builder->spill);
}

/* --- functions -------------------------------------------------------------------------------- */

/* Adds the pieces of a function within [start, end). */
static void add_claim(const struct line_table_builder *builder, uint32_t start, uint32_t end,
                      uint32_t function, struct entries *entries) {
    const struct builder_owner *owner =
        (struct builder_owner *)builder->owners.block.bytes + function;
    const struct builder_piece *pieces = builder->pieces.block.bytes;
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
        entries_add(entries, from, pieces[low].node);
        entries_add(entries, to, LINE_TABLE_NO_NODE);
    }
}

static bool flatten_functions(struct line_table_builder *builder, struct entries *entries) {
    uint32_t reached = 0;
    size_t room = 2 * ((size_t)builder->pieces.count + builder->claims.count) + 2;
    if (!entries_init(builder, entries, room) ||
        !sort_by_start(builder, &builder->claims, sizeof(struct builder_claim)))
        return false;
    for (uint32_t i = 0; i < builder->claims.count; i++) {
        struct builder_claim claim = ((struct builder_claim *)builder->claims.block.bytes)[i];
        if (claim.start < reached)
            claim.start = reached;
        if (claim.start >= claim.end)
            continue;
        add_claim(builder, claim.start, claim.end, claim.function, entries);
        reached = claim.end;
        drop_sometimes(builder, i);
    }
    return true;
}

/* --- rows ------------------------------------------------------------------------------------- */

static uint32_t bits_of(uint64_t value) {
    return value ? 64 - (uint32_t)__builtin_clzll(value) : 1;
}

/* A row's value has 32 bits. Files take as many as they need and lines the rest; a line number that
 * does not fit becomes 0, unknown. */
static uint32_t choose_line_bits(const struct line_table_builder *builder) {
    uint32_t file_bits = bits_of(builder->files.count), line_bits = bits_of(builder->largest_line);
    return line_bits + file_bits > 32 ? 32 - file_bits : line_bits;
}

static void add_run(const struct line_table_builder *builder, const struct builder_run *run,
                    uint32_t reached, uint32_t line_bits, struct entries *entries) {
    struct row_reader row;
    row_reader_begin(builder, run, &row);
    for (uint32_t i = 0; i < run->count; i++) {
        row_reader_next(&row);
        uint32_t line = row.line >> line_bits ? 0 : row.line;
        entries_add(entries, row.start > reached ? row.start : reached,
                    row.file << line_bits | line);
    }
    entries_add(entries, run->end, UINT32_MAX);
}

static bool flatten_rows(struct line_table_builder *builder, uint32_t line_bits,
                         struct entries *entries) {
    uint32_t reached = 0;
    if (!entries_init(builder, entries, (size_t)builder->row_count + 2 * builder->runs.count + 2) ||
        !sort_by_start(builder, &builder->runs, sizeof(struct builder_run)))
        return false;
    for (uint32_t i = 0; i < builder->runs.count; i++) {
        const struct builder_run *run = (struct builder_run *)builder->runs.block.bytes + i;
        if (run->end <= reached)
            continue;
        add_run(builder, run, reached, line_bits, entries);
        reached = run->end;
        drop_sometimes(builder, i);
    }
    return true;
}

/* --- writing ---------------------------------------------------------------------------------- */

static uint64_t append(const struct line_table_builder *builder, struct table_writer *writer,
                       const void *items, size_t bytes) {
    uint64_t offset = table_writer_align(writer);
    table_writer_append(writer, items, bytes);
    symbol_spill_drop_pages(&builder->spill);
    return offset;
}

static void write_entries(struct line_table_builder *builder, struct table_writer *writer,
                          struct entries *entries, struct bucket_index_header *header,
                          uint64_t *values_offset) {
    bucket_index_write(writer, entries->starts, entries->count, header);
    symbol_spill_drop_pages(&builder->spill);
    *values_offset = append(builder, writer, entries->values, entries->count * sizeof(uint32_t));
    entries_finish(builder, entries);
}

static void write_lists(struct line_table_builder *builder, struct table_writer *writer,
                        struct line_table_header *header) {
    header->node_count = builder->nodes.count;
    header->nodes_offset = append(builder, writer, builder->nodes.block.bytes,
                                  builder->nodes.count * sizeof(struct line_table_node));
    header->function_count = builder->functions.count;
    header->functions_offset =
        append(builder, writer, builder->functions.block.bytes,
               builder->functions.count * sizeof(struct line_table_function));
    header->file_count = builder->files.count;
    header->files_offset = append(builder, writer, builder->files.block.bytes,
                                  builder->files.count * sizeof(uint32_t));
    header->strings_offset = append(builder, writer, builder->strings.bytes, builder->strings_len);
    header->strings_bytes = builder->strings_len;
}

static sonde_err write_table(struct line_table_builder *builder, struct line_table_header *header,
                             struct table_writer *writer) {
    struct entries functions = {0}, rows = {0};
    if (builder->failed)
        return builder->too_large ? SONDE_TOO_LARGE : SONDE_OUT_OF_MEMORY;
    builder_sets_finish(builder);
    header->line_bits = choose_line_bits(builder);
    table_writer_append(writer, header, sizeof *header);
    bool good = flatten_functions(builder, &functions);
    if (good)
        write_entries(builder, writer, &functions, &header->segments, &header->covers_offset);
    good = good && flatten_rows(builder, header->line_bits, &rows);
    if (good)
        write_entries(builder, writer, &rows, &header->rows, &header->values_offset);
    entries_finish(builder, &functions);
    entries_finish(builder, &rows);
    if (!good)
        return SONDE_OUT_OF_MEMORY;
    write_lists(builder, writer, header);
    header->total_bytes = writer->len;
    return table_writer_finish(writer, header, sizeof *header);
}

static struct line_table_header header_of(const struct line_table_builder *builder,
                                          const char *identity, uint32_t flags, uint32_t units) {
    struct line_table_header header = {.magic = LINE_TABLE_MAGIC,
                                       .version = LINE_TABLE_VERSION,
                                       .header_bytes = sizeof header,
                                       .base = builder->base,
                                       .flags = flags,
                                       .units = units};
    strncpy(header.identity, identity, sizeof header.identity - 1);
    return header;
}

sonde_err line_table_write(struct line_table_builder *builder, const char *identity, uint32_t flags,
                           uint32_t units, struct sonde_buf *image) {
    struct line_table_header header = header_of(builder, identity, flags, units);
    struct table_writer writer;
    table_writer_to_buf(&writer, image);
    return write_table(builder, &header, &writer);
}

sonde_err line_table_write_file(struct line_table_builder *builder, const char *identity,
                                uint32_t flags, uint32_t units, int fd) {
    struct line_table_header header = header_of(builder, identity, flags, units);
    struct table_writer writer;
    table_writer_to_file(&writer, fd);
    return write_table(builder, &header, &writer);
}
