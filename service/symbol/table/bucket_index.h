/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the last of many sorted starts at or before an offset. An index divides the offsets into
 * equal-sized buckets and says how many starts are below each. A bucket covers at most 64 KiB, so
 * the low 16 bits of each start are enough, and it holds a few starts, so a lookup touches two
 * cache lines. Lookups stay in bounds on damaged arrays: the caller has checked that the arrays are
 * inside the image, and no value in them is trusted. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_TABLE_BUCKET_INDEX_H
#define SONDE_SERVICE_SYMBOL_TABLE_BUCKET_INDEX_H

#include "service/symbol/table/table_writer.h"

#define BUCKET_INDEX_NONE UINT32_MAX

struct bucket_index {
    const uint16_t *starts;  /* low 16 bits, sorted within a bucket */
    const uint32_t *buckets; /* bucket_count + 1: the number of starts below each bucket */
    uint32_t count, bucket_count, bucket_shift;
    uint64_t span; /* offsets from here on have no start */
};

/* The index in a table's header; the offsets are the image's. */
struct bucket_index_header {
    uint64_t starts_offset, buckets_offset, span;
    uint32_t count, bucket_count, bucket_shift, reserved;
};

/* Appends both arrays, 8-byte aligned, and fills the header. */
void bucket_index_write(struct table_writer *writer, const uint32_t *starts, uint32_t count,
                        struct bucket_index_header *header);
/* False if the arrays are not inside the image. */
bool bucket_index_open(const void *image, uint64_t len, const struct bucket_index_header *header,
                       struct bucket_index *index);

/* The number of the last start at or before offset, or BUCKET_INDEX_NONE. */
static inline uint32_t bucket_index_find(const struct bucket_index *index, uint64_t offset) {
    if (offset >= index->span)
        return BUCKET_INDEX_NONE;
    uint32_t bucket = (uint32_t)(offset >> index->bucket_shift);
    uint32_t low = index->buckets[bucket], high = index->buckets[bucket + 1];
    uint16_t wanted = (uint16_t)offset;
    if (high > index->count || low > high) /* only in a damaged image */
        return BUCKET_INDEX_NONE;
    while (high - low > 8) { /* the number of starts at or before the offset is in [low, high] */
        uint32_t middle = low + (high - low) / 2;
        if (index->starts[middle] <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    while (low < high && index->starts[low] <= wanted)
        low++;
    return low - 1; /* 0 - 1 is BUCKET_INDEX_NONE */
}

#endif
