/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of a stripped Go program, from .gopclntab, which the Go runtime needs itself. The
 * layout is that of Go's debug/gosym package:
 *
 *     header: magic u32, 0 0, quantum u8, pointer size u8, then words of the pointer size
 *     functions: (entry, offset of the function's record) pairs sorted by entry, and the end
 *     record: entry, offset of the name, ...
 *
 * Since Go 1.18 entries are u32 and relative to the start of the text; before they were addresses.
 * Since Go 1.16 names are in a part of their own. All offsets come from the file and are
 * checked. */
#include "service/symbol/symtab/collect_symbols.h"

#include "service/elf/sections.h"

#include <string.h>

#define GO_LIMIT   ((size_t)512 << 20)
#define GO_POINTER 8u /* x86-64 */

static const struct layout {
    uint32_t magic;
    uint8_t words;     /* of the header, before the functions or their offset */
    uint8_t start;     /* number of the word that has the start of the text; 0 = none */
    uint8_t names, cu; /* of those that bound the names; 0 = the whole table */
    uint8_t functions; /* word with the functions' offset; 0 = they follow the header */
    uint8_t entry;     /* bytes of an entry: of each half of a pair */
} layouts[] = {
    {0xfffffff1, 8, 2, 3, 4, 7, 4}, /* Go 1.20 */
    {0xfffffff0, 8, 2, 3, 4, 7, 4}, /* Go 1.18 */
    {0xfffffffa, 7, 0, 2, 3, 6, 8}, /* Go 1.16 */
    {0xfffffffb, 1, 0, 0, 0, 0, 8}, /* Go 1.2 */
};

struct table {
    const struct layout *layout;
    const char *bytes;
    uint64_t len;
    uint64_t count, start, functions; /* functions: offset of the pairs, and base of the records */
    uint64_t names, names_end;
};

/* Reads `size` bytes as a number; 0 if they are outside of the table. */
static uint64_t number_at(const struct table *table, uint64_t offset, size_t size) {
    uint64_t number = 0;
    if (offset <= table->len && table->len - offset >= size)
        memcpy(&number, table->bytes + offset, size);
    return number;
}

static uint64_t word(const struct table *table, uint32_t which) {
    return number_at(table, 8 + (uint64_t)GO_POINTER * which, GO_POINTER);
}

static const struct layout *find_layout(const struct table *table) {
    uint32_t magic = (uint32_t)number_at(table, 0, 4);
    if (number_at(table, 7, 1) != GO_POINTER)
        return NULL;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].magic == magic)
            return &layouts[i];
    return NULL;
}

/* The start of the text in the header is 0 in position-independent programs. */
static uint64_t text_start(const struct elf_file *elf, const struct table *table) {
    uint64_t told = table->layout->start ? word(table, table->layout->start) : 0;
    const Elf64_Shdr *text = told ? NULL : elf_section(elf, ".text");
    return text ? text->sh_addr : told;
}

static bool open_table(const struct elf_file *elf, const struct sonde_buf *section,
                       struct table *table) {
    *table = (struct table){.bytes = section->data, .len = section->len};
    const struct layout *layout = table->layout = find_layout(table);
    if (!layout)
        return false;
    table->count = word(table, 0);
    table->start = layout->entry == 4 ? text_start(elf, table) : 0;
    table->functions =
        layout->functions ? word(table, layout->functions) : 8 + GO_POINTER * layout->words;
    table->names = layout->names ? word(table, layout->names) : 0;
    table->names_end = layout->cu ? word(table, layout->cu) : table->len;
    uint64_t pairs =
        table->functions < table->len ? (table->len - table->functions) / (2u * layout->entry) : 0;
    return table->count > 0 && table->count <= pairs && table->names < table->names_end &&
           table->names_end <= table->len;
}

/* Where the function's name is in the part with the names; its length if it has none. */
static uint64_t name_of(const struct table *table, uint64_t function) {
    uint64_t none = table->names_end - table->names;
    uint64_t size = table->layout->entry, at = table->functions + function * 2 * size;
    uint64_t base = table->layout->functions ? table->functions : 0;
    uint64_t record = number_at(table, at + size, size);
    if (record >= table->len)
        return none;
    uint64_t name = number_at(table, base + record + size, 4);
    return name > 0 && name < none ? name : none;
}

static void add_function(const struct table *table, uint64_t function, uint32_t names,
                         struct symbol_collection *collection) {
    uint64_t size = table->layout->entry, at = table->functions + function * 2 * size;
    uint64_t start = table->start + number_at(table, at, size);
    uint64_t end = table->start + number_at(table, at + 2 * size, size);
    const struct symbol_text *text = symbol_collection_text(collection, start);
    uint64_t name = name_of(table, function);
    if (!text || end <= start || name >= table->names_end - table->names)
        return;
    struct symbol_raw item = {.start = start,
                              .end = end < text->end ? end : text->end,
                              .limit = text->end,
                              .name = names + (uint32_t)name,
                              .binding = STB_LOCAL,
                              .is_plain = true};
    symbol_collection_add(collection, item);
}

bool symbol_collect_go(const struct elf_file *elf, struct symbol_collection *collection) {
    const Elf64_Shdr *section = elf_section(elf, ".gopclntab");
    struct sonde_buf bytes = {0};
    struct table table;
    size_t before = collection->count;
    if (!section)
        section = elf_section(elf, ".data.rel.ro.gopclntab");
    if (section && elf_load(elf, section, GO_LIMIT, &bytes) == SONDE_OK &&
        open_table(elf, &bytes, &table) &&
        table.names_end - table.names < SYMBOL_MAX_NAME_BYTES - collection->names.len) {
        uint32_t names = symbol_collection_name(collection, table.bytes + table.names,
                                                table.names_end - table.names, "");
        for (uint64_t i = 0; i < table.count && !collection->names.failed; i++)
            add_function(&table, i, names, collection);
    }
    sonde_buf_finish(&bytes);
    return collection->count > before;
}
