/* SPDX-License-Identifier: Apache-2.0
 *
 * Arbitrary bytes as a perf map and as kallsyms. The result must become a symbol table, and the
 * symbols of a map must not overlap. */
#include "service/symbol/jit/perf_map.h"
#include "service/symbol/symtab/symbol_table.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int compare(const void *left, const void *right) {
    const struct symbol_raw *a = left, *b = right;
    return (a->start > b->start) - (a->start < b->start);
}

static void finish(struct symbol_collection *collection) {
    struct sonde_buf image = {0};
    struct symbol_table names;
    if (symbol_table_build(collection, "fuzz", 0, &image) == SONDE_OK &&
        symbol_table_open(image.data, image.len, "fuzz", false, &names) != SONDE_OK)
        abort();
    sonde_buf_finish(&image);
    symbol_collection_finish(collection);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct symbol_collection map = {.quality = SYMBOL_NAMES}, kernel = {.quality = SYMBOL_NAMES};
    const char *text = (const char *)data;
    if (symbol_perf_map_parse(text, size, &map) != SONDE_OK)
        abort();
    if (map.count > 1)
        qsort(map.items, map.count, sizeof *map.items, compare);
    for (size_t i = 1; i < map.count; i++)
        if (map.items[i - 1].end > map.items[i].start)
            abort();
    finish(&map);
    struct symbol_core core;
    if (!symbol_kallsyms_parse(text, size, &kernel, &core))
        kernel.count = 0;
    finish(&kernel);
    return 0;
}
