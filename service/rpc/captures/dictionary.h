/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte strings numbered from 0 in the order of their first appearance: a stream's dictionary of
 * texts, frames or stacks. Bounded; the bytes may be hostile, so the hash is seeded.
 * Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_RPC_CAPTURES_DICTIONARY_H
#define SONDE_SERVICE_RPC_CAPTURES_DICTIONARY_H

#include "api/bytes.h"

#define INTERN_NONE UINT32_MAX

struct intern_item {
    const char *bytes;
    uint32_t len, hash;
};

/* Zeroed, with limit_bytes and seed set, is empty. */
struct intern {
    struct sonde_arena arena;
    struct intern_item *items;
    uint32_t *slots; /* number + 1, 0 = free */
    uint32_t count, capacity, slot_count;
    size_t limit_bytes;
    uint64_t seed;
};

/* The number of bytes; *is_new tells whether it was given now. INTERN_NONE past the bound or out of
 * memory. */
uint32_t intern_add(struct intern *intern, const void *bytes, size_t len, bool *is_new);
void intern_finish(struct intern *intern);

#endif
