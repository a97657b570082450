/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout is that of Go's debug/gosym package:
 *
 *     header: magic u32, 0 0, quantum u8, pointer size u8, then words of the pointer size
 *     functions: (entry, offset of the function's record) pairs sorted by entry, and the end
 *     record: entry, offset of the name, size of arguments, -, offset of the depths, ...
 *     depths: pairs of numbers: how much the depth changes, and for how many bytes it stays
 *
 * Since Go 1.18 entries are u32 and relative to the start of the text; before they were addresses.
 * Since Go 1.16 names and depths are in parts of their own. All offsets come from the file and are
 * checked. */
#include "service/elf/go_table.h"

#include "service/elf/cursor.h"
#include "service/elf/sections.h"

#include <string.h>

#define GO_LIMIT   ((size_t)512 << 20)
#define GO_POINTER 8u /* bytes, on all machines that Sonde reads files for */

struct go_layout {
    uint32_t magic;
    uint8_t words;     /* of the header, before the functions or their offset */
    uint8_t start;     /* number of the word that has the start of the text; 0 = none */
    uint8_t names, cu; /* of those that bound the names; 0 = the whole table */
    uint8_t depths;    /* word with the depths' offset; 0 = the whole table */
    uint8_t functions; /* word with the functions' offset; 0 = they follow the header */
    uint8_t entry;     /* bytes of an entry: of each half of a pair */
};

static const struct go_layout layouts[] = {
    {0xfffffff1, 8, 2, 3, 4, 6, 7, 4}, /* Go 1.20 */
    {0xfffffff0, 8, 2, 3, 4, 6, 7, 4}, /* Go 1.18 */
    {0xfffffffa, 7, 0, 2, 3, 5, 6, 8}, /* Go 1.16 */
    {0xfffffffb, 1, 0, 0, 0, 0, 0, 8}, /* Go 1.2 */
};

/* Reads `size` bytes as a number; 0 if they are outside of the table. */
static uint64_t number_at(const struct go_table *table, uint64_t offset, size_t size) {
    uint64_t number = 0;
    if (offset <= table->section.len && table->section.len - offset >= size)
        memcpy(&number, table->section.data + offset, size);
    return number;
}

static uint64_t word(const struct go_table *table, uint32_t which) {
    return number_at(table, 8 + (uint64_t)GO_POINTER * which, GO_POINTER);
}

static const struct go_layout *find_layout(const struct go_table *table) {
    uint32_t magic = (uint32_t)number_at(table, 0, 4);
    if (number_at(table, 7, 1) != GO_POINTER)
        return NULL;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].magic == magic)
            return &layouts[i];
    return NULL;
}

/* The start of the text in the header is 0 in position-independent programs. */
static uint64_t text_start(const struct elf_file *elf, const struct go_table *table) {
    uint64_t told = table->layout->start ? word(table, table->layout->start) : 0;
    const Elf64_Shdr *text = told ? NULL : elf_section(elf, ".text");
    return text ? text->sh_addr : told;
}

static bool read_header(const struct elf_file *elf, struct go_table *table) {
    const struct go_layout *layout = table->layout = find_layout(table);
    uint64_t len = table->section.len;
    table->quantum = (uint8_t)number_at(table, 6, 1);
    if (!layout || table->quantum == 0)
        return false;
    table->count = word(table, 0);
    table->start = layout->entry == 4 ? text_start(elf, table) : 0;
    table->functions =
        layout->functions ? word(table, layout->functions) : 8 + GO_POINTER * layout->words;
    table->names = layout->names ? word(table, layout->names) : 0;
    table->names_end = layout->cu ? word(table, layout->cu) : len;
    table->depths = layout->depths ? word(table, layout->depths) : 0;
    uint64_t pairs = table->functions < len ? (len - table->functions) / (2u * layout->entry) : 0;
    return table->count > 0 && table->count <= pairs && table->names < table->names_end &&
           table->names_end <= len && table->depths < len;
}

static const Elf64_Shdr *section_of(const struct elf_file *elf) {
    const Elf64_Shdr *section = elf_section(elf, ".gopclntab");
    return section ? section : elf_section(elf, ".data.rel.ro.gopclntab");
}

bool go_table_is_in(const struct elf_file *elf) {
    return section_of(elf) != NULL;
}

bool go_table_open(const struct elf_file *elf, struct go_table *table) {
    const Elf64_Shdr *section = section_of(elf);
    *table = (struct go_table){0};
    if (section && elf_load(elf, section, GO_LIMIT, &table->section) == SONDE_OK &&
        read_header(elf, table))
        return true;
    go_table_finish(table);
    return false;
}

void go_table_finish(struct go_table *table) {
    sonde_buf_finish(&table->section);
    *table = (struct go_table){0};
}

struct go_function go_table_function(const struct go_table *table, uint64_t which) {
    const struct go_layout *layout = table->layout;
    uint64_t size = layout->entry, at = table->functions + which * 2 * size;
    uint64_t record = number_at(table, at + size, size), none = table->names_end - table->names;
    struct go_function function = {.start = table->start + number_at(table, at, size),
                                   .end = table->start + number_at(table, at + 2 * size, size),
                                   .name = none};
    if (record >= table->section.len)
        return function;
    record += (layout->functions ? table->functions : 0) + size; /* behind its entry */
    uint64_t name = number_at(table, record, 4), depths = number_at(table, record + 12, 4);
    function.name = name > 0 && name < none ? name : none;
    function.depths = depths ? table->depths + depths : 0;
    return function;
}

bool go_table_next_depth(const struct go_table *table, struct go_depth *depth) {
    const uint8_t *bytes = (const uint8_t *)table->section.data;
    if (depth->at >= table->section.len)
        return false;
    struct cursor cursor = {bytes + depth->at, bytes + table->section.len, false};
    uint64_t change = cursor_uleb(&cursor), len = cursor_uleb(&cursor);
    if (cursor.failed || (change == 0 && depth->pc > 0) || len > UINT32_MAX ||
        change > UINT32_MAX || depth->pc > UINT32_MAX)
        return false;
    depth->depth += change & 1 ? -(int64_t)(change >> 1) - 1 : (int64_t)(change >> 1);
    depth->pc += len * table->quantum;
    depth->at = (uint64_t)(cursor.at - bytes);
    return true;
}
