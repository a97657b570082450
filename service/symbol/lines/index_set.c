/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/lines/index_set.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SIZE 256u

void symbol_intern_clear(struct symbol_intern *intern) {
    if (intern->count > 0)
        memset(intern->indexes, 0xff, (intern->mask + 1) * sizeof *intern->indexes);
    intern->count = 0;
}

void symbol_intern_finish(struct symbol_intern *intern) {
    free(intern->indexes);
    free(intern->hashes);
    *intern = (struct symbol_intern){0};
}

static bool grow(struct symbol_intern *intern) {
    size_t size = intern->mask ? 2 * (intern->mask + 1) : FIRST_SIZE;
    struct symbol_intern wider = {malloc(size * sizeof *wider.indexes),
                                  malloc(size * sizeof *wider.hashes), size - 1, intern->count};
    if (!wider.indexes || !wider.hashes) {
        symbol_intern_finish(&wider);
        return false;
    }
    memset(wider.indexes, 0xff, size * sizeof *wider.indexes);
    for (size_t i = 0; intern->mask && i <= intern->mask; i++) {
        if (intern->indexes[i] == SYMBOL_INTERN_FREE)
            continue;
        size_t at = intern->hashes[i] & wider.mask;
        while (wider.indexes[at] != SYMBOL_INTERN_FREE)
            at = (at + 1) & wider.mask;
        wider.indexes[at] = intern->indexes[i];
        wider.hashes[at] = intern->hashes[i];
    }
    symbol_intern_finish(intern);
    *intern = wider;
    return true;
}

uint32_t *symbol_intern_place(struct symbol_intern *intern, uint64_t hash,
                              symbol_intern_equal *equal, const void *context, const void *item) {
    if ((intern->mask == 0 || intern->count * 4 > intern->mask * 3) && !grow(intern))
        return NULL;
    uint32_t short_hash = (uint32_t)(hash ^ hash >> 32);
    size_t at = short_hash & intern->mask;
    for (; intern->indexes[at] != SYMBOL_INTERN_FREE; at = (at + 1) & intern->mask)
        if (intern->hashes[at] == short_hash && equal(context, intern->indexes[at], item))
            return &intern->indexes[at];
    intern->hashes[at] = short_hash;
    intern->count++;
    return &intern->indexes[at];
}

uint32_t symbol_intern_find(const struct symbol_intern *intern, uint64_t hash,
                            symbol_intern_equal *equal, const void *context, const void *item) {
    if (intern->mask == 0)
        return SYMBOL_INTERN_FREE;
    uint32_t short_hash = (uint32_t)(hash ^ hash >> 32);
    size_t at = short_hash & intern->mask;
    for (; intern->indexes[at] != SYMBOL_INTERN_FREE; at = (at + 1) & intern->mask)
        if (intern->hashes[at] == short_hash && equal(context, intern->indexes[at], item))
            break;
    return intern->indexes[at];
}
