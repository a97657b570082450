/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/sqlite/format/text_list.h"

#include "api/base/array.h"

#include <stdlib.h>
#include <string.h>

uint32_t text_list_number(struct text_list *list, const char *text) {
    if (!list->texts)
        hash_index_init(&list->index);
    size_t len = strlen(text);
    uint32_t hash = hash_index_data(&list->index, text, len), number;
    struct hash_probe probe = hash_probe(hash);
    while ((number = hash_index_next(&list->index, &probe)) != HASH_INDEX_NONE)
        if (strcmp(list->texts[number], text) == 0)
            return number;
    char *copy = sonde_arena_dup(&list->arena, text, len);
    if (!copy || !array_room(&list->texts, &list->capacity, list->count, 1) ||
        !hash_index_add(&list->index, hash, (uint32_t)list->count)) {
        list->failed = true;
        return 0;
    }
    list->texts[list->count] = copy;
    return (uint32_t)list->count++;
}

void text_list_clear(struct text_list *list) {
    list->count = 0;
    list->failed = false;
    sonde_arena_finish(&list->arena);
    hash_index_clear(&list->index);
}

void text_list_finish(struct text_list *list) {
    free(list->texts);
    sonde_arena_finish(&list->arena);
    hash_index_finish(&list->index);
    *list = (struct text_list){0};
}
