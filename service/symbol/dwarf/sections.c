/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/dwarf/sections.h"

#include "api/elf/elf.h"
#include "service/elf/inflate.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GNU_HEADER    12u /* of .zdebug_* sections: "ZLIB" and the big-endian size */
#define FILE_LIMIT    ((uint64_t)16 << 30)
#define MEMORY_LIMIT  ((uint64_t)1 << 30)
#define PAGE          4096u
#define METHOD_STORED 0u
#define METHOD_ZSTD   2u /* ELFCOMPRESS_ZSTD, which older elf.h lack */

static const char *const names[DWARF_SECTION_COUNT] = {
    [DWARF_INFO] = "info",         [DWARF_ABBREV] = "abbrev",
    [DWARF_STR] = "str",           [DWARF_LINE] = "line",
    [DWARF_LINE_STR] = "line_str", [DWARF_STR_OFFSETS] = "str_offsets",
    [DWARF_ADDR] = "addr",         [DWARF_RANGES] = "ranges",
    [DWARF_RNGLISTS] = "rnglists", [DWARF_CU_INDEX] = "cu_index",
};

/* A section in the file. */
struct part {
    struct sonde_slice from;
    uint64_t len, offset; /* its length when decompressed, and its offset in `inflated` */
    uint32_t method;
};

/* The section with that name; DWARF_SECTION_COUNT = none of ours. */
static enum dwarf_section section_of(const char *name, enum dwarf_kind kind, bool *is_gnu_packed) {
    *is_gnu_packed = strncmp(name, ".zdebug_", 8) == 0;
    if (!*is_gnu_packed && strncmp(name, ".debug_", 7) != 0)
        return DWARF_SECTION_COUNT;
    name += *is_gnu_packed ? 8 : 7;
    for (int i = 0; i < DWARF_SECTION_COUNT; i++) {
        size_t len = strlen(names[i]);
        bool wants_dwo = kind == DWARF_SPLIT && i != DWARF_CU_INDEX;
        if (strncmp(name, names[i], len) == 0 && strcmp(name + len, wants_dwo ? ".dwo" : "") == 0)
            return (enum dwarf_section)i;
    }
    return DWARF_SECTION_COUNT;
}

static uint64_t big_endian(const char *bytes) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | (uint8_t)bytes[i];
    return value;
}

static struct sonde_slice cut_front(struct sonde_slice slice, size_t len) {
    return (struct sonde_slice){slice.data + len, slice.len - len};
}

/* False if the section is not inside the file or its compression header is damaged. */
static bool describe(const struct elf_input *input, const Elf64_Shdr *section, bool is_gnu_packed,
                     struct part *part) {
    if (section->sh_offset > input->size || section->sh_size > input->size - section->sh_offset)
        return false;
    part->from =
        (struct sonde_slice){(const char *)input->bytes + section->sh_offset, section->sh_size};
    part->len = section->sh_size;
    if (section->sh_flags & SHF_COMPRESSED) {
        Elf64_Chdr header;
        if (part->from.len < sizeof header)
            return false;
        memcpy(&header, part->from.data, sizeof header);
        part->method = header.ch_type;
        part->len = header.ch_size;
        part->from = cut_front(part->from, sizeof header);
        return part->method == ELFCOMPRESS_ZLIB || part->method == METHOD_ZSTD;
    }
    if (!is_gnu_packed)
        return true;
    if (part->from.len < GNU_HEADER || memcmp(part->from.data, "ZLIB", 4) != 0)
        return false;
    part->method = ELFCOMPRESS_ZLIB;
    part->len = big_endian(part->from.data + 4);
    part->from = cut_front(part->from, GNU_HEADER);
    return true;
}

/* The first section of each name counts. */
static sonde_err find_parts(const struct elf_file *elf, enum dwarf_kind kind,
                            struct part parts[DWARF_SECTION_COUNT]) {
    for (uint32_t i = 0; i < elf->section_count; i++) {
        const Elf64_Shdr *section = &elf->sections[i];
        bool is_gnu_packed;
        enum dwarf_section which = section_of(elf_section_name(elf, section), kind, &is_gnu_packed);
        if (which == DWARF_SECTION_COUNT || section->sh_type == SHT_NOBITS ||
            section->sh_size == 0 || parts[which].from.len > 0)
            continue;
        if (!describe(&elf->input, section, is_gnu_packed, &parts[which]))
            return SONDE_CORRUPT;
    }
    return parts[DWARF_INFO].from.len > 0 ? SONDE_OK : SONDE_NOT_FOUND;
}

