/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/symbol/dwarf/large_dwarf.h"

#include "tests/unit/check.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS_IN_UNIT 512u
#define ROW_BYTES         16u
#define ROWS              (LARGE_DWARF_FUNCTION / ROW_BYTES)
#define FILLERS           200u /* other DIEs for each function */
#define NAME_BYTES        18u  /* "function_00000000" */

/* A section. Each is written to its own file, because all grow at the same time. */
struct section {
    const char *name;
    FILE *file;
    uint64_t offset, len;
};

enum { INFO, ABBREV, LINE, STRINGS, SECTIONS };

static void put(struct section *section, uint64_t value, unsigned size) {
    for (unsigned i = 0; i < size; i++, value >>= 8)
        putc_unlocked((int)(value & 255), section->file);
    section->len += size;
}

static void put_bytes(struct section *section, const void *bytes, size_t len) {
    CHECK_INT(fwrite(bytes, 1, len, section->file), ==, len);
    section->len += len;
}

static void put_text(struct section *section, const char *text) {
    put_bytes(section, text, strlen(text) + 1);
}

static void put_abbreviations(struct section *abbrev) {
    static const uint8_t table[] = {
        1, 0x11, 1, 0x13, 0x0b, 0x03, 0x08, 0x1b, 0x08, 0x11, 0x01, 0x12, 0x06, 0x10, 0x17,
        0, 0,    2, 0x2e, 1,    0x03, 0x0e, 0x11, 0x01, 0x12, 0x06, 0,    0, /* with code */
        3, 0x1d, 0, 0x31, 0x13, 0x11, 0x01, 0x12, 0x06, 0x58, 0x0b, 0x59, 0x05, 0,    0,
        4, 0x2e, 0, 0x03, 0x08, 0x20, 0x0b, 0,    0,                         /* to be inlined */
        5, 0x05, 0, 0x03, 0x0e, 0x3a, 0x0b, 0x3b, 0x05, 0x02, 0x18, 0,    0, /* a parameter */
        0};
    put_bytes(abbrev, table, sizeof table);
}

/* --- one unit --------------------------------------------------------------------------------- */

static void put_function(struct section *info, uint32_t i, uint32_t inlined) {
    uint64_t start = LARGE_DWARF_BASE + (uint64_t)i * LARGE_DWARF_FUNCTION;
    put(info, 2, 1);
    put(info, (uint64_t)i * NAME_BYTES, 4);
    put(info, start, 8);
    put(info, LARGE_DWARF_FUNCTION, 4);
    for (uint32_t k = 0; k < FILLERS; k++) {
        put(info, 5, 1);
        put(info, (uint64_t)i * NAME_BYTES, 4);
        put(info, 1, 1);
        put(info, k, 2);
        put(info, 0x91 << 8 | 2, 2); /* two bytes of expression: */
        put(info, 0x10, 1);
    }
    put(info, 3, 1);
    put(info, inlined, 4);
    put(info, start + 64, 8);
    put(info, 32, 4);
    put(info, 0, 1);
    put(info, i % 1000 + 3, 2);
    put(info, 0, 1);
}

/* Length, version, type, address size, abbreviations; the same for each unit. */
static void put_unit(struct section *info, struct section *line, uint32_t first) {
    char name[64];
    static char *bytes;
    static size_t size;
    struct section body = {.file = open_memstream(&bytes, &size)};
    put(&body, 5, 2);
    put(&body, 1, 1);
    put(&body, 8, 1);
    put(&body, 0, 4);
    put(&body, 1, 1);
    put(&body, 0x0c, 1); /* C99 */
    snprintf(name, sizeof name, "unit_%u.c", first / FUNCTIONS_IN_UNIT);
    put_text(&body, name);
    put_text(&body, "/src");
    put(&body, LARGE_DWARF_BASE + (uint64_t)first * LARGE_DWARF_FUNCTION, 8);
    put(&body, FUNCTIONS_IN_UNIT * LARGE_DWARF_FUNCTION, 4);
    put(&body, line->len, 4);
    uint32_t inlined = (uint32_t)body.len + 4; /* the length comes before */
    put(&body, 4, 1);
    snprintf(name, sizeof name, "inlined_%u", first / FUNCTIONS_IN_UNIT);
    put_text(&body, name);
    put(&body, 1, 1);
    for (uint32_t i = 0; i < FUNCTIONS_IN_UNIT; i++)
        put_function(&body, first + i, inlined);
    put(&body, 0, 1);
    fclose(body.file);
    put(info, size, 4);
    put_bytes(info, bytes, size);
    free(bytes);
}

