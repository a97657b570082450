/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/prepare.h"

#include "service/symbol/inflate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GNU_HEADER 12u /* "ZLIB" and the size, big-endian: sections called .zdebug_* */

static bool is_gnu_compressed(const char *name) {
    return strncmp(name, ".zdebug_", 8) == 0;
}

static bool is_debug(const char *name) {
    return strncmp(name, ".debug_", 7) == 0 || is_gnu_compressed(name);
}

static bool is_compressed(const struct symbol_elf *elf, const Elf64_Shdr *section) {
    const char *name = symbol_elf_section_name(elf, section);
    return section->sh_type != SHT_NOBITS && is_debug(name) &&
           ((section->sh_flags & SHF_COMPRESSED) || is_gnu_compressed(name));
}

bool symbol_has_dwarf(const struct symbol_elf *elf) {
    const Elf64_Shdr *info = symbol_elf_section(elf, ".debug_info");
    info = info ? info : symbol_elf_section(elf, ".zdebug_info");
    return info && info->sh_type != SHT_NOBITS && info->sh_size > 0;
}

/* One section on its way from the input to the scratch file. */
struct part {
    const uint8_t *from;
    uint64_t from_len, to_len, offset;
    uint32_t method; /* 0 = plain */
    char name[40];
};

static uint64_t big_endian(const uint8_t *bytes) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | bytes[i];
    return value;
}

/* False when the section does not lie in the file. */
static bool describe(const struct symbol_elf *elf, const Elf64_Shdr *section, struct part *part) {
    const struct symbol_elf_input *input = &elf->input;
    const char *name = symbol_elf_section_name(elf, section);
    if (section->sh_offset > input->size || section->sh_size > input->size - section->sh_offset)
        return false;
    part->from = input->bytes + section->sh_offset;
    part->from_len = part->to_len = section->sh_size;
    snprintf(part->name, sizeof part->name, "%s%s", is_gnu_compressed(name) ? ".debug_" : "",
             is_gnu_compressed(name) ? name + 8 : name);
    if (section->sh_flags & SHF_COMPRESSED) {
        Elf64_Chdr header;
        if (part->from_len < sizeof header)
            return false;
        memcpy(&header, part->from, sizeof header);
        part->method = header.ch_type;
        part->to_len = header.ch_size;
        part->from += sizeof header;
        part->from_len -= sizeof header;
    } else if (is_gnu_compressed(name)) {
        if (part->from_len < GNU_HEADER || memcmp(part->from, "ZLIB", 4) != 0)
            return false;
        part->method = ELFCOMPRESS_ZLIB;
        part->to_len = big_endian(part->from + 4);
        part->from += GNU_HEADER;
        part->from_len -= GNU_HEADER;
    }
    return true;
}

static bool fill(const struct part *part, uint8_t *to) {
    if (part->method == 0) {
        memcpy(to + part->offset, part->from, part->to_len);
        return true;
    }
    sonde_err err =
        part->method == ELFCOMPRESS_ZLIB
            ? symbol_inflate_zlib(part->from, part->from_len, to + part->offset, part->to_len)
            : symbol_inflate_zstd(part->from, part->from_len, to + part->offset, part->to_len);
    return err == SONDE_OK;
}

/* Layout: header, section headers, names, then the sections. */
struct layout {
    struct part *parts;
    uint32_t count;
    uint64_t names_offset, names_len, total;
};

static bool plan(const struct symbol_elf *elf, uint64_t limit, struct layout *layout) {
    layout->parts = calloc(elf->section_count + 1, sizeof *layout->parts);
    layout->names_len = 1 + sizeof ".shstrtab";
    for (uint32_t i = 0; layout->parts && i < elf->section_count; i++) {
        const Elf64_Shdr *section = &elf->sections[i];
        if (section->sh_type == SHT_NOBITS || !is_debug(symbol_elf_section_name(elf, section)))
            continue;
        struct part *part = &layout->parts[layout->count++];
        if (!describe(elf, section, part))
            return false;
        layout->names_len += strlen(part->name) + 1;
    }
    layout->names_offset = sizeof(Elf64_Ehdr) + (layout->count + 2) * sizeof(Elf64_Shdr);
    layout->total = layout->names_offset + layout->names_len;
    for (uint32_t i = 0; i < layout->count; i++) {
        layout->total = (layout->total + 15) & ~(uint64_t)15;
        layout->parts[i].offset = layout->total;
        if (layout->parts[i].to_len > limit || layout->total > limit)
            return false;
        layout->total += layout->parts[i].to_len;
    }
    return layout->parts && layout->total <= limit;
}

static void write_headers(const struct symbol_elf *elf, const struct layout *layout, uint8_t *to) {
    Elf64_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_EXEC,
        .e_machine = elf->machine,
        .e_version = EV_CURRENT,
        .e_shoff = sizeof header,
        .e_ehsize = sizeof header,
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = (uint16_t)(layout->count + 2),
        .e_shstrndx = 1,
    };
    Elf64_Shdr *sections = (Elf64_Shdr *)(void *)(to + sizeof header);
    char *names = (char *)to + layout->names_offset;
    size_t name = 1;
    memcpy(to, &header, sizeof header);
    sections[1] = (Elf64_Shdr){.sh_name = 1,
                               .sh_type = SHT_STRTAB,
                               .sh_offset = layout->names_offset,
                               .sh_size = layout->names_len};
    name += (size_t)sprintf(names + name, ".shstrtab") + 1;
    for (uint32_t i = 0; i < layout->count; i++) {
        sections[i + 2] = (Elf64_Shdr){.sh_name = (uint32_t)name,
                                       .sh_type = SHT_PROGBITS,
                                       .sh_offset = layout->parts[i].offset,
                                       .sh_size = layout->parts[i].to_len,
                                       .sh_addralign = 1};
        name += (size_t)sprintf(names + name, "%s", layout->parts[i].name) + 1;
    }
}

static bool copy_sections(const struct symbol_elf *elf, const struct layout *layout, int scratch) {
    if (layout->count + 2 > UINT16_MAX || ftruncate(scratch, (off_t)layout->total) != 0)
        return false;
    uint8_t *to = mmap(NULL, layout->total, PROT_READ | PROT_WRITE, MAP_SHARED, scratch, 0);
    if (to == MAP_FAILED)
        return false;
    bool good = true;
    write_headers(elf, layout, to);
    for (uint32_t i = 0; i < layout->count && good; i++)
        good = fill(&layout->parts[i], to);
    munmap(to, layout->total);
    return good;
}

int symbol_prepare_dwarf(int fd, int scratch, uint64_t limit) {
    struct symbol_elf_input input;
    struct symbol_elf elf = {0};
    struct layout layout = {0};
    int prepared = -1;
    if (!symbol_elf_input_of_file(fd, &input) || input.size == 0)
        return -1;
    void *bytes = mmap(NULL, input.size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return -1;
    input.bytes = bytes;
    if (symbol_elf_open(&input, &elf, NULL) == SONDE_OK) {
        bool packed = false;
        for (uint32_t i = 0; i < elf.section_count; i++)
            packed |= is_compressed(&elf, &elf.sections[i]);
        if (!packed)
            prepared = fd;
        else if (plan(&elf, limit, &layout) && copy_sections(&elf, &layout, scratch))
            prepared = scratch;
    }
    free(layout.parts);
    symbol_elf_finish(&elf);
    munmap(bytes, input.size);
    return prepared;
}
