/* SPDX-License-Identifier: Apache-2.0
 *
 * The line table of a module: loaded from the cache, else built in the background by the store's
 * lines thread, which runs one worker at a time. Until it is ready, requests are answered from the
 * symbol table. */
#include "service/symbol/store.h"
#include "service/symbol/table/table_file.h"
#include "service/symbol/worker/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

void loaded_lines_finish(struct loaded_lines *lines) {
    symbol_display_names_finish(&lines->display);
    symbol_image_finish(&lines->image);
    *lines = (struct loaded_lines){0};
}

/* Takes fd. */
static bool open_table(struct symbol_module *module, int fd, struct loaded_lines *lines) {
    bool good =
        fd >= 0 && table_file_is_whole(fd) && symbol_image_map(fd, &lines->image) == SONDE_OK &&
        line_table_open(lines->image.bytes, lines->image.len, module->identity, true,
                        &lines->table) == SONDE_OK &&
        symbol_display_names_init(&lines->display, lines->table.header->function_count) == SONDE_OK;
    if (fd >= 0)
        close(fd);
    if (!good)
        loaded_lines_finish(lines);
    return good;
}

static void settle(struct symbol_module *module, const struct symbol_failure *failure) {
    if (failure->cause) /* so that the next request opens the file again */
        symbol_recent_remove(module);
    else if (module->fd >= 0 && module->build_id[0])
        symbol_recent_add(module);
    lock_take(&module->lock);
    module->lines_state = SYMBOL_READY;
    module->failure = *failure;
    pthread_cond_broadcast(&module->changed);
    lock_drop(&module->lock);
}

/* --- the lines thread ------------------------------------------------------------------------- */

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

static void *run_lines_thread(void *context) {
    struct symbol_store *store = context;
    struct symbol_module *module;
    while ((module = take_next(store)) != NULL) {
        struct symbol_failure failure;
        open_table(module, symbol_worker_run(module, SYMBOL_WORKER_LINES, &failure),
                   &module->lines);
        store->tables_built += module->lines.table.header != NULL;
        settle(module, &failure);
        symbol_module_release(module);
    }
    return NULL;
}

/* False if the table will not be built, because there is no thread or the store is ending. */
static bool enqueue(struct symbol_store *store, struct symbol_module *module) {
    lock_take(&store->lock);
    if (!store->has_lines_thread && !store->stopping)
        store->has_lines_thread =
            pthread_create(&store->lines_thread, NULL, run_lines_thread, store) == 0;
    bool good = store->has_lines_thread && !store->stopping;
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

void symbol_lines_thread_stop(struct symbol_store *store) {
    lock_take(&store->lock);
    bool runs = store->has_lines_thread;
    lock_drop(&store->lock);
    symbol_store_end(store);
    if (runs)
        pthread_join(store->lines_thread, NULL);
    while (store->queue) {
        struct symbol_module *module = store->queue;
        store->queue = module->queued;
        symbol_module_release(module);
    }
}

/* --- requests --------------------------------------------------------------------------------- */

/* Whether a run for this file failed lately, perhaps for an earlier module or in an earlier
 * service. */
static bool has_failed(struct symbol_module *module, struct symbol_failure *failure) {
    bool stands = symbol_failure_find(&module->store->cache, module->identity, SYMBOL_WORKER_LINES,
                                      failure) &&
                  symbol_failure_stands(failure, symbol_worker_subject(module));
    if (!stands)
        *failure = (struct symbol_failure){0};
    return stands;
}

static void begin(struct symbol_module *module) {
    struct symbol_store *store = module->store;
    struct symbol_failure failure = {0};
    int fd = module->fd >= 0
                 ? symbol_cache_open(&store->cache, module->identity, SYMBOL_WORKER_LINES)
                 : -1;
    if (fd >= 0 && open_table(module, fd, &module->lines)) {
        settle(module, &failure);
        return;
    }
    if (fd >= 0)
        symbol_cache_remove(&store->cache, module->identity, SYMBOL_WORKER_LINES);
    if (!store->worker || !symbol_module_has_dwarf(module) || has_failed(module, &failure) ||
        !enqueue(store, module))
        settle(module, &failure);
}

struct loaded_lines *symbol_module_lines(struct symbol_module *module,
                                         const struct timespec *deadline) {
    lock_take(&module->lock);
    bool again = module->lines_state == SYMBOL_READY && module->failure.cause &&
                 !symbol_failure_stands(&module->failure, module->failure.subject);
    bool mine = again || module->lines_state == SYMBOL_UNBUILT;
    if (mine)
        module->lines_state = SYMBOL_BUILDING;
    lock_drop(&module->lock);
    if (mine)
        begin(module);
    lock_take(&module->lock);
    while (deadline && module->lines_state == SYMBOL_BUILDING &&
           lock_wait_until(&module->lock, &module->changed, deadline))
        continue;
    bool ready = module->lines_state == SYMBOL_READY && module->lines.table.header;
    lock_drop(&module->lock);
    return ready ? &module->lines : NULL;
}
