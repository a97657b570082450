/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing array, for building batches. Zeroed memory plus the item size is an empty list; the
 * owner frees `items`. Thread safety: one thread at a time per list. */
#ifndef SONDE_SERVICE_STORE_LIST_H
#define SONDE_SERVICE_STORE_LIST_H

#include "api/base/array.h"

#include <string.h>

struct store_list {
    char *items;
    size_t count, capacity, item_size;
};

/* Returns a zeroed item, valid until the next call; NULL when out of memory. */
static inline void *store_list_add(struct store_list *list) {
    if (!array_room_sized(&list->items, list->item_size, &list->capacity, list->count, 1))
        return NULL;
    return memset(list->items + list->count++ * list->item_size, 0, list->item_size);
}

#endif
