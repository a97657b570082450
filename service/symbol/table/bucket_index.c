/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/table/bucket_index.h"

#include "service/symbol/table/table_file.h"

#define STARTS_IN_BUCKET 4
#define LARGEST_SHIFT    16 /* starts are stored in 16 bits */

static uint32_t bucket_shift(uint64_t span, uint32_t count) {
    uint32_t shift = 4;
    while (shift < LARGEST_SHIFT && (span >> shift) > count / STARTS_IN_BUCKET)
        shift++;
    return shift;
}

static void write_starts(struct table_writer *writer, const uint32_t *starts, uint32_t count) {
    uint16_t piece[4096];
    for (uint32_t done = 0; done < count;) {
        uint32_t len = 0;
        while (len < sizeof piece / sizeof *piece && done < count)
            piece[len++] = (uint16_t)starts[done++];
        table_writer_append(writer, piece, len * sizeof *piece);
    }
}

static void write_buckets(struct table_writer *writer, const uint32_t *starts, uint32_t count,
                          const struct bucket_index_header *header) {
    uint32_t below = 0;
    for (uint64_t i = 0; i <= header->bucket_count; i++) {
        uint64_t from = i << header->bucket_shift;
        while (below < count && starts[below] < from)
            below++;
        table_writer_append(writer, &below, sizeof below);
    }
}

void bucket_index_write(struct table_writer *writer, const uint32_t *starts, uint32_t count,
                        struct bucket_index_header *header) {
    *header = (struct bucket_index_header){.count = count};
    header->span = count ? starts[count - 1] : 0; /* the last start begins the gap at the end */
    header->bucket_shift = bucket_shift(header->span, count);
    header->bucket_count = (uint32_t)(header->span >> header->bucket_shift) + 1;
    header->starts_offset = table_writer_align(writer);
    write_starts(writer, starts, count);
    header->buckets_offset = table_writer_align(writer);
    write_buckets(writer, starts, count, header);
}

bool bucket_index_open(const void *image, uint64_t len, const struct bucket_index_header *header,
                       struct bucket_index *index) {
    if (header->bucket_shift > LARGEST_SHIFT || header->span > UINT32_MAX ||
        (header->span >> header->bucket_shift) >= header->bucket_count ||
        !table_array_fits(len, header->starts_offset, header->count, 2) ||
        !table_array_fits(len, header->buckets_offset, (uint64_t)header->bucket_count + 1, 4))
        return false;
    const char *bytes = image;
    *index = (struct bucket_index){
        .starts = (const void *)(bytes + header->starts_offset),
        .buckets = (const void *)(bytes + header->buckets_offset),
        .count = header->count,
        .bucket_count = header->bucket_count,
        .bucket_shift = header->bucket_shift,
        .span = header->span,
    };
    return true;
}
