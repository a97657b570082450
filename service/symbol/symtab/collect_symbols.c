/* SPDX-License-Identifier: Apache-2.0
 *
 * Collected are functions, IFUNCs and untyped labels (assembly) inside executable sections, and
 * variables that the program may write, because locks are among them. Not collected are undefined
 * and absolute symbols, constants, TLS, mapping symbols, local labels, and symbols at address 0,
 * which some linkers leave behind for discarded code. */
#include "service/symbol/symtab/collect_symbols.h"

#include "api/base/array.h"
#include "service/elf/inflate.h"
#include "service/elf/sections.h"
#include "service/machine/machine.h"

#include <stdlib.h>
#include <string.h>

#define SYMTAB_LIMIT    (SYMBOL_MAX_SYMBOLS * sizeof(Elf64_Sym))
#define DEBUGDATA_LIMIT ((size_t)256 << 20)
#define VENEER_LIMIT    ((size_t)4096) /* bytes of the name of a veneer's target */

enum source { FROM_SYMTAB, FROM_DYNSYM };

uint32_t symbol_collection_name(struct symbol_collection *collection, const char *name, size_t len,
                                const char *tail) {
    size_t at = collection->names.len;
    sonde_buf_append(&collection->names, name, len);
    sonde_buf_puts(&collection->names, tail);
    sonde_buf_putc(&collection->names, 0);
    return (uint32_t)at;
}

void symbol_collection_add(struct symbol_collection *collection, struct symbol_raw item) {
    if (collection->count >= SYMBOL_MAX_SYMBOLS ||
        !array_room(&collection->items, &collection->capacity, collection->count, 1)) {
        collection->is_cut = true;
        return;
    }
    collection->items[collection->count++] = item;
}

static int compare_text(const void *left, const void *right) {
    const struct symbol_text *a = left, *b = right;
    return (a->start > b->start) - (a->start < b->start);
}

static void add_text(struct symbol_collection *collection, uint64_t start, uint64_t size,
                     bool is_data) {
    if (size > 0 && size <= UINT64_MAX - start)
        collection->text[collection->text_count++] =
            (struct symbol_text){start, start + size, is_data};
}

/* Skips RELRO sections: no lock is in memory that ld.so makes read-only, and their vtables would
 * add a symbol per class. */
static bool is_variables(const struct elf_file *elf, const Elf64_Shdr *section) {
    uint64_t flags = section->sh_flags & (SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR | SHF_TLS);
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type == PT_GNU_RELRO &&
            section->sh_addr - segment->p_vaddr < segment->p_memsz)
            return false;
    }
    return flags == (SHF_ALLOC | SHF_WRITE);
}

/* Collects the sections of code and variables, or the executable segments of a file without
 * sections. */
static sonde_err collect_text(const struct elf_file *elf, struct symbol_collection *collection) {
    collection->text =
        calloc(elf->section_count + elf->segment_count + 1, sizeof *collection->text);
    if (!collection->text)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < elf->section_count; i++) {
        const Elf64_Shdr *section = &elf->sections[i];
        if ((section->sh_flags & SHF_ALLOC) && (section->sh_flags & SHF_EXECINSTR))
            add_text(collection, section->sh_addr, section->sh_size, false);
        else if (is_variables(elf, section))
            add_text(collection, section->sh_addr, section->sh_size, true);
    }
    for (uint32_t i = 0; i < elf->segment_count && elf->section_count == 0; i++)
        if (elf->segments[i].p_type == PT_LOAD && (elf->segments[i].p_flags & PF_X))
            add_text(collection, elf->segments[i].p_vaddr, elf->segments[i].p_memsz, false);
    qsort(collection->text, collection->text_count, sizeof *collection->text, compare_text);
    return SONDE_OK;
}

