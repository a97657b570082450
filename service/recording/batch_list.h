/* SPDX-License-Identifier: Apache-2.0
 *
 * Appends to a batch's arrays. Internal to service/recording. */
#ifndef SONDE_SERVICE_RECORDING_BATCH_LIST_H
#define SONDE_SERVICE_RECORDING_BATCH_LIST_H

#include "service/recording/batch.h"

#include <stdlib.h>
#include <string.h>

/* A zeroed item, valid until the next call; NULL when out of memory. */
static inline void *batch_list_add(struct batch_list *list) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 64;
        char *items = realloc(list->items, capacity * list->item_size);
        if (!items)
            return NULL;
        list->items = items;
        list->capacity = capacity;
    }
    return memset(list->items + list->count++ * list->item_size, 0, list->item_size);
}

#endif
