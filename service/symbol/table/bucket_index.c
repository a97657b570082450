/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/table/bucket_index.h"

bool symbol_array_fits(uint64_t len, uint64_t offset, uint64_t count, size_t item_size) {
    return offset <= len && offset % 4 == 0 && count <= (len - offset) / item_size;
}

#define STARTS_IN_BUCKET 4
#define LARGEST_SHIFT    16 /* what a start's 16 bits can tell apart */

static uint32_t bucket_shift(uint64_t span, uint32_t count) {
    uint32_t shift = 4;
    while (shift < LARGEST_SHIFT && (span >> shift) > count / STARTS_IN_BUCKET)
        shift++;
    return shift;
}

static void write_starts(struct symbol_sink *sink, const uint32_t *starts, uint32_t count) {
    uint16_t piece[4096];
    for (uint32_t done = 0; done < count;) {
        uint32_t len = 0;
        while (len < sizeof piece / sizeof *piece && done < count)
            piece[len++] = (uint16_t)starts[done++];
        symbol_sink_append(sink, piece, len * sizeof *piece);
    }
}

static void write_buckets(struct symbol_sink *sink, const uint32_t *starts, uint32_t count,
                          const struct symbol_spans_header *header) {
    uint32_t below = 0;
    for (uint64_t i = 0; i <= header->bucket_count; i++) {
        uint64_t from = i << header->bucket_shift;
        while (below < count && starts[below] < from)
            below++;
        symbol_sink_append(sink, &below, sizeof below);
    }
}

void symbol_spans_write(struct symbol_sink *sink, const uint32_t *starts, uint32_t count,
                        struct symbol_spans_header *header) {
    *header = (struct symbol_spans_header){.count = count};
    header->span = count ? starts[count - 1] : 0; /* the last one begins the gap at the end */
    header->bucket_shift = bucket_shift(header->span, count);
    header->bucket_count = (uint32_t)(header->span >> header->bucket_shift) + 1;
    header->starts_offset = symbol_sink_align(sink);
    write_starts(sink, starts, count);
    header->buckets_offset = symbol_sink_align(sink);
    write_buckets(sink, starts, count, header);
}

bool symbol_spans_open(const void *image, uint64_t len, const struct symbol_spans_header *header,
                       struct symbol_spans *spans) {
    if (header->bucket_shift > LARGEST_SHIFT || header->span > UINT32_MAX ||
        (header->span >> header->bucket_shift) >= header->bucket_count ||
        !symbol_array_fits(len, header->starts_offset, header->count, 2) ||
        !symbol_array_fits(len, header->buckets_offset, (uint64_t)header->bucket_count + 1, 4))
        return false;
    const char *bytes = image;
    *spans = (struct symbol_spans){
        .starts = (const void *)(bytes + header->starts_offset),
        .buckets = (const void *)(bytes + header->buckets_offset),
        .count = header->count,
        .bucket_count = header->bucket_count,
        .bucket_shift = header->bucket_shift,
        .span = header->span,
    };
    return true;
}
