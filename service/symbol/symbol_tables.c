/* SPDX-License-Identifier: Apache-2.0
 *
 * A module's table of names: from the cache when it is there and whole, else built from the file
 * by a worker and published. One thread has it built, the others wait for it. */
#include "service/symbol/store.h"
#include "service/symbol/symtab/symbol_table.h"
#include "service/symbol/worker/worker.h"

#include <stdlib.h>
#include <unistd.h>

#define KIND "names"

void symbol_table_finish(struct symbol_table *table) {
    symbol_shown_finish(&table->shown);
    symbol_image_finish(&table->image);
    *table = (struct symbol_table){0};
}

/* Takes fd (-1 = none). A table that another process wrote counts when it is whole. */
static bool open_table(struct symbol_module *module, int fd, struct symbol_table *table) {
    bool good = fd >= 0 && symbol_table_is_whole(fd) &&
                symbol_image_map(fd, &table->image) == SONDE_OK &&
                symbol_names_open(table->image.bytes, table->image.len, module->identity, true,
                                  &table->names) == SONDE_OK;
    if (fd >= 0)
        close(fd);
    return good;
}

static bool load(struct symbol_module *module, struct symbol_table *table) {
    struct symbol_cache *cache = &module->store->cache;
    int fd = symbol_cache_open(cache, module->identity, KIND);
    if (fd < 0)
        return false;
    bool good = open_table(module, fd, table);
    /* A debug package may have come since an export-only table was made. */
    bool poor = good && table->names.header->quality < SYMBOL_NAMES && module->debug_fd >= 0 &&
                !(table->names.header->flags & SYMBOL_NAMES_HAD_DEBUG);
    if (good && !poor)
        return true;
    symbol_image_finish(&table->image);
    symbol_cache_remove(cache, module->identity, KIND);
    return false;
}

static bool build_here(struct symbol_module *module, struct symbol_table *table) {
    struct sonde_buf image = {0};
    bool good =
        symbol_names_of_files(module->fd, module->debug_fd, module->identity, &image) == SONDE_OK &&
        symbol_cache_publish(&module->store->cache, module->identity, KIND, &image,
                             &table->image) == SONDE_OK &&
        symbol_names_open(table->image.bytes, table->image.len, module->identity, true,
                          &table->names) == SONDE_OK;
    sonde_buf_finish(&image);
    return good;
}

/* A worker reads the file; where none can be had (no program for it, or a machine that lets nobody
 * be confined) this process does, by the same bounded reader. */
static bool build(struct symbol_module *module, struct symbol_table *table) {
    struct symbol_failure failure = {.cause = SYMBOL_FAILURE_NOT_STARTED};
    if (module->kind == SYMBOL_MODULE_NONE) /* no ELF file, or one that is gone */
        return false;
    bool good = module->store->worker &&
                open_table(module, symbol_convert(module, SYMBOL_WORKER_NAMES, &failure), table);
    if (!good &&
        (failure.cause == SYMBOL_FAILURE_NOT_STARTED || failure.cause == SYMBOL_FAILURE_CONFINED))
        good = build_here(module, table);
    module->store->tables_built += good;
    return good;
}

/* Its debug file may be had from elsewhere, in time for the next question. */
static void want_debug_file(struct symbol_module *module) {
    bool is_file =
        module->kind == SYMBOL_MODULE_EXECUTABLE || module->kind == SYMBOL_MODULE_LIBRARY;
    if (module->store->fetch && is_file && module->build_id[0] && !symbol_module_has_dwarf(module))
        (void)symbol_fetch_want(module->store->fetch, module->build_id);
}

static void make_table(struct symbol_module *module, struct symbol_table *table) {
    if (module->fd >= 0 && (load(module, table) || build(module, table)) &&
        symbol_shown_init(&table->shown, table->names.header->symbol_count) == SONDE_OK)
        symbol_archive_note(module);
    else
        symbol_table_finish(table);
    want_debug_file(module);
}

struct symbol_table *symbol_module_table(struct symbol_module *module) {
    lock_take(&module->lock);
    while (module->state == SYMBOL_BUILDING)
        lock_wait(&module->lock, &module->changed);
    bool mine = module->state == SYMBOL_UNBUILT;
    if (mine)
        module->state = SYMBOL_BUILDING;
    lock_drop(&module->lock);
    if (mine) {
        make_table(module, &module->table); /* nobody looks at it before READY */
        lock_take(&module->lock);
        if (module->table.names.header &&
            module->table.names.header->quality == SYMBOL_EXPORTS_ONLY)
            module->reason = SYMBOL_REASON_STRIPPED;
        module->state = SYMBOL_READY;
        pthread_cond_broadcast(&module->changed);
        lock_drop(&module->lock);
    }
    struct symbol_table *better = module->better;
    if (better)
        return better;
    return module->table.names.header ? &module->table : NULL;
}

/* Who uses the old table goes on with it: both live as long as the module. */
void symbol_module_improve(struct symbol_module *module) {
    struct symbol_table *old = symbol_module_table(module), *none = NULL;
    struct symbol_table *made = calloc(1, sizeof *made);
    if (!made || (old && old->names.header->quality >= SYMBOL_NAMES)) {
        free(made);
        return;
    }
    bool good = build(module, made) && made->names.header->quality >= SYMBOL_NAMES &&
                symbol_shown_init(&made->shown, made->names.header->symbol_count) == SONDE_OK;
    if (good && atomic_compare_exchange_strong(&module->better, &none, made)) {
        module->reason = SYMBOL_REASON_NONE;
        return;
    }
    symbol_table_finish(made);
    free(made);
}
