/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of code that no file holds: a process's JIT code by its perf map, and the kernel. The map
 * grows while the process runs, so it is looked at again; who still uses what it said before keeps
 * it alive. What was read last stays when the process is gone. */
#include "service/symbol/locate.h"
#include "service/symbol/perf_map.h"
#include "service/symbol/store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW         (UINT32_MAX - 16)
#define MAX_WINDOWS    64
#define KALLSYMS_LIMIT ((size_t)64 << 20)

void symbol_jit_release(struct symbol_jit *jit) {
    if (!jit || --jit->references > 0)
        return;
    for (uint32_t i = 0; i < jit->count; i++)
        symbol_table_finish(&jit->tables[i]);
    free(jit->tables);
    free(jit);
}

struct symbol_table *symbol_jit_table(struct symbol_jit *jit, uint64_t address) {
    for (uint32_t i = jit->count; i > 0; i--)
        if (jit->tables[i - 1].names.header->base <= address)
            return &jit->tables[i - 1];
    return NULL;
}

/* --- building ----------------------------------------------------------------------------------
 */

/* Takes the collection's names for one window of its items. */
static bool build_window(const struct symbol_collection *all, size_t first, size_t count,
                         struct symbol_table *table) {
    struct symbol_collection part = *all;
    struct sonde_buf image = {0};
    part.items = all->items + first;
    part.count = count;
    bool good = symbol_names_build(&part, "memory", 0, &image) == SONDE_OK;
    table->image.bytes = sonde_buf_take(&image, &table->image.len);
    good = good && table->image.bytes &&
           symbol_names_open(table->image.bytes, table->image.len, NULL, true, &table->names) ==
               SONDE_OK &&
           symbol_shown_init(&table->shown, table->names.header->symbol_count) == SONDE_OK;
    sonde_buf_finish(&image);
    return good;
}

static int compare_starts(const void *left, const void *right) {
    const struct symbol_raw *a = left, *b = right;
    return (a->start > b->start) - (a->start < b->start);
}

/* One table per stretch of addresses that 32 bits can hold. */
static struct symbol_jit *build(struct symbol_collection *collection) {
    struct symbol_jit *jit = calloc(1, sizeof *jit);
    struct symbol_table *tables = calloc(MAX_WINDOWS, sizeof *tables);
    if (!jit || !tables) {
        free(jit);
        free(tables);
        return NULL;
    }
    *jit = (struct symbol_jit){.references = 1, .tables = tables};
    if (collection->count > 1)
        qsort(collection->items, collection->count, sizeof *collection->items, compare_starts);
    for (size_t at = 0; at < collection->count && jit->count < MAX_WINDOWS;) {
        size_t end = at;
        while (end < collection->count &&
               collection->items[end].end - collection->items[at].start < WINDOW)
            end++;
        end = end > at ? end : at + 1;
        struct symbol_table *table = &jit->tables[jit->count++];
        if (!build_window(collection, at, end - at, table)) {
            symbol_table_finish(table);
            jit->count--;
            break;
        }
        at = end;
    }
    return jit;
}

/* --- the kernel --------------------------------------------------------------------------------
 */

static bool read_kallsyms(struct sonde_buf *text) {
    int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
    text->limit = KALLSYMS_LIMIT;
    ssize_t got = fd >= 0 ? 1 : -1;
    while (got > 0 && !text->failed) {
        char piece[65536];
        got = read(fd, piece, sizeof piece);
        if (got > 0)
            sonde_buf_append(text, piece, (size_t)got);
    }
    if (fd >= 0)
        close(fd);
    return got == 0 && text->len > 0 && !text->failed;
}

static void read_kernel(struct symbol_module *module) {
    struct sonde_buf text = {0};
    struct symbol_collection collection = {.quality = SYMBOL_NAMES};
    if (module->jit || module->reason == SYMBOL_REASON_KERNEL_HIDDEN)
        return;
    module->reason = SYMBOL_REASON_KERNEL_HIDDEN;
    if (read_kallsyms(&text) && symbol_kallsyms_parse(text.data, text.len, &collection)) {
        module->jit = build(&collection);
        module->reason = SYMBOL_REASON_NONE;
    }
    symbol_collection_finish(&collection);
    sonde_buf_finish(&text);
}

/* --- [vsyscall] --------------------------------------------------------------------------------
 */

/* The same three entries in every x86-64 process. */
static void name_vsyscall(struct symbol_module *module) {
    static const char *const names[] = {"gettimeofday", "time", "getcpu"};
    struct symbol_collection collection = {.quality = SYMBOL_NAMES};
    for (uint64_t i = 0; i < 3 && !module->jit; i++) {
        uint64_t start = 0xffffffffff600000 + i * 0x400;
        struct symbol_raw item = {.start = start, .end = start + 0x400, .limit = start + 0x400};
        item.name = symbol_collection_name(&collection, names[i], strlen(names[i]), "");
        symbol_collection_add(&collection, item);
    }
    if (!module->jit)
        module->jit = build(&collection);
    module->reason = SYMBOL_REASON_NONE;
    symbol_collection_finish(&collection);
}

/* --- a process ---------------------------------------------------------------------------------
 */

static bool looked_lately(const struct symbol_module *module, const struct timespec *now) {
    return module->jit_looked.tv_sec != 0 &&
           (now->tv_sec - module->jit_looked.tv_sec) * 1000 +
                   (now->tv_nsec - module->jit_looked.tv_nsec) / 1000000 <
               1000;
}

static bool changed(const struct symbol_module *module, const struct stat *now) {
    return now->st_size != module->jit_stat.st_size || now->st_ino != module->jit_stat.st_ino ||
           now->st_mtim.tv_sec != module->jit_stat.st_mtim.tv_sec ||
           now->st_mtim.tv_nsec != module->jit_stat.st_mtim.tv_nsec;
}

static void read_map(struct symbol_module *module, int fd) {
    struct sonde_buf text = {0};
    struct symbol_collection collection = {.quality = SYMBOL_NAMES};
    if (symbol_perf_map_load(fd, &text) == SONDE_OK &&
        symbol_perf_map_parse(text.data, text.len, &collection) == SONDE_OK) {
        struct symbol_jit *fresh = build(&collection);
        if (fresh) {
            symbol_jit_release(module->jit);
            module->jit = fresh;
            module->reason = SYMBOL_REASON_NONE;
        }
    }
    symbol_collection_finish(&collection);
    sonde_buf_finish(&text);
}

/* Under the module's lock. */
static void look_again(struct symbol_module *module) {
    struct timespec now;
    struct stat about;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (looked_lately(module, &now))
        return;
    module->jit_looked = now;
    if (symbol_process_start(module->pid) != module->process_start)
        return; /* gone, or another process by now */
    int fd = symbol_perf_map_open(module->pid);
    if (fd >= 0 && fstat(fd, &about) == 0 && changed(module, &about)) {
        module->jit_stat = about;
        read_map(module, fd);
    }
    if (fd >= 0)
        close(fd);
}

struct symbol_jit *symbol_module_jit(struct symbol_module *module) {
    lock_take(&module->lock);
    if (module->kind == SYMBOL_MODULE_KERNEL)
        read_kernel(module);
    else if (strcmp(module->path, "[vsyscall]") == 0)
        name_vsyscall(module);
    else
        look_again(module);
    struct symbol_jit *jit = module->jit;
    if (jit)
        jit->references++;
    lock_drop(&module->lock);
    return jit;
}
