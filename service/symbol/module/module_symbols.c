/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbol table of a module: loaded from the cache, else built by a worker and added to the
 * cache. The first thread that asks does this while the others wait. */
#include "service/symbol/store.h"
#include "service/symbol/symtab/symbol_table.h"
#include "service/symbol/table/table_file.h"
#include "service/symbol/worker/worker.h"

#include <stdlib.h>
#include <unistd.h>

void loaded_symbols_finish(struct loaded_symbols *symbols) {
    symbol_display_names_finish(&symbols->display);
    symbol_image_finish(&symbols->image);
    *symbols = (struct loaded_symbols){0};
}

/* Takes fd (-1 = none). */
static bool open_table(struct symbol_module *module, int fd, struct loaded_symbols *symbols) {
    bool good = fd >= 0 && table_file_is_whole(fd) &&
                symbol_image_map(fd, &symbols->image) == SONDE_OK &&
                symbol_table_open(symbols->image.bytes, symbols->image.len, module->identity, true,
                                  &symbols->table) == SONDE_OK;
    if (fd >= 0)
        close(fd);
    return good;
}

static bool load(struct symbol_module *module, struct loaded_symbols *symbols) {
    struct symbol_cache *cache = &module->store->cache;
    int fd = symbol_cache_open(cache, module->identity, SYMBOL_WORKER_SYMBOLS);
    if (fd < 0)
        return false;
    bool good = open_table(module, fd, symbols);
    /* A debug file may have been installed since a table of exports was built. */
    bool poor = good && symbols->table.header->quality < SYMBOL_NAMES && module->debug_fd >= 0 &&
                !(symbols->table.header->flags & SYMBOL_TABLE_HAD_DEBUG);
    if (good && !poor)
        return true;
    symbol_image_finish(&symbols->image);
    symbol_cache_remove(cache, module->identity, SYMBOL_WORKER_SYMBOLS);
    return false;
}

static bool build_here(struct symbol_module *module, struct loaded_symbols *symbols) {
    struct sonde_buf image = {0};
    bool good = symbol_table_build_from_files(module->fd, module->debug_fd, module->identity,
                                              &image) == SONDE_OK &&
                symbol_cache_publish(&module->store->cache, module->identity, SYMBOL_WORKER_SYMBOLS,
                                     &image, &symbols->image) == SONDE_OK &&
                symbol_table_open(symbols->image.bytes, symbols->image.len, module->identity, true,
                                  &symbols->table) == SONDE_OK;
    sonde_buf_finish(&image);
    return good;
}

/* Has a worker read the file. If there can be no worker (no program for it, or the machine does not
 * support its confinement), reads the file in this process. */
static bool build(struct symbol_module *module, struct loaded_symbols *symbols) {
    struct symbol_failure failure = {.cause = SYMBOL_FAILURE_NOT_STARTED};
    if (module->kind == SYMBOL_MODULE_NONE) /* not ELF, or the file is gone */
        return false;
    bool good =
        module->store->worker &&
        open_table(module, symbol_worker_run(module, SYMBOL_WORKER_SYMBOLS, &failure), symbols);
    if (!good &&
        (failure.cause == SYMBOL_FAILURE_NOT_STARTED || failure.cause == SYMBOL_FAILURE_CONFINED))
        good = build_here(module, symbols);
    module->store->tables_built += good;
    return good;
}

/* Asks debuginfod servers for the debug file, for later requests. */
static void fetch_debug_file(struct symbol_module *module) {
    bool is_file =
        module->kind == SYMBOL_MODULE_EXECUTABLE || module->kind == SYMBOL_MODULE_LIBRARY;
    if (module->store->fetch && is_file && module->build_id[0] && !symbol_module_has_dwarf(module))
        (void)symbol_fetch_want(module->store->fetch, module->build_id);
}

static void make_table(struct symbol_module *module, struct loaded_symbols *symbols) {
    if (module->fd >= 0 && (load(module, symbols) || build(module, symbols)) &&
        symbol_display_names_init(&symbols->display, symbols->table.header->symbol_count) ==
            SONDE_OK)
        symbol_module_save_file_info(module);
    else
        loaded_symbols_finish(symbols);
    fetch_debug_file(module);
}

struct loaded_symbols *symbol_module_symbols(struct symbol_module *module) {
    lock_take(&module->lock);
    while (module->symbols_state == SYMBOL_BUILDING)
        lock_wait(&module->lock, &module->changed);
    bool mine = module->symbols_state == SYMBOL_UNBUILT;
    if (mine)
        module->symbols_state = SYMBOL_BUILDING;
    lock_drop(&module->lock);
    if (mine) {
        make_table(module, &module->symbols); /* no other thread reads it before READY */
        lock_take(&module->lock);
        if (module->symbols.table.header &&
            module->symbols.table.header->quality == SYMBOL_EXPORTS_ONLY)
            module->reason = SYMBOL_REASON_STRIPPED;
        module->symbols_state = SYMBOL_READY;
        pthread_cond_broadcast(&module->changed);
        lock_drop(&module->lock);
    }
    struct loaded_symbols *better = module->better_symbols;
    if (better)
        return better;
    return module->symbols.table.header ? &module->symbols : NULL;
}

/* The old table stays, because other threads may be using it. Both are freed with the module. */
void symbol_module_improve_symbols(struct symbol_module *module) {
    struct loaded_symbols *old = symbol_module_symbols(module), *none = NULL;
    struct loaded_symbols *made = calloc(1, sizeof *made);
    if (!made || (old && old->table.header->quality >= SYMBOL_NAMES)) {
        free(made);
        return;
    }
    bool good =
        build(module, made) && made->table.header->quality >= SYMBOL_NAMES &&
        symbol_display_names_init(&made->display, made->table.header->symbol_count) == SONDE_OK;
    if (good && atomic_compare_exchange_strong(&module->better_symbols, &none, made)) {
        module->reason = SYMBOL_REASON_NONE;
        return;
    }
    loaded_symbols_finish(made);
    free(made);
}