/* Assigns an offset to each compressed section. */
static sonde_err plan(struct part parts[DWARF_SECTION_COUNT], uint64_t limit, uint64_t *total) {
    *total = 0;
    for (int i = 0; i < DWARF_SECTION_COUNT; i++) {
        if (parts[i].method == METHOD_STORED)
            continue;
        parts[i].offset = *total;
        if (parts[i].len > limit || *total > limit)
            return SONDE_TOO_LARGE;
        *total += (parts[i].len + PAGE) & ~(uint64_t)(PAGE - 1); /* a gap after each */
    }
    return *total <= limit ? SONDE_OK : SONDE_TOO_LARGE;
}

static sonde_err make_room(struct dwarf_sections *sections, int scratch, uint64_t len) {
    bool in_file = scratch >= 0;
    if (in_file && ftruncate(scratch, (off_t)len) != 0)
        return SONDE_IO;
    int flags = in_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *bytes = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, scratch, 0);
    if (bytes == MAP_FAILED)
        return SONDE_OUT_OF_MEMORY;
    sections->inflated = bytes;
    sections->inflated_len = len;
    sections->is_in_file = in_file;
    return SONDE_OK;
}

static sonde_err fill(const struct part *part, char *to) {
    return part->method == ELFCOMPRESS_ZLIB
               ? inflate_zlib(part->from.data, part->from.len, to, part->len)
               : inflate_zstd(part->from.data, part->from.len, to, part->len);
}

static sonde_err inflate_all(struct part parts[DWARF_SECTION_COUNT], int scratch,
                             struct dwarf_sections *sections) {
    uint64_t total;
    sonde_err err = plan(parts, scratch >= 0 ? FILE_LIMIT : MEMORY_LIMIT, &total);
    if (err == SONDE_OK && total > 0)
        err = make_room(sections, scratch, total);
    for (int i = 0; i < DWARF_SECTION_COUNT && err == SONDE_OK; i++) {
        sections->of[i] = parts[i].from;
        if (parts[i].method == METHOD_STORED)
            continue;
        char *to = (char *)sections->inflated + parts[i].offset;
        err = fill(&parts[i], to);
        sections->of[i] = (struct sonde_slice){to, parts[i].len};
    }
    return err;
}

sonde_err dwarf_sections_open(int fd, enum dwarf_kind kind, int scratch,
                              struct dwarf_sections *sections) {
    struct elf_input input;
    struct elf_file elf = {0};
    struct part parts[DWARF_SECTION_COUNT] = {0};
    *sections = (struct dwarf_sections){0};
    if (fd < 0 || !elf_input_of_file(fd, &input) || input.size == 0)
        return SONDE_NOT_FOUND;
    void *bytes = mmap(NULL, input.size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return SONDE_OUT_OF_MEMORY;
    sections->file = bytes;
    sections->file_len = input.size;
    input.bytes = bytes;
    sonde_err err = elf_open(&input, &elf, NULL);
    if (err == SONDE_OK)
        err = find_parts(&elf, kind, parts);
    if (err == SONDE_OK)
        err = inflate_all(parts, scratch, sections);
    elf_finish(&elf);
    if (err != SONDE_OK)
        dwarf_sections_finish(sections);
    return err;
}

void dwarf_sections_drop_pages(const struct dwarf_sections *sections) {
    if (sections->file)
        madvise(sections->file, sections->file_len, MADV_DONTNEED);
    if (sections->inflated && sections->is_in_file)
        madvise(sections->inflated, sections->inflated_len, MADV_DONTNEED);
}

void dwarf_sections_finish(struct dwarf_sections *sections) {
    if (sections->file)
        munmap(sections->file, sections->file_len);
    if (sections->inflated)
        munmap(sections->inflated, sections->inflated_len);
    *sections = (struct dwarf_sections){0};
}
