/* SPDX-License-Identifier: Apache-2.0
 *
 * A symbol table with any of its bytes changed and its checksum ignored, as if an attacker had
 * corrected it, so that only bounds checks protect the reader. The input is a list of patches, each
 * with an offset (two bytes) and a value (four bytes). */
#include "service/symbol/symtab/collect_symbols.h"
#include "service/symbol/symtab/symbol_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sonde_buf base;

static void make_base(void) {
    struct symbol_collection collection = {.quality = SYMBOL_NAMES};
    for (uint64_t i = 0; i < 64; i++) {
        char name[16];
        int len = snprintf(name, sizeof name, "function%d", (int)i);
        struct symbol_raw item = {
            .start = 0x1000 + i * 48, .end = 0x1020 + i * 48 + i, .limit = 0x9000};
        item.name = symbol_collection_name(&collection, name, (size_t)len, "");
        symbol_collection_add(&collection, item);
    }
    if (symbol_table_build(&collection, "fuzz", 0, &base) != SONDE_OK)
        abort();
    symbol_collection_finish(&collection);
}

static void look_up(const struct symbol_table *names, size_t size) {
    for (uint64_t i = 0; i < 256; i++) {
        uint64_t vaddr = names->header->base + i * (names->segments.span / 256 + 1);
        uint32_t symbol = symbol_table_find(names, vaddr);
        if (symbol != SYMBOL_NO_SYMBOL && strlen(symbol_table_name(names, symbol)) >= size)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (base.len == 0)
        make_base();
    char *image =
        malloc(base.len); /* exactly its size, so that a sanitizer detects reads beyond it */
    memcpy(image, base.data, base.len);
    for (size_t i = 0; i + 6 <= size; i += 6) {
        size_t at = ((size_t)data[i] << 8 | data[i + 1]) % (base.len - 3);
        memcpy(image + at, data + i + 2, 4);
    }
    struct symbol_table names;
    if (symbol_table_open(image, base.len, NULL, true, &names) == SONDE_OK)
        look_up(&names, base.len);
    free(image);
    return 0;
}
