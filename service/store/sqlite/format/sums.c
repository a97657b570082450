/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/sqlite/format/sums.h"

#include <stdlib.h>
#include <string.h>

void sums_grow(struct sums *sums) {
    size_t before = sums->items ? sums->mask + 1 : 0, size = before ? 2 * before : 4096;
    struct sums old = *sums;
    struct sums_item *items = sums->failed ? NULL : calloc(size, sizeof *items);
    if (!items) {
        sums->failed = true;
        return;
    }
    sums->items = items;
    sums->mask = size - 1;
    for (size_t i = 0; i < before; i++)
        if (old.items[i].key)
            *sums_slot(sums, old.items[i].key) = old.items[i];
    free(old.items);
}

static int compare(const void *left, const void *right) {
    const struct sums_item *a = left, *b = right;
    return (a->key > b->key) - (a->key < b->key);
}

size_t sums_sort(struct sums *sums) {
    size_t count = 0;
    for (size_t i = 0; sums->items && i <= sums->mask; i++)
        if (sums->items[i].key)
            sums->items[count++] = sums->items[i];
    if (count)
        qsort(sums->items, count, sizeof *sums->items, compare);
    return count;
}

void sums_clear(struct sums *sums) {
    if (sums->items)
        memset(sums->items, 0, (sums->mask + 1) * sizeof *sums->items);
    sums->count = 0;
}

void sums_finish(struct sums *sums) {
    free(sums->items);
    *sums = (struct sums){0};
}