const struct symbol_text *symbol_collection_text(const struct symbol_collection *collection,
                                                 uint64_t address) {
    size_t low = 0, high = collection->text_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (collection->text[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || address >= collection->text[low - 1].end)
        return NULL;
    return &collection->text[low - 1];
}

static bool type_counts(const Elf64_Sym *symbol) {
    switch (ELF64_ST_TYPE(symbol->st_info)) {
    case STT_FUNC:
    case STT_GNU_IFUNC:
    case STT_NOTYPE:
        break;
    case STT_OBJECT:
        return symbol->st_size > 0 && symbol->st_shndx < SHN_LORESERVE && symbol->st_shndx > 0;
    default:
        return false;
    }
    return symbol->st_value != 0 && symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS &&
           symbol->st_shndx != SHN_COMMON;
}

static bool name_counts(const Elf64_Sym *symbol, const char *name) {
    if (name[0] == 0)
        return false;
    if (name[0] == '$' && ELF64_ST_TYPE(symbol->st_info) == STT_NOTYPE)
        return false; /* a mapping symbol: $x, $d, $x.7 (Swift's functions also begin with '$') */
    if (name[0] == '.' && name[1] == 'L') /* local labels that the assembler kept */
        return false;
    return ELF64_ST_TYPE(symbol->st_info) != STT_NOTYPE || symbol->st_size > 0 || name[0] != '.';
}

static void add_symbol(struct symbol_collection *collection, const Elf64_Sym *symbol, uint32_t name,
                       enum source source) {
    const struct symbol_text *text = symbol_collection_text(collection, symbol->st_value);
    bool is_data = ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT;
    if (!text || text->is_data != is_data)
        return;
    uint64_t room = text->end - symbol->st_value;
    uint64_t size = symbol->st_size < room ? symbol->st_size : room;
    struct symbol_raw item = {
        .start = symbol->st_value,
        .end = symbol->st_value + size,
        .limit = text->end,
        .name = name,
        .binding = ELF64_ST_BIND(symbol->st_info),
        .is_exact = size == 0 && source == FROM_DYNSYM,
    };
    collection->functions += !is_data;
    symbol_collection_add(collection, item);
}

/* The name of a symbol whose own name is at offset `own` of the names; that of its target if it is
 * a veneer. */
static uint32_t name_of(const struct elf_file *elf, const Elf64_Sym *symbol, uint32_t own,
                        struct symbol_collection *collection) {
    const char *target;
    size_t len;
    char copy[VENEER_LIMIT];
    if (ELF64_ST_BIND(symbol->st_info) != STB_LOCAL || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC ||
        !machine_of(elf->machine)
             ->find_veneer_target(collection->names.data + own, &target, &len) ||
        len > sizeof copy || collection->names.len + len >= SYMBOL_MAX_NAME_BYTES)
        return own;
    memcpy(copy, target, len); /* because the names move when they grow */
    return symbol_collection_name(collection, copy, len, "");
}

/* Adds the symbols of one table. Most of its string table is used, so all of it is copied. */
static bool collect_table(const struct elf_file *elf, const Elf64_Shdr *table, enum source source,
                          struct symbol_collection *collection) {
    const Elf64_Shdr *strings = table ? elf_section_at(elf, table->sh_link) : NULL;
    if (!strings || table->sh_entsize != sizeof(Elf64_Sym))
        return false;
    struct sonde_buf symbols = {0}, text = {0};
    bool loaded = elf_load(elf, table, SYMTAB_LIMIT, &symbols) == SONDE_OK &&
                  elf_load(elf, strings, SYMBOL_MAX_NAME_BYTES, &text) == SONDE_OK &&
                  text.len + collection->names.len < SYMBOL_MAX_NAME_BYTES;
    if (loaded) {
        uint32_t base = symbol_collection_name(collection, text.data, text.len, "");
        loaded = !collection->names.failed;
        for (size_t i = 0; loaded && i + sizeof(Elf64_Sym) <= symbols.len; i += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            memcpy(&symbol, symbols.data + i, sizeof symbol);
            if (type_counts(&symbol) && symbol.st_name < text.len &&
                name_counts(&symbol, text.data + symbol.st_name))
                add_symbol(collection, &symbol,
                           name_of(elf, &symbol, base + symbol.st_name, collection), source);
        }
    }
    sonde_buf_finish(&symbols);
    sonde_buf_finish(&text);
    return loaded;
}

/* Returns whether the table names functions. "strip -K" may leave only variables: they are kept,
 * and the next source is used. */
static bool collect_symtab(const struct elf_file *elf, struct symbol_collection *collection) {
    const Elf64_Shdr *table = elf_section_of_type(elf, SHT_SYMTAB);
    size_t before = collection->functions;
    return table && table->sh_type != SHT_NOBITS &&
           collect_table(elf, table, FROM_SYMTAB, collection) && collection->functions > before;
}

/* MiniDebugInfo: an xz-compressed ELF file whose .symtab has the symbols that .dynsym lacks. */
static bool collect_debugdata(const struct elf_file *elf, struct symbol_collection *collection) {
    const Elf64_Shdr *section = elf_section(elf, ".gnu_debugdata");
    struct sonde_buf packed = {0}, image = {0};
    bool found = section && elf_load(elf, section, DEBUGDATA_LIMIT, &packed) == SONDE_OK &&
                 inflate_xz(packed.data, packed.len, DEBUGDATA_LIMIT, &image) == SONDE_OK;
    struct elf_input input = {.bytes = (const uint8_t *)image.data, .fd = -1, .size = image.len};
    struct elf_file inner = {0};
    found =
        found && elf_open(&input, &inner, NULL) == SONDE_OK && collect_symtab(&inner, collection);
    elf_finish(&inner);
    sonde_buf_finish(&packed);
    sonde_buf_finish(&image);
    return found;
}

sonde_err symbol_collect(const struct elf_file *elf, const struct elf_file *debug,
                         struct symbol_collection *collection) {
    *collection = (struct symbol_collection){.quality = SYMBOL_NONE};
    if (collect_text(elf, collection) != SONDE_OK)
        return SONDE_OUT_OF_MEMORY;
    if (collect_symtab(elf, collection) || (debug && collect_symtab(debug, collection)) ||
        symbol_collect_go(elf, collection)) {
        collection->quality = SYMBOL_NAMES;
    } else {
        bool exports =
            collect_table(elf, elf_section_of_type(elf, SHT_DYNSYM), FROM_DYNSYM, collection);
        if (collect_debugdata(elf, collection))
            collection->quality = SYMBOL_NAMES;
        else if (exports)
            collection->quality = SYMBOL_EXPORTS_ONLY;
    }
    symbol_collect_plt(elf, collection);
    if (collection->quality == SYMBOL_EXPORTS_ONLY)
        symbol_collect_thread_start(elf, collection);
    symbol_collect_fde_starts(elf, collection); /* "strip -x" and "ld -x" leave only some symbols */
    return collection->names.failed || (collection->is_cut && collection->count == 0)
               ? SONDE_OUT_OF_MEMORY
               : SONDE_OK;
}

void symbol_collection_finish(struct symbol_collection *collection) {
    free(collection->items);
    free(collection->text);
    sonde_buf_finish(&collection->names);
    *collection = (struct symbol_collection){0};
}
