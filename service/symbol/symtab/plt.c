/* SPDX-License-Identifier: Apache-2.0
 *
 * Names the entries of the procedure linkage table: each jumps through a slot, and the slot's
 * relocation names the function. service/machine finds the entries, whose layouts differ. */
#include "service/symbol/symtab/collect_symbols.h"

#include "service/elf/sections.h"
#include "service/machine/machine.h"

#include <stdlib.h>
#include <string.h>

#define PLT_LIMIT ((size_t)16 << 20)

struct slot {
    uint64_t address;
    uint32_t symbol;
};

struct slots {
    struct slot *items;
    size_t count;
};

static int compare_slots(const void *left, const void *right) {
    const struct slot *a = left, *b = right;
    return (a->address > b->address) - (a->address < b->address);
}

static void add_relocations(const struct elf_file *elf, const Elf64_Shdr *section,
                            struct slots *slots) {
    struct sonde_buf bytes = {0};
    const struct machine_relocations *types = machine_of(elf->machine)->relocations;
    if (elf_load(elf, section, PLT_LIMIT, &bytes) == SONDE_OK) {
        size_t count = bytes.len / sizeof(Elf64_Rela);
        struct slot *items = realloc(slots->items, (slots->count + count + 1) * sizeof *items);
        slots->items = items ? items : slots->items;
        for (size_t i = 0; items && i < count; i++) {
            Elf64_Rela entry;
            memcpy(&entry, bytes.data + i * sizeof entry, sizeof entry);
            uint32_t type = (uint32_t)ELF64_R_TYPE(entry.r_info);
            if (type == types->jump_slot || type == types->glob_dat)
                items[slots->count++] =
                    (struct slot){entry.r_offset, (uint32_t)ELF64_R_SYM(entry.r_info)};
        }
    }
    sonde_buf_finish(&bytes);
}

static struct slots collect_slots(const struct elf_file *elf) {
    struct slots slots = {0};
    for (uint32_t i = 0; i < elf->section_count; i++)
        if (elf->sections[i].sh_type == SHT_RELA && (elf->sections[i].sh_flags & SHF_ALLOC))
            add_relocations(elf, &elf->sections[i], &slots);
    if (slots.count > 1)
        qsort(slots.items, slots.count, sizeof *slots.items, compare_slots);
    return slots;
}

struct dynamic_names {
    struct sonde_buf symbols, text;
};

static const char *slot_name(const struct dynamic_names *names, const struct slots *slots,
                             uint64_t address) {
    struct slot key = {.address = address};
    const struct slot *slot = slots->count ? bsearch(&key, slots->items, slots->count,
                                                     sizeof *slots->items, compare_slots)
                                           : NULL;
    if (!slot || slot->symbol == 0 || slot->symbol >= names->symbols.len / sizeof(Elf64_Sym))
        return NULL;
    Elf64_Sym symbol;
    memcpy(&symbol, names->symbols.data + (size_t)slot->symbol * sizeof symbol, sizeof symbol);
    return symbol.st_name < names->text.len && names->text.data[symbol.st_name]
               ? names->text.data + symbol.st_name
               : NULL;
}

static void name_entries(const struct machine *machine, const struct machine_plt *plt,
                         const struct dynamic_names *names, const struct slots *slots,
                         struct symbol_collection *collection) {
    struct machine_plt_entry entry = {0};
    while (machine->next_plt_entry(plt, entry.end, &entry)) {
        const char *name = slot_name(names, slots, entry.slot);
        uint64_t start = plt->address + entry.start, end = plt->address + entry.end;
        if (!name || collection->names.len > SYMBOL_MAX_NAME_BYTES)
            continue;
        struct symbol_raw item = {.start = start, .end = end, .limit = end, .binding = STB_LOCAL};
        item.name = symbol_collection_name(collection, name, strlen(name), "@plt");
        symbol_collection_add(collection, item);
    }
}

static void name_sections(const struct elf_file *elf, const struct dynamic_names *names,
                          const struct slots *slots, struct symbol_collection *collection) {
    for (uint32_t i = 0; i < elf->section_count; i++) {
        const Elf64_Shdr *section = &elf->sections[i];
        struct sonde_buf code = {0};
        if (strncmp(elf_section_name(elf, section), ".plt", 4) == 0 &&
            (section->sh_flags & SHF_EXECINSTR) &&
            elf_load(elf, section, PLT_LIMIT, &code) == SONDE_OK) {
            struct machine_plt plt = {(const uint8_t *)code.data, code.len, section->sh_addr,
                                      section->sh_entsize};
            name_entries(machine_of(elf->machine), &plt, names, slots, collection);
        }
        sonde_buf_finish(&code);
    }
}

void symbol_collect_plt(const struct elf_file *elf, struct symbol_collection *collection) {
    const Elf64_Shdr *table = elf_section_of_type(elf, SHT_DYNSYM);
    const Elf64_Shdr *text = table ? elf_section_at(elf, table->sh_link) : NULL;
    if (!text)
        return;
    struct dynamic_names names = {0};
    struct slots slots = collect_slots(elf);
    if (elf_load(elf, table, PLT_LIMIT * 4, &names.symbols) == SONDE_OK &&
        elf_load(elf, text, PLT_LIMIT * 4, &names.text) == SONDE_OK)
        name_sections(elf, &names, &slots, collection);
    free(slots.items);
    sonde_buf_finish(&names.symbols);
    sonde_buf_finish(&names.text);
}
