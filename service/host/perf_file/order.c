/* SPDX-License-Identifier: Apache-2.0
 *
 * perf copies the rings of all processors to its file one after another, so a file is a sequence of
 * rounds, and only a round's end bounds how far back in time a record can lie: no record of a later
 * round is older than the newest record of the round before it. */
#include "service/host/perf_file/parts.h"

#include "api/base/array.h"

#include <stdlib.h>

bool perf_order_add(struct perf_order *order, uint64_t time_ns, const uint8_t *bytes, size_t size) {
    uint8_t *copy = malloc(size);
    if (!copy || !array_room(&order->items, &order->capacity, order->count, 1)) {
        free(copy);
        return false;
    }
    memcpy(copy, bytes, size);
    order->items[order->count++] =
        (struct perf_waiting){.time_ns = time_ns, .number = order->numbers++, .bytes = copy};
    order->bytes += size + sizeof *order->items;
    if (time_ns > order->newest_ns)
        order->newest_ns = time_ns;
    return true;
}

static int by_time(const void *a, const void *b) {
    const struct perf_waiting *left = a, *right = b;
    if (left->time_ns != right->time_ns)
        return left->time_ns < right->time_ns ? -1 : 1;
    return (left->number > right->number) - (left->number < right->number);
}

static void sort(struct perf_order *order) {
    bool is_sorted = true;
    for (uint32_t i = 1; i < order->count && is_sorted; i++)
        is_sorted = by_time(&order->items[i - 1], &order->items[i]) <= 0;
    if (!is_sorted)
        qsort(order->items, order->count, sizeof *order->items, by_time);
}

/* The first `count` of the sorted items. */
static void deliver_first(struct perf_order *order, uint32_t count, perf_deliver *deliver,
                          void *context) {
    for (uint32_t i = 0; i < count; i++) {
        struct perf_event_header header;
        memcpy(&header, order->items[i].bytes, sizeof header);
        order->bytes -= header.size + sizeof *order->items;
        deliver(context, order->items[i].bytes, header.size);
        free(order->items[i].bytes);
    }
    if (count == 0)
        return;
    if (order->items[count - 1].time_ns > order->delivered_ns)
        order->delivered_ns = order->items[count - 1].time_ns;
    order->count -= count;
    memmove(order->items, order->items + count, order->count * sizeof *order->items);
}

void perf_order_round(struct perf_order *order, perf_deliver *deliver, void *context) {
    uint32_t count = 0;
    sort(order);
    while (count < order->count && order->items[count].time_ns <= order->round_ns)
        count++;
    deliver_first(order, count, deliver, context);
    order->round_ns = order->newest_ns;
}

void perf_order_relieve(struct perf_order *order, perf_deliver *deliver, void *context) {
    if (order->bytes <= order->limit)
        return;
    sort(order);
    deliver_first(order, (order->count + 1) / 2, deliver, context);
}

void perf_order_flush(struct perf_order *order, perf_deliver *deliver, void *context) {
    sort(order);
    deliver_first(order, order->count, deliver, context);
}

void perf_order_finish(struct perf_order *order) {
    for (uint32_t i = 0; i < order->count; i++)
        free(order->items[i].bytes);
    free(order->items);
    *order = (struct perf_order){0};
}
