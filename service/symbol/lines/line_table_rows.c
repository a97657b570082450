/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows are the larger part of what is collected, so they are kept as they would be in a line
 * program: a run of code without gaps has a list of steps, about two bytes each.
 *
 *     address step << 1 | file changes, [file], line step (zigzag)
 *
 * Runs are sorted when the table is written; rows within a run are already. */
#include "service/symbol/lines/line_table_builder.h"

#define LONGEST_ROW 15 /* three numbers of up to 33 bits */

static uint8_t *put_number(uint8_t *at, uint64_t value) {
    for (; value >= 128; value >>= 7)
        *at++ = (uint8_t)(value | 128);
    *at++ = (uint8_t)value;
    return at;
}

static uint64_t get_number(const uint8_t **at, const uint8_t *end) {
    uint64_t value = 0;
    for (unsigned shift = 0; *at < end && shift < 63; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            break;
    }
    return value;
}

static struct full_run *last_run(struct symbol_full_builder *builder) {
    struct full_run *runs = builder->runs.block.bytes;
    return builder->runs.count ? &runs[builder->runs.count - 1] : NULL;
}

static struct full_run *begin_run(struct symbol_full_builder *builder, uint32_t start) {
    struct full_run *run = full_list_add(builder, &builder->runs, sizeof *run);
    if (run)
        *run = (struct full_run){start, start, builder->row_bytes_len, 0};
    builder->last_start = start;
    builder->last_file = builder->last_line = 0;
    return run;
}

static void add_step(struct symbol_full_builder *builder, struct full_run *run, uint32_t file,
                     uint32_t line) {
    if (!full_block_reserve(builder, &builder->row_bytes, builder->row_bytes_len, LONGEST_ROW))
        return;
    uint8_t *bytes = builder->row_bytes.bytes, *at = bytes + builder->row_bytes_len;
    bool changes = file != builder->last_file;
    int64_t step = (int64_t)line - builder->last_line;
    at = put_number(at, (uint64_t)(run->end - builder->last_start) << 1 | changes);
    if (changes)
        at = put_number(at, file);
    at = put_number(at, (uint64_t)step << 1 ^ (uint64_t)(step >> 63));
    builder->row_bytes_len = (size_t)(at - bytes);
    builder->last_start = run->end;
    builder->last_file = file;
    builder->last_line = line;
    builder->row_count++;
    run->count++;
}

void symbol_full_add_row(struct symbol_full_builder *builder, uint64_t start, uint64_t end,
                         uint32_t file, uint32_t line) {
    if (start < builder->base || end > builder->limit || start >= end || builder->failed)
        return;
    uint32_t from = (uint32_t)(start - builder->base);
    struct full_run *run = last_run(builder);
    if (!run || run->end != from)
        run = begin_run(builder, from);
    if (run && (run->count == 0 || file != builder->last_file || line != builder->last_line))
        add_step(builder, run, file, line);
    if (run)
        run->end = (uint32_t)(end - builder->base);
    if (line > builder->largest_line)
        builder->largest_line = line;
}

void full_rows_begin(const struct symbol_full_builder *builder, const struct full_run *run,
                     struct full_row_reader *reader) {
    const uint8_t *bytes = builder->row_bytes.bytes;
    *reader = (struct full_row_reader){
        .at = bytes + run->rows, .end = bytes + builder->row_bytes_len, .start = run->start};
}

void full_rows_next(struct full_row_reader *reader) {
    uint64_t step = get_number(&reader->at, reader->end);
    reader->start += (uint32_t)(step >> 1);
    if (step & 1)
        reader->file = (uint32_t)get_number(&reader->at, reader->end);
    uint64_t line = get_number(&reader->at, reader->end);
    reader->line += (uint32_t)(line >> 1 ^ -(line & 1));
}
