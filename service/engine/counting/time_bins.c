/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/counting/time_bins.h"

#include "api/profile/timeline.h"

#include <stdlib.h>
#include <string.h>

#define BIN_NS         (SONDE_TIMELINE_BIN_MS * 1000000ull)
#define FIRST_CAPACITY 1024u

static void drop(struct time_bins *bins) {
    time_bins_finish(bins);
    bins->is_full = true;
}

static bool grow(struct time_bins *bins) {
    uint32_t capacity = bins->capacity ? bins->capacity * 2 : FIRST_CAPACITY;
    struct time_bin *items = NULL;
    if (capacity <= SONDE_TIMELINE_MAX)
        items = realloc(bins->items, capacity * sizeof *items);
    if (!items) {
        drop(bins);
        return false;
    }
    bins->items = items;
    bins->capacity = capacity;
    return true;
}

/* Where the index of the entry's newest item is. NULL when out of memory. */
static uint32_t *last_of(struct time_bins *bins, const struct time_bin *item) {
    if (item->part != bins->last_part && bins->last)
        memset(bins->last, 0, bins->last_capacity * sizeof *bins->last);
    bins->last_part = item->part;
    if (item->entry >= bins->last_capacity) {
        uint32_t capacity = item->entry < FIRST_CAPACITY ? FIRST_CAPACITY : item->entry * 2;
        uint32_t *last = realloc(bins->last, capacity * sizeof *last);
        if (!last)
            return NULL;
        memset(last + bins->last_capacity, 0, (capacity - bins->last_capacity) * sizeof *last);
        bins->last = last;
        bins->last_capacity = capacity;
    }
    return &bins->last[item->entry];
}

/* An entry's records arrive almost in order of time, so its newest item is mostly the one. */
static void add(struct time_bins *bins, const struct time_bin *item) {
    uint32_t *last = last_of(bins, item);
    if (!last) {
        drop(bins);
    } else if (*last && bins->items[*last - 1].bin == item->bin) {
        bins->items[*last - 1].count += item->count;
    } else if (bins->used < bins->capacity || grow(bins)) {
        bins->items[bins->used++] = *item;
        *last = bins->used;
    }
}

void time_bins_add(struct time_bins *bins, uint32_t part, uint32_t entry,
                   const struct time_span *span, uint64_t start_ns, uint64_t n) {
    uint64_t end_ns = span->end_ns > start_ns ? span->end_ns - start_ns : 0;
    uint64_t length_ns = span->length_ns < end_ns ? span->length_ns : end_ns;
    uint64_t begin_ns = end_ns - length_ns, done = 0;
    for (uint64_t bin = begin_ns / BIN_NS; done < n && !bins->is_full; bin++) {
        uint64_t until_ns = (bin + 1) * BIN_NS;
        uint64_t wanted = n;
        if (until_ns < end_ns)
            wanted = (uint64_t)((double)n * (double)(until_ns - begin_ns) / (double)length_ns);
        struct time_bin item = {part, entry, (uint32_t)bin, (uint32_t)(wanted - done)};
        if (wanted > done)
            add(bins, &item);
        done = wanted > done ? wanted : done;
    }
}

void time_bins_finish(struct time_bins *bins) {
    free(bins->items);
    free(bins->last);
    *bins = (struct time_bins){0};
}
