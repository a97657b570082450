/* SPDX-License-Identifier: Apache-2.0
 *
 * Arbitrary bytes as an ELF file: reads its sections, notes and links, collects its symbols (with
 * the same bytes as its debug file), builds a symbol table and looks addresses up. */
#include "service/elf/sections.h"
#include "service/symbol/symtab/collect_symbols.h"
#include "service/symbol/symtab/symbol_table.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_up(const struct symbol_collection *collection, const struct sonde_buf *image) {
    struct symbol_table names;
    if (symbol_table_open(image->data, image->len, "fuzz", false, &names) != SONDE_OK)
        abort();
    for (size_t i = 0; i < collection->text_count; i++) {
        uint64_t step = (collection->text[i].end - collection->text[i].start) / 64 + 1;
        for (int j = 0; j < 66; j++) {
            uint64_t address = collection->text[i].start + (uint64_t)j * step;
            uint32_t symbol = symbol_table_find(&names, address);
            if (symbol != SYMBOL_NO_SYMBOL && symbol_table_name(&names, symbol)[0] == 0)
                abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct elf_input input = {.bytes = data, .fd = -1, .size = size};
    struct elf_file elf = {0};
    struct symbol_collection collection = {0};
    struct sonde_buf image = {0};
    char path[4096];
    uint8_t build_id[ELF_BUILD_ID_MAX];
    uint32_t crc;
    if (size > 0 && elf_open(&input, &elf, NULL) == SONDE_OK) {
        if (elf_build_id(&elf, build_id) > sizeof build_id)
            abort();
        elf_is_program(&elf);
        elf_debuglink(&elf, path, 256, &crc);
        elf_altlink(&elf, path, sizeof path, build_id);
        if (symbol_collect(&elf, &elf, &collection) == SONDE_OK &&
            symbol_table_build(&collection, "fuzz", 0, &image) == SONDE_OK)
            look_up(&collection, &image);
    }
    symbol_collection_finish(&collection);
    elf_finish(&elf);
    sonde_buf_finish(&image);
    return 0;
}
