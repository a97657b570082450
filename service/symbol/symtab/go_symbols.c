/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of a stripped Go program, from the table that the Go runtime needs itself. */
#include "service/elf/go_table.h"
#include "service/symbol/symtab/collect_symbols.h"

static void add_function(const struct go_table *table, uint64_t which, uint32_t names,
                         struct symbol_collection *collection) {
    struct go_function function = go_table_function(table, which);
    const struct symbol_text *text = symbol_collection_text(collection, function.start);
    if (!text || function.end <= function.start || function.name >= table->names_end - table->names)
        return;
    struct symbol_raw item = {.start = function.start,
                              .end = function.end < text->end ? function.end : text->end,
                              .limit = text->end,
                              .name = names + (uint32_t)function.name,
                              .binding = STB_LOCAL,
                              .is_plain = true};
    symbol_collection_add(collection, item);
}

bool symbol_collect_go(const struct elf_file *elf, struct symbol_collection *collection) {
    struct go_table table;
    size_t before = collection->count;
    if (!go_table_open(elf, &table))
        return false;
    if (table.names_end - table.names + collection->names.len < SYMBOL_MAX_NAME_BYTES) {
        uint32_t names = symbol_collection_name(collection, table.section.data + table.names,
                                                table.names_end - table.names, "");
        for (uint64_t i = 0; i < table.count && !collection->names.failed; i++)
            add_function(&table, i, names, collection);
    }
    go_table_finish(&table);
    return collection->count > before;
}
