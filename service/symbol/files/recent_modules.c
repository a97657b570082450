/* SPDX-License-Identifier: Apache-2.0
 *
 * The modules that were asked for by build-id lately. The store retains them, because requests for
 * a file come in bursts and opening its tables for each request would be slow. */
#include "service/symbol/store.h"

#include <string.h>

/* Releasing a module takes the store's lock, so modules leave the list first. */

void symbol_recent_add(struct symbol_module *module) {
    struct symbol_store *store = module->store;
    struct symbol_module *oldest = NULL;
    bool is_there = false;
    lock_take(&store->lock);
    for (uint32_t i = 0; i < SYMBOL_RECENT_MODULES; i++)
        is_there = is_there || store->recent[i] == module;
    if (!is_there) {
        struct symbol_module **slot = &store->recent[store->next_recent++ % SYMBOL_RECENT_MODULES];
        oldest = *slot;
        *slot = module;
        module->references++;
    }
    lock_drop(&store->lock);
    symbol_module_release(oldest);
}

void symbol_recent_remove(struct symbol_module *module) {
    struct symbol_store *store = module->store;
    struct symbol_module *found = NULL;
    lock_take(&store->lock);
    for (uint32_t i = 0; i < SYMBOL_RECENT_MODULES && !found; i++) {
        if (store->recent[i] != module)
            continue;
        found = module;
        store->recent[i] = NULL;
    }
    lock_drop(&store->lock);
    symbol_module_release(found);
}

void symbol_recent_remove_all(struct symbol_store *store, const char *build_id) {
    struct symbol_module *removed[SYMBOL_RECENT_MODULES];
    uint32_t count = 0;
    lock_take(&store->lock);
    for (uint32_t i = 0; i < SYMBOL_RECENT_MODULES; i++) {
        struct symbol_module *module = store->recent[i];
        if (!module || (build_id && strcmp(module->build_id, build_id) != 0))
            continue;
        removed[count++] = module;
        store->recent[i] = NULL;
    }
    lock_drop(&store->lock);
    while (count > 0)
        symbol_module_release(removed[--count]);
}
