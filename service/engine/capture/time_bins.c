/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/capture/time_bins.h"

#include "api/profile/timeline.h"

#include <stdlib.h>

#define BIN_NS         (SONDE_TIMELINE_BIN_MS * 1000000ull)
#define FIRST_CAPACITY 1024u

static void drop(struct time_bins *bins) {
    free(bins->items);
    *bins = (struct time_bins){.is_full = true};
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

static void add(struct time_bins *bins, const struct time_bin *item) {
    struct time_bin *last = bins->used ? &bins->items[bins->used - 1] : NULL;
    if (last && last->part == item->part && last->entry == item->entry && last->bin == item->bin)
        last->count += item->count;
    else if (bins->used < bins->capacity || grow(bins))
        bins->items[bins->used++] = *item;
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
    *bins = (struct time_bins){0};
}
