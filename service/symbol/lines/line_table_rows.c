/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows are the largest part of the collected data, so they are stored like a line program: a run of
 * code without gaps is a list of steps of about two bytes each.
 *
 *     address step << 1 | file changes, [file], line step (zigzag)
 *
 * Runs are sorted when the table is written; the rows of a run are sorted already. */
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

static struct builder_run *last_run(struct line_table_builder *builder) {
    struct builder_run *runs = builder->runs.block.bytes;
    return builder->runs.count ? &runs[builder->runs.count - 1] : NULL;
}

static struct builder_run *begin_run(struct line_table_builder *builder, uint32_t start) {
    struct builder_run *run = builder_list_add(builder, &builder->runs, sizeof *run);
    if (run)
        *run = (struct builder_run){start, start, builder->row_bytes_len, 0};
    builder->last_start = start;
    builder->last_file = builder->last_line = 0;
    return run;
}

static void add_step(struct line_table_builder *builder, struct builder_run *run, uint32_t file,
                     uint32_t line) {
    if (!builder_block_reserve(builder, &builder->row_bytes, builder->row_bytes_len, LONGEST_ROW))
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

void line_table_add_row(struct line_table_builder *builder, uint64_t start, uint64_t end,
                        uint32_t file, uint32_t line) {
    if (start < builder->base || end > builder->limit || start >= end || builder->failed)
        return;
    uint32_t from = (uint32_t)(start - builder->base);
    struct builder_run *run = last_run(builder);
    if (!run || run->end != from)
        run = begin_run(builder, from);
    if (run && (run->count == 0 || file != builder->last_file || line != builder->last_line))
        add_step(builder, run, file, line);
    if (run)
        run->end = (uint32_t)(end - builder->base);
    if (line > builder->largest_line)
        builder->largest_line = line;
}

void row_reader_begin(const struct line_table_builder *builder, const struct builder_run *run,
                      struct row_reader *reader) {
    const uint8_t *bytes = builder->row_bytes.bytes;
    *reader = (struct row_reader){
        .at = bytes + run->rows, .end = bytes + builder->row_bytes_len, .start = run->start};
}

void row_reader_next(struct row_reader *reader) {
    uint64_t step = get_number(&reader->at, reader->end);
    reader->start += (uint32_t)(step >> 1);
    if (step & 1)
        reader->file = (uint32_t)get_number(&reader->at, reader->end);
    uint64_t line = get_number(&reader->at, reader->end);
    reader->line += (uint32_t)(line >> 1 ^ -(line & 1));
}
