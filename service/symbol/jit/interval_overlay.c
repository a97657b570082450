/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/jit/interval_overlay.h"

#include <stdlib.h>

sonde_err symbol_ranges_add(struct symbol_ranges *ranges, const struct symbol_range *range) {
    if (ranges->count == SYMBOL_RANGES_MAX || range->start >= range->end)
        return SONDE_OK;
    if (ranges->count == ranges->capacity) {
        uint32_t capacity = ranges->capacity ? 2 * ranges->capacity : 1024;
        struct symbol_range *items = realloc(ranges->items, capacity * sizeof *items);
        if (!items)
            return SONDE_OUT_OF_MEMORY;
        ranges->items = items;
        ranges->capacity = capacity;
    }
    ranges->items[ranges->count++] = *range;
    return SONDE_OK;
}

void symbol_ranges_finish(struct symbol_ranges *ranges) {
    free(ranges->items);
    *ranges = (struct symbol_ranges){0};
}

/* Ranges by start; the newest of those open at a place is on top of a heap. */
struct painter {
    const struct symbol_range *items;
    uint32_t *by_start;
    uint32_t *heap;
    uint32_t heap_count;
    symbol_on_stretch *on_stretch;
    void *context;
};

static int compare_ranges(const void *left, const void *right, void *context) {
    const struct symbol_range *items = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (items[a].start != items[b].start)
        return items[a].start < items[b].start ? -1 : 1;
    return (a > b) - (a < b);
}

static void heap_push(struct painter *painter, uint32_t range) {
    uint32_t at = painter->heap_count++;
    while (at > 0 && painter->heap[(at - 1) / 2] < range) {
        painter->heap[at] = painter->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    painter->heap[at] = range;
}

static void heap_pop(struct painter *painter) {
    uint32_t last = painter->heap[--painter->heap_count], at = 0;
    for (uint32_t child; (child = 2 * at + 1) < painter->heap_count; at = child) {
        if (child + 1 < painter->heap_count && painter->heap[child + 1] > painter->heap[child])
            child++;
        if (painter->heap[child] <= last)
            break;
        painter->heap[at] = painter->heap[child];
    }
    painter->heap[at] = last;
}

/* Everything from *at up to `until`: each stretch goes to the newest range that covers it. */
static void paint(struct painter *painter, uint64_t *at, uint64_t until) {
    while (painter->heap_count) {
        const struct symbol_range *top = &painter->items[painter->heap[0]];
        uint64_t end = top->end < until ? top->end : until;
        if (*at < end && top->name_len > 0)
            painter->on_stretch(painter->context, top, *at, end);
        if (end > *at)
            *at = end;
        if (top->end > until)
            return;
        heap_pop(painter);
    }
    *at = until;
}

sonde_err symbol_ranges_paint(const struct symbol_ranges *ranges, symbol_on_stretch *on_stretch,
                              void *context) {
    uint32_t count = ranges->count;
    struct painter painter = {.items = ranges->items,
                              .by_start = calloc(count + 1, sizeof(uint32_t)),
                              .heap = calloc(count + 1, sizeof(uint32_t)),
                              .on_stretch = on_stretch,
                              .context = context};
    sonde_err err = painter.by_start && painter.heap ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    uint64_t at = 0;
    for (uint32_t i = 0; i < count && !err; i++)
        painter.by_start[i] = i;
    if (!err && count > 1)
        qsort_r(painter.by_start, count, sizeof(uint32_t), compare_ranges, (void *)ranges->items);
    for (uint32_t i = 0; i < count && !err; i++) {
        paint(&painter, &at, ranges->items[painter.by_start[i]].start);
        heap_push(&painter, painter.by_start[i]);
    }
    if (!err)
        paint(&painter, &at, UINT64_MAX);
    free(painter.by_start);
    free(painter.heap);
    return err;
}
