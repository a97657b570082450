/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/spans.h"

uint64_t symbol_image_align(struct sonde_buf *image) {
    while (image->len % 8 && !image->failed)
        sonde_buf_putc(image, 0);
    return image->len;
}

bool symbol_array_fits(uint64_t len, uint64_t offset, uint64_t count, size_t item_size) {
    return offset <= len && offset % 4 == 0 && count <= (len - offset) / item_size;
}

/* The size of a bucket: about one start each, so that the index is as large as the starts. */
static uint32_t bucket_shift(uint64_t span, uint32_t count) {
    uint32_t shift = 4;
    while (shift < 31 && (span >> shift) > count)
        shift++;
    return shift;
}

void symbol_spans_write(struct sonde_buf *image, const uint32_t *starts, uint32_t count,
                        struct symbol_spans_header *header) {
    *header = (struct symbol_spans_header){.count = count};
    header->span = count ? starts[count - 1] : 0; /* the last one begins the gap at the end */
    header->bucket_shift = bucket_shift(header->span, count);
    header->bucket_count = (uint32_t)(header->span >> header->bucket_shift) + 1;
    header->starts_offset = symbol_image_align(image);
    sonde_buf_append(image, starts, (size_t)count * sizeof *starts);
    header->buckets_offset = symbol_image_align(image);
    size_t entries = (size_t)header->bucket_count + 1;
    uint32_t *buckets = (uint32_t *)(void *)sonde_buf_extend(image, entries * sizeof *buckets);
    uint32_t at = 0;
    for (size_t i = 0; buckets && i < entries; i++) {
        uint64_t from = (uint64_t)i << header->bucket_shift;
        while (at + 1 < count && starts[at + 1] <= from)
            at++;
        buckets[i] = at;
    }
}

bool symbol_spans_open(const void *image, uint64_t len, const struct symbol_spans_header *header,
                       struct symbol_spans *spans) {
    if (header->bucket_shift >= 32 || header->span > UINT32_MAX ||
        (header->span >> header->bucket_shift) >= header->bucket_count ||
        !symbol_array_fits(len, header->starts_offset, header->count, 4) ||
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