/* Version 5: one directory, one file; then a row for every 8 bytes, in special opcodes. */
static void put_lines(struct section *line, uint32_t first) {
    static const uint8_t header[] = {1,   1,   1,   0xfb, 14, 13, 0, 1, 1, 1,    1,
                                     0,   0,   0,   1,    0,  0,  1, 1, 1, 8,    1,
                                     '/', 's', 'r', 'c',  0,  2,  1, 8, 2, 0x0b, 1};
    char name[64];
    int name_len = snprintf(name, sizeof name, "unit_%u.c", first / FUNCTIONS_IN_UNIT) + 1;
    uint64_t header_len = sizeof header + (uint64_t)name_len + 1;
    uint64_t program = 2 + 11 + FUNCTIONS_IN_UNIT * (ROWS + 4) + 3;
    put(line, 2 + 1 + 1 + 4 + header_len + program, 4);
    put(line, 5, 2);
    put(line, 8, 1);
    put(line, 0, 1);
    put(line, header_len, 4);
    put_bytes(line, header, sizeof header);
    put_bytes(line, name, (size_t)name_len);
    put(line, 0, 1);
    put(line, 0x0004, 2); /* file 0 */
    put(line, 0x020900, 3);
    put(line, LARGE_DWARF_BASE + (uint64_t)first * LARGE_DWARF_FUNCTION, 8);
    for (uint32_t i = 0; i < FUNCTIONS_IN_UNIT; i++) {
        put(line, 1, 1); /* copy: line 1; the address is where the last function ended */
        for (uint32_t k = 1; k < ROWS; k++)
            put(line, 13 + ROW_BYTES * 14 + 1 + 5, 1); /* advances the address and the line */
        put(line, 0x02 | ROW_BYTES << 8, 2);           /* over the last row */
        put(line, 3, 1);                               /* back to line 1 */
        put(line, 128 - (ROWS - 1), 1);
    }
    put(line, 0x010100, 3);
}

/* --- the file --------------------------------------------------------------------------------- */

static void copy_into(struct section *section, FILE *out, uint64_t *at) {
    static char piece[1 << 16];
    rewind(section->file);
    section->offset = *at;
    for (size_t got; (got = fread(piece, 1, sizeof piece, section->file)) > 0; *at += got)
        CHECK_INT(fwrite(piece, 1, got, out), ==, got);
    fclose(section->file);
}

static void put_headers(FILE *out, const struct section *sections, uint64_t code, uint64_t at) {
    static const char names[] =
        "\0.shstrtab\0.text\0.debug_info\0.debug_abbrev\0.debug_line\0.debug_str";
    static const uint32_t offsets[] = {17, 29, 43, 55};
    Elf64_Shdr headers[3 + SECTIONS] = {
        [1] = {.sh_name = 1, .sh_type = SHT_STRTAB, .sh_offset = at, .sh_size = sizeof names},
        [2] = {.sh_name = 11,
               .sh_type = SHT_NOBITS,
               .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
               .sh_addr = LARGE_DWARF_BASE,
               .sh_size = code}};
    for (int i = 0; i < SECTIONS; i++)
        headers[3 + i] = (Elf64_Shdr){.sh_name = offsets[i],
                                      .sh_type = SHT_PROGBITS,
                                      .sh_offset = sections[i].offset,
                                      .sh_size = sections[i].len};
    Elf64_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_EXEC,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_shoff = at + sizeof names,
        .e_ehsize = sizeof header,
        .e_shentsize = sizeof *headers,
        .e_shnum = 3 + SECTIONS,
        .e_shstrndx = 1};
    CHECK_INT(fwrite(names, 1, sizeof names, out), ==, sizeof names);
    CHECK_INT(fwrite(headers, 1, sizeof headers, out), ==, sizeof headers);
    rewind(out);
    CHECK_INT(fwrite(&header, 1, sizeof header, out), ==, sizeof header);
}

struct large_dwarf large_dwarf_write(const char *path, uint64_t bytes) {
    struct section sections[SECTIONS];
    struct large_dwarf made = {0};
    FILE *out = fopen(path, "w");
    CHECK(out);
    for (int i = 0; i < SECTIONS; i++)
        sections[i] = (struct section){.file = tmpfile()};
    put_abbreviations(&sections[ABBREV]);
    for (; sections[INFO].len < bytes; made.units++, made.functions += FUNCTIONS_IN_UNIT) {
        char name[32];
        for (uint32_t i = 0; i < FUNCTIONS_IN_UNIT; i++) {
            snprintf(name, sizeof name, "function_%08u", made.functions + i);
            put_text(&sections[STRINGS], name);
        }
        put_unit(&sections[INFO], &sections[LINE], made.functions);
        put_lines(&sections[LINE], made.functions);
    }
    made.info_bytes = sections[INFO].len;
    uint64_t at = sizeof(Elf64_Ehdr);
    CHECK_INT(fseek(out, (long)at, SEEK_SET), ==, 0);
    for (int i = 0; i < SECTIONS; i++)
        copy_into(&sections[i], out, &at);
    put_headers(out, sections, (uint64_t)made.functions * LARGE_DWARF_FUNCTION, at);
    CHECK_INT(fclose(out), ==, 0);
    return made;
}
