/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorted starts with an index of equal-sized buckets over them: which start is the last one at or
 * before an offset? A bucket is at most 64 KiB of offsets, so that of a start only the low 16 bits
 * are kept, and holds a few starts: two cache lines answer. Safe on damaged arrays: the caller has
 * checked that they lie in the image, and no value read from them is trusted. Thread safety: any
 * thread. */
#ifndef SONDE_SERVICE_SYMBOL_TABLE_BUCKET_INDEX_H
#define SONDE_SERVICE_SYMBOL_TABLE_BUCKET_INDEX_H

#include "service/symbol/table/table_writer.h"

#define SYMBOL_NO_SPAN UINT32_MAX

struct symbol_spans {
    const uint16_t *starts;  /* count, rising within a bucket */
    const uint32_t *buckets; /* bucket_count + 1: how many starts lie below the bucket */
    uint32_t count, bucket_count, bucket_shift;
    uint64_t span; /* offsets at or above have no start */
};

/* As it is stored in a header; the arrays lie at these offsets of the image. */
struct symbol_spans_header {
    uint64_t starts_offset, buckets_offset, span;
    uint32_t count, bucket_count, bucket_shift, reserved;
};

/* Appends both arrays, 8-byte aligned, and fills the header. */
void symbol_spans_write(struct symbol_sink *sink, const uint32_t *starts, uint32_t count,
                        struct symbol_spans_header *header);
/* False when they do not lie in the image. */
bool symbol_spans_open(const void *image, uint64_t len, const struct symbol_spans_header *header,
                       struct symbol_spans *spans);
/* count items of item_size lie at offset of an image of len bytes, aligned to 4. */
bool symbol_array_fits(uint64_t len, uint64_t offset, uint64_t count, size_t item_size);

static inline uint32_t symbol_spans_find(const struct symbol_spans *spans, uint64_t offset) {
    if (offset >= spans->span)
        return SYMBOL_NO_SPAN;
    uint32_t bucket = (uint32_t)(offset >> spans->bucket_shift);
    uint32_t low = spans->buckets[bucket], high = spans->buckets[bucket + 1];
    uint16_t wanted = (uint16_t)offset;
    if (high > spans->count || low > high) /* only in a damaged image */
        return SYMBOL_NO_SPAN;
    while (high - low > 8) { /* the number of starts at or before the offset is in [low, high] */
        uint32_t middle = low + (high - low) / 2;
        if (spans->starts[middle] <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    while (low < high && spans->starts[low] <= wanted)
        low++;
    return low - 1; /* 0 - 1 is SYMBOL_NO_SPAN */
}

#endif
