/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts, numbered from 0 in the order of their first use. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_STORE_SQLITE_FORMAT_TEXT_LIST_H
#define SONDE_SERVICE_STORE_SQLITE_FORMAT_TEXT_LIST_H

#include "api/bytes.h"
#include "api/hash_index.h"

/* Zeroed memory is an empty list. */
struct text_list {
    const char **texts;
    size_t count, capacity;
    struct sonde_arena arena; /* the texts */
    struct hash_index index;
    bool failed; /* out of memory */
};

uint32_t text_list_number(struct text_list *list, const char *text);
/* Empties the list and keeps most of its memory. */
void text_list_clear(struct text_list *list);
void text_list_finish(struct text_list *list);

#endif
