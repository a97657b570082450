/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/jit/interval_overlay.h"

#include "api/base/array.h"

#include <stdlib.h>

sonde_err symbol_overlay_add(struct symbol_overlay *overlay,
                             const struct symbol_interval *interval) {
    if (overlay->count == SYMBOL_OVERLAY_MAX || interval->start >= interval->end)
        return SONDE_OK;
    if (!array_room(&overlay->items, &overlay->capacity, overlay->count, 1))
        return SONDE_OUT_OF_MEMORY;
    overlay->items[overlay->count++] = *interval;
    return SONDE_OK;
}

void symbol_overlay_finish(struct symbol_overlay *overlay) {
    free(overlay->items);
    *overlay = (struct symbol_overlay){0};
}

/* Sweeps over the intervals in the order of their starts. The intervals that contain the current
 * address are in a heap, with the newest on top. */
struct sweep {
    const struct symbol_interval *items;
    uint32_t *by_start;
    uint32_t *heap;
    uint32_t heap_count;
    symbol_on_piece *on_piece;
    void *context;
};

static int compare_intervals(const void *left, const void *right, void *context) {
    const struct symbol_interval *items = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (items[a].start != items[b].start)
        return items[a].start < items[b].start ? -1 : 1;
    return (a > b) - (a < b);
}

static void heap_push(struct sweep *sweep, uint32_t interval) {
    uint32_t at = sweep->heap_count++;
    while (at > 0 && sweep->heap[(at - 1) / 2] < interval) {
        sweep->heap[at] = sweep->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sweep->heap[at] = interval;
}

static void heap_pop(struct sweep *sweep) {
    uint32_t last = sweep->heap[--sweep->heap_count], at = 0;
    for (uint32_t child; (child = 2 * at + 1) < sweep->heap_count; at = child) {
        if (child + 1 < sweep->heap_count && sweep->heap[child + 1] > sweep->heap[child])
            child++;
        if (sweep->heap[child] <= last)
            break;
        sweep->heap[at] = sweep->heap[child];
    }
    sweep->heap[at] = last;
}

/* Reports the pieces from *at to `until`, each with the newest interval that contains it. */
static void sweep_to(struct sweep *sweep, uint64_t *at, uint64_t until) {
    while (sweep->heap_count) {
        const struct symbol_interval *top = &sweep->items[sweep->heap[0]];
        uint64_t end = top->end < until ? top->end : until;
        if (*at < end && top->name_len > 0)
            sweep->on_piece(sweep->context, top, *at, end);
        if (end > *at)
            *at = end;
        if (top->end > until)
            return;
        heap_pop(sweep);
    }
    *at = until;
}

sonde_err symbol_overlay_each(const struct symbol_overlay *overlay, symbol_on_piece *on_piece,
                              void *context) {
    uint32_t count = overlay->count;
    struct sweep sweep = {.items = overlay->items,
                          .by_start = calloc(count + 1, sizeof(uint32_t)),
                          .heap = calloc(count + 1, sizeof(uint32_t)),
                          .on_piece = on_piece,
                          .context = context};
    sonde_err err = sweep.by_start && sweep.heap ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    uint64_t at = 0;
    for (uint32_t i = 0; i < count && !err; i++)
        sweep.by_start[i] = i;
    if (!err && count > 1)
        qsort_r(sweep.by_start, count, sizeof(uint32_t), compare_intervals, (void *)overlay->items);
    for (uint32_t i = 0; i < count && !err; i++) {
        sweep_to(&sweep, &at, overlay->items[sweep.by_start[i]].start);
        heap_push(&sweep, sweep.by_start[i]);
    }
    if (!err)
        sweep_to(&sweep, &at, UINT64_MAX);
    free(sweep.by_start);
    free(sweep.heap);
    return err;
}
