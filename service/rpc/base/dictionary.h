/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream's dictionary of texts, frames or stacks: byte strings numbered from 0 in the order of
 * their first appearance. Bounded. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_RPC_BASE_DICTIONARY_H
#define SONDE_SERVICE_RPC_BASE_DICTIONARY_H

#include "api/bytes.h"
#include "api/hash_index.h"

#define DICTIONARY_NONE HASH_INDEX_NONE

struct dictionary_item {
    const char *bytes;
    uint32_t len;
};

struct dictionary {
    struct sonde_arena arena;
    struct dictionary_item *items;
    uint32_t count, capacity;
    struct hash_index index; /* of items */
    size_t limit_bytes;
};

void dictionary_init(struct dictionary *dictionary, size_t limit_bytes);
/* Returns the string's number; *is_new says whether this call added it. DICTIONARY_NONE past the
 * bound or when out of memory. */
uint32_t dictionary_add(struct dictionary *dictionary, const void *bytes, size_t len, bool *is_new);
void dictionary_finish(struct dictionary *dictionary);

#endif
