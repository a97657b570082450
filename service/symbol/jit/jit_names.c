/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of names that are built from text: JIT code and the kernel. */
#include "service/symbol/jit/jit_names.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW      (UINT32_MAX - 16)
#define MAX_WINDOWS 64

void symbol_jit_release(struct symbol_jit *jit) {
    if (!jit || --jit->references > 0)
        return;
    for (uint32_t i = 0; i < jit->count; i++)
        loaded_symbols_finish(&jit->tables[i]);
    free(jit->tables);
    free(jit->rows);
    sonde_buf_finish(&jit->files);
    memory_share_finish(&jit->share);
    free(jit);
}

const char *symbol_jit_line(const struct symbol_jit *jit, uint64_t address, uint32_t *line) {
    uint32_t low = 0, high = jit->row_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (jit->rows[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const struct symbol_jit_row *row = low > 0 ? &jit->rows[low - 1] : NULL;
    if (!row || row->line == 0)
        return NULL;
    *line = row->line;
    return jit->files.data + row->file;
}

struct loaded_symbols *symbol_jit_symbols(struct symbol_jit *jit, uint64_t address) {
    for (uint32_t i = jit->count; i > 0; i--)
        if (jit->tables[i - 1].table.header->base <= address)
            return &jit->tables[i - 1];
    return NULL;
}

/* --- building --------------------------------------------------------------------------------- */

/* Builds the table of one window of the collection's items. */
static bool build_window(const struct symbol_collection *all, size_t first, size_t count,
                         struct loaded_symbols *table) {
    struct symbol_collection part = *all;
    struct sonde_buf image = {0};
    part.items = all->items + first;
    part.count = count;
    bool good = symbol_table_build(&part, "memory", 0, &image) == SONDE_OK;
    table->image.bytes = sonde_buf_take(&image, &table->image.len);
    good =
        good && table->image.bytes &&
        symbol_table_open(table->image.bytes, table->image.len, NULL, true, &table->table) ==
            SONDE_OK &&
        symbol_display_names_init(&table->display, table->table.header->symbol_count) == SONDE_OK;
    sonde_buf_finish(&image);
    return good;
}

static int compare_starts(const void *left, const void *right) {
    const struct symbol_raw *a = left, *b = right;
    return (a->start > b->start) - (a->start < b->start);
}

struct symbol_jit *symbol_jit_build(struct symbol_collection *collection) {
    struct symbol_jit *jit = calloc(1, sizeof *jit);
    struct loaded_symbols *tables = calloc(MAX_WINDOWS, sizeof *tables);
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
        struct loaded_symbols *table = &jit->tables[jit->count++];
        if (!build_window(collection, at, end - at, table)) {
            loaded_symbols_finish(table);
            jit->count--;
            break;
        }
        at = end;
    }
    return jit;
}
