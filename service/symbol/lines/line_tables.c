/* SPDX-License-Identifier: Apache-2.0
 *
 * Full tables: from the cache at once, else by one converter thread that runs one worker process at
 * a time. Who asks meanwhile is answered from names. */
#include "service/symbol/store.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define KIND "full"

void symbol_full_table_finish(struct symbol_full_table *table) {
    symbol_shown_finish(&table->shown);
    symbol_image_finish(&table->image);
    *table = (struct symbol_full_table){0};
}

/* Takes fd. */
static bool open_table(struct symbol_module *module, int fd, struct symbol_full_table *table) {
    bool good = fd >= 0 && symbol_table_is_whole(fd) &&
                symbol_image_map(fd, &table->image) == SONDE_OK &&
                symbol_full_open(table->image.bytes, table->image.len, module->identity, true,
                                 &table->full) == SONDE_OK &&
                symbol_shown_init(&table->shown, table->full.header->function_count) == SONDE_OK;
    if (fd >= 0)
        close(fd);
    if (!good)
        symbol_full_table_finish(table);
    return good;
}

static void settle(struct symbol_module *module, const struct symbol_failure *failure) {
    if (failure->cause) /* the next one who asks looks at the file anew */
        symbol_archive_let_go(module);
    else if (module->fd >= 0 && module->build_id[0])
        symbol_archive_keep(module);
    lock_take(&module->lock);
    module->full_state = SYMBOL_READY;
    module->failure = *failure;
    pthread_cond_broadcast(&module->changed);
    lock_drop(&module->lock);
}

/* --- the thread --------------------------------------------------------------------------------
 */

static struct symbol_module *take_next(struct symbol_store *store) {
    lock_take(&store->lock);
    while (!store->stopping && !store->queue)
        lock_wait(&store->lock, &store->wanted);
    struct symbol_module *module = store->stopping ? NULL : store->queue;
    if (module)
        store->queue = module->queued;
    lock_drop(&store->lock);
    return module;
}

static void *run_converter(void *context) {
    struct symbol_store *store = context;
    struct symbol_module *module;
    while ((module = take_next(store)) != NULL) {
        struct symbol_failure failure;
        open_table(module, symbol_convert(module, KIND, &failure), &module->full_table);
        store->tables_built += module->full_table.full.header != NULL;
        settle(module, &failure);
        symbol_module_release(module);
    }
    return NULL;
}

/* False when nothing will ever convert it. */
static bool enqueue(struct symbol_store *store, struct symbol_module *module) {
    lock_take(&store->lock);
    if (!store->converter_runs && !store->stopping)
        store->converter_runs = pthread_create(&store->converter, NULL, run_converter, store) == 0;
    bool good = store->converter_runs && !store->stopping;
    if (good) {
        struct symbol_module **last = &store->queue;
        while (*last)
            last = &(*last)->queued;
        module->queued = NULL;
        *last = module;
        module->references++;
        pthread_cond_signal(&store->wanted);
    }
    lock_drop(&store->lock);
    return good;
}

void symbol_converter_stop(struct symbol_store *store) {
    lock_take(&store->lock);
    bool runs = store->converter_runs;
    lock_drop(&store->lock);
    symbol_store_end(store);
    if (runs)
        pthread_join(store->converter, NULL);
    while (store->queue) {
        struct symbol_module *module = store->queue;
        store->queue = module->queued;
        symbol_module_release(module);
    }
}

/* --- asking ------------------------------------------------------------------------------------
 */

/* A failure of before, of an earlier module of the file or of an earlier service. */
static bool has_failed(struct symbol_module *module, struct symbol_failure *failure) {
    bool stands = symbol_failure_find(&module->store->cache, module->identity, KIND, failure) &&
                  symbol_failure_stands(failure, symbol_convert_subject(module));
    if (!stands)
        *failure = (struct symbol_failure){0};
    return stands;
}

static void begin(struct symbol_module *module) {
    struct symbol_store *store = module->store;
    struct symbol_failure failure = {0};
    int fd = module->fd >= 0 ? symbol_cache_open(&store->cache, module->identity, KIND) : -1;
    if (fd >= 0 && open_table(module, fd, &module->full_table)) {
        settle(module, &failure);
        return;
    }
    if (fd >= 0)
        symbol_cache_remove(&store->cache, module->identity, KIND);
    if (!store->worker || !symbol_module_has_dwarf(module) || has_failed(module, &failure) ||
        !enqueue(store, module))
        settle(module, &failure);
}

struct symbol_full_table *symbol_module_full(struct symbol_module *module,
                                             const struct timespec *deadline) {
    lock_take(&module->lock);
    bool again = module->full_state == SYMBOL_READY && module->failure.cause &&
                 !symbol_failure_stands(&module->failure, module->failure.subject);
    bool mine = again || module->full_state == SYMBOL_UNBUILT;
    if (mine)
        module->full_state = SYMBOL_BUILDING;
    lock_drop(&module->lock);
    if (mine)
        begin(module);
    lock_take(&module->lock);
    int waited = 0;
    while (deadline && module->full_state == SYMBOL_BUILDING && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&module->changed, &module->lock.mutex, deadline);
    bool ready = module->full_state == SYMBOL_READY && module->full_table.full.header;
    lock_drop(&module->lock);
    return ready ? &module->full_table : NULL;
}
