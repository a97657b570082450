/* SPDX-License-Identifier: Apache-2.0
 *
 * The ELF reader over files that are written here, byte by byte. Real files are in the tests of
 * symbols and of unwinding. */
#include "api/elf/elf.h"
#include "service/elf/sections.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define SEGMENTS 2
#define SECTIONS 4
#define DATA_AT  1024u
#define NAMES    "\0.names\0.data\0.bss"

/* A whole file. Tests change it before they open it. */
static struct {
    Elf64_Ehdr header;
    Elf64_Phdr segments[SEGMENTS];
    Elf64_Shdr sections[SECTIONS]; /* none, names, .data, .bss */
    char names[sizeof NAMES];
    char pad[DATA_AT - sizeof(Elf64_Ehdr) - SEGMENTS * sizeof(Elf64_Phdr) -
             SECTIONS * sizeof(Elf64_Shdr) - sizeof NAMES];
    uint8_t data[1024];
} file;
_Static_assert(offsetof(__typeof__(file), data) == DATA_AT, "data is where the headers say");

static struct elf_file elf;

static void make(void) {
    memset(&file, 0, sizeof file);
    memcpy(file.header.e_ident, ELFMAG, SELFMAG);
    file.header.e_ident[EI_CLASS] = ELFCLASS64;
    file.header.e_ident[EI_DATA] = ELFDATA2LSB;
    file.header.e_type = ET_DYN;
    file.header.e_machine = EM_X86_64;
    file.header.e_phoff = offsetof(__typeof__(file), segments);
    file.header.e_phnum = SEGMENTS;
    file.header.e_phentsize = sizeof(Elf64_Phdr);
    file.header.e_shoff = offsetof(__typeof__(file), sections);
    file.header.e_shnum = SECTIONS;
    file.header.e_shentsize = sizeof(Elf64_Shdr);
    file.header.e_shstrndx = 1;
    memcpy(file.names, NAMES, sizeof NAMES);
    file.sections[1] = (Elf64_Shdr){.sh_name = 1,
                                    .sh_type = SHT_STRTAB,
                                    .sh_offset = offsetof(__typeof__(file), names),
                                    .sh_size = sizeof NAMES};
    file.sections[2] = (Elf64_Shdr){
        .sh_name = 8, .sh_type = SHT_PROGBITS, .sh_offset = DATA_AT, .sh_size = sizeof file.data};
    file.sections[3] = (Elf64_Shdr){.sh_name = 14, .sh_type = SHT_NOBITS, .sh_size = 1u << 30};
    file.segments[0] = (Elf64_Phdr){.p_type = PT_LOAD,
                                    .p_vaddr = 0x10000,
                                    .p_offset = DATA_AT,
                                    .p_filesz = 512,
                                    .p_memsz = 512};
    file.segments[1] = (Elf64_Phdr){
        .p_type = PT_LOAD, .p_vaddr = 0x20000, .p_offset = DATA_AT + 512, .p_filesz = 4096};
}

static sonde_err reopen(void) {
    struct elf_input input = {.bytes = (const uint8_t *)&file, .fd = -1, .size = sizeof file};
    elf_finish(&elf);
    return elf_open(&input, &elf, NULL);
}

TEST(elf_file_opens_with_segments_and_named_sections) {
    make();
    CHECK_INT(reopen(), ==, SONDE_OK);
    CHECK_INT(elf.segment_count, ==, SEGMENTS);
    CHECK(elf_section(&elf, ".data") == &elf.sections[2]);
    CHECK(elf_section(&elf, ".dat") == NULL);
    CHECK(elf_section_of_type(&elf, SHT_NOBITS) == &elf.sections[3]);
    CHECK(elf_section_at(&elf, SECTIONS - 1) != NULL && elf_section_at(&elf, SECTIONS) == NULL);
}

TEST(elf_open_distinguishes_other_files_from_broken_ones) {
    make();
    file.header.e_ident[EI_CLASS] = ELFCLASS32;
    CHECK_INT(reopen(), ==, SONDE_INVALID_ARGUMENT);
    make();
    file.header.e_ident[EI_DATA] = ELFDATA2MSB;
    CHECK_INT(reopen(), ==, SONDE_INVALID_ARGUMENT);
    make();
    file.header.e_ident[0] = 0;
    CHECK_INT(reopen(), ==, SONDE_INVALID_ARGUMENT);
    struct elf_input cut = {.bytes = (const uint8_t *)&file, .fd = -1, .size = 63};
    make();
    CHECK_INT(elf_open(&cut, &elf, NULL), ==, SONDE_INVALID_ARGUMENT);
    file.header.e_phoff = sizeof file - sizeof(Elf64_Phdr);
    CHECK_INT(reopen(), ==, SONDE_CORRUPT);
    make();
    file.header.e_phnum = ELF_MAX_SEGMENTS + 1;
    CHECK_INT(reopen(), ==, SONDE_CORRUPT);
    make();
    file.header.e_phentsize = 55;
    CHECK_INT(reopen(), ==, SONDE_CORRUPT);
}

TEST(elf_open_names_the_machine_of_a_file_that_it_refuses) {
    static const struct {
        uint16_t machine;
        uint8_t class, data;
        const char *name; /* NULL = it is opened */
    } cases[] = {
        {EM_X86_64, ELFCLASS64, ELFDATA2LSB, NULL},
        {EM_AARCH64, ELFCLASS64, ELFDATA2LSB, NULL},
        {EM_AARCH64, ELFCLASS32, ELFDATA2LSB, "arm64 with 32-bit pointers (ILP32)"},
        {EM_AARCH64, ELFCLASS64, ELFDATA2MSB, "big-endian arm64"},
        {EM_X86_64, ELFCLASS32, ELFDATA2LSB, "x86-64 with 32-bit pointers (x32)"},
        {EM_RISCV, ELFCLASS64, ELFDATA2LSB, "RISC-V"},
        {EM_RISCV, ELFCLASS32, ELFDATA2LSB, "RISC-V with 32-bit pointers"},
        {EM_386, ELFCLASS32, ELFDATA2LSB, "32-bit x86"},
        {EM_S390, ELFCLASS64, ELFDATA2MSB, "big-endian s390"},
        {0x7777, ELFCLASS64, ELFDATA2LSB, "machine 30583"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct elf_input input = {.bytes = (const uint8_t *)&file, .fd = -1, .size = sizeof file};
        struct sonde_diag diag = {0};
        char wanted[sizeof diag.text];
        make();
        file.header.e_machine = cases[i].machine;
        if (cases[i].data == ELFDATA2MSB)
            file.header.e_machine = __builtin_bswap16(cases[i].machine);
        file.header.e_ident[EI_CLASS] = cases[i].class;
        file.header.e_ident[EI_DATA] = cases[i].data;
        elf_finish(&elf);
        sonde_err err = elf_open(&input, &elf, &diag);
        CHECK_INT(err, ==, cases[i].name ? SONDE_INVALID_ARGUMENT : SONDE_OK);
        snprintf(wanted, sizeof wanted,
                 "the file is for %s; Sonde reads 64-bit little-endian ELF files for x86-64 and "
                 "arm64",
                 cases[i].name);
        CHECK_STR(diag.text, cases[i].name ? wanted : "");
    }
}

TEST(elf_file_with_broken_section_headers_keeps_its_segments) {
    static const uint64_t wrong_offsets[] = {0, sizeof file, UINT64_MAX - 8, sizeof file - 100};
    for (size_t i = 0; i < sizeof wrong_offsets / sizeof *wrong_offsets; i++) {
        make();
        file.header.e_shoff = wrong_offsets[i];
        CHECK_INT(reopen(), ==, SONDE_OK);
        CHECK_INT(elf.segment_count, ==, SEGMENTS);
        CHECK_INT(elf.section_count, ==, 0);
        CHECK(elf.has_unread_sections == (i > 0)); /* 0: there are none */
        CHECK(elf_section(&elf, ".data") == NULL);
    }
    make();
    file.header.e_shstrndx = SECTIONS; /* no names, but types */
    CHECK_INT(reopen(), ==, SONDE_OK);
    CHECK(elf_section(&elf, ".data") == NULL);
    CHECK(elf_section_of_type(&elf, SHT_PROGBITS) != NULL);
    make();
    file.sections[2].sh_name = UINT32_MAX;
    CHECK_INT(reopen(), ==, SONDE_OK);
    CHECK_STR(elf_section_name(&elf, &elf.sections[2]), "");
}

TEST(elf_large_files_keep_their_section_numbers_in_section_0) {
    make();
    file.header.e_shnum = 0;
    file.header.e_shstrndx = SHN_XINDEX;
    file.sections[0].sh_size = SECTIONS;
    file.sections[0].sh_link = 1;
    CHECK_INT(reopen(), ==, SONDE_OK);
    CHECK(elf_section(&elf, ".data") == &elf.sections[2]);
    CHECK(!elf.has_unread_sections);
    file.sections[0].sh_size = ELF_MAX_SECTIONS + 1;
    CHECK_INT(reopen(), ==, SONDE_OK);
    CHECK_INT(elf.section_count, ==, 0);
    CHECK(elf.has_unread_sections);
}

TEST(elf_file_may_have_more_sections_than_16_bits_can_count) {
    enum { COUNT = 70000, NAMES_AT = 69999 };
    make();
    size_t size = sizeof file + COUNT * sizeof(Elf64_Shdr);
    uint8_t *bytes = calloc(1, size);
    CHECK(bytes);
    file.header.e_shoff = sizeof file;
    file.header.e_shnum = 0;
    file.header.e_shstrndx = SHN_XINDEX;
    memcpy(bytes, &file, sizeof file);
    Elf64_Shdr *sections = (Elf64_Shdr *)(bytes + sizeof file);
    sections[0] = (Elf64_Shdr){.sh_size = COUNT, .sh_link = NAMES_AT};
    sections[NAMES_AT] = file.sections[1];
    sections[NAMES_AT - 1] = file.sections[2];
    struct elf_input input = {.bytes = bytes, .fd = -1, .size = size};
    elf_finish(&elf);
    CHECK_INT(elf_open(&input, &elf, NULL), ==, SONDE_OK);
    CHECK_INT(elf.section_count, ==, COUNT);
    CHECK(elf_section(&elf, ".data") == &elf.sections[NAMES_AT - 1]);
    elf_finish(&elf);
    free(bytes);
}

TEST(elf_offset_of_an_address_is_bounded_by_segment_and_file) {
    uint64_t offset, len;
    make();
    CHECK_INT(reopen(), ==, SONDE_OK);
    CHECK(elf_offset_of(&elf, 0x10000, &offset, &len));
    CHECK_INT(offset, ==, DATA_AT);
    CHECK_INT(len, ==, 512);
    CHECK(elf_offset_of(&elf, 0x101ff, &offset, &len) && len == 1);
    CHECK(!elf_offset_of(&elf, 0x10200, &offset, &len));
    CHECK(!elf_offset_of(&elf, 0xffff, &offset, &len));
    CHECK(elf_offset_of(&elf, 0x20000, &offset, &len)); /* longer than the file */
    CHECK_INT(len, ==, 512);
    CHECK(!elf_offset_of(&elf, 0x20200, &offset, &len));
}

TEST(elf_append_refuses_ranges_outside_of_the_file) {
    struct sonde_buf bytes = {0};
    make();
    CHECK_INT(reopen(), ==, SONDE_OK);
    CHECK_INT(elf_append(&elf, DATA_AT, 1024, 1024, &bytes), ==, SONDE_OK);
    CHECK_INT(bytes.len, ==, 1024);
    CHECK_INT(elf_append(&elf, DATA_AT, 1024, 1023, &bytes), ==, SONDE_TOO_LARGE);
    CHECK_INT(elf_append(&elf, DATA_AT + 1, 1024, 4096, &bytes), ==, SONDE_CORRUPT);
    CHECK_INT(elf_append(&elf, UINT64_MAX, 2, 4096, &bytes), ==, SONDE_CORRUPT);
    CHECK_INT(bytes.len, ==, 1024);
    sonde_buf_finish(&bytes);
}

/* Makes .data a compressed section of `size` bytes of 'x'. */
static void compress_data(uint64_t size) {
    char text[4096];
    uLongf len = sizeof file.data - sizeof(Elf64_Chdr);
    Elf64_Chdr header = {.ch_type = ELFCOMPRESS_ZLIB, .ch_size = size};
    memset(text, 'x', sizeof text);
    make();
    CHECK(size <= sizeof text);
    CHECK(compress(file.data + sizeof header, &len, (const Bytef *)text, size) == Z_OK);
    memcpy(file.data, &header, sizeof header);
    file.sections[2].sh_flags = SHF_COMPRESSED;
    file.sections[2].sh_size = sizeof header + len;
    CHECK_INT(reopen(), ==, SONDE_OK);
}

static sonde_err load_data(size_t limit, struct sonde_buf *bytes) {
    return elf_load(&elf, elf_section(&elf, ".data"), limit, bytes);
}

TEST(elf_load_inflates_a_compressed_section) {
    struct sonde_buf bytes = {0};
    compress_data(4000);
    CHECK_INT(load_data(4000, &bytes), ==, SONDE_OK);
    CHECK_INT(bytes.len, ==, 4000);
    CHECK(bytes.data[0] == 'x' && bytes.data[3999] == 'x');
    sonde_buf_finish(&bytes);
    CHECK_INT(load_data(3999, &bytes), ==, SONDE_TOO_LARGE);
    CHECK_INT(bytes.len, ==, 0);
    sonde_buf_finish(&bytes);
}

TEST(elf_load_refuses_a_compressed_section_that_promises_more_than_it_has) {
    static const uint64_t sizes[] = {3999, 4001, 1u << 20, (uint64_t)1 << 40};
    struct sonde_buf bytes = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        compress_data(4000);
        memcpy(file.data + offsetof(Elf64_Chdr, ch_size), &sizes[i], sizeof sizes[i]);
        CHECK_INT(load_data(SIZE_MAX, &bytes), ==, SONDE_CORRUPT);
        CHECK_INT(bytes.len, ==, 0);
    }
    CHECK_INT(bytes.capacity, <, 1u << 20); /* the impossible sizes took no memory */
    compress_data(4000);
    file.data[0] = 77; /* an unknown method */
    CHECK_INT(load_data(SIZE_MAX, &bytes), ==, SONDE_CORRUPT);
    file.sections[2].sh_size = sizeof(Elf64_Chdr) - 1;
    CHECK_INT(reopen(), ==, SONDE_OK);
    CHECK_INT(load_data(SIZE_MAX, &bytes), ==, SONDE_CORRUPT);
    sonde_buf_finish(&bytes);
}

TEST(elf_load_of_a_section_without_bytes_is_not_found) {
    struct sonde_buf bytes = {0};
    make();
    CHECK_INT(reopen(), ==, SONDE_OK);
    CHECK_INT(elf_load(&elf, elf_section(&elf, ".bss"), SIZE_MAX, &bytes), ==, SONDE_NOT_FOUND);
    sonde_buf_finish(&bytes);
}

/* Appends a note with its padding; returns the new length. */
static size_t put_note(uint8_t *to, size_t at, uint32_t type, const char *name, uint32_t size) {
    uint32_t name_size = (uint32_t)strlen(name) + 1;
    const uint32_t header[3] = {name_size, size, type};
    memcpy(to + at, header, sizeof header);
    memcpy(to + at + 12, name, name_size);
    at += 12 + ((name_size + 3) & ~3u);
    memset(to + at, 0xab, size);
    return at + ((size + 3) & ~3u);
}

TEST(elf_build_id_is_found_among_other_notes) {
    uint8_t notes[512] = {0}, build_id[ELF_BUILD_ID_MAX];
    size_t len = put_note(notes, 0, 1, "stapsdt", 5);
    len = put_note(notes, len, NT_GNU_BUILD_ID, "Go", 8); /* another owner's type 3 */
    len = put_note(notes, len, NT_GNU_BUILD_ID, "GNU", 20);
    CHECK_INT(elf_build_id_of_notes(notes, len, build_id), ==, 20);
    CHECK(build_id[0] == 0xab && build_id[19] == 0xab);
    CHECK_INT(elf_build_id_of_notes(notes, len - 1, build_id), ==, 0); /* cut */
    len = put_note(notes, 0, NT_GNU_BUILD_ID, "GNU", ELF_BUILD_ID_MAX + 1);
    CHECK_INT(elf_build_id_of_notes(notes, len, build_id), ==, 0);
    memset(notes, 0xff, sizeof notes); /* sizes that overflow */
    CHECK_INT(elf_build_id_of_notes(notes, sizeof notes, build_id), ==, 0);
}

static bool is_program(const Elf64_Dyn dynamic[2], uint32_t type, bool interpreter) {
    make();
    memcpy(file.data, dynamic, 2 * sizeof *dynamic);
    file.segments[0].p_type = type;
    file.segments[1].p_type = interpreter ? PT_INTERP : PT_NULL;
    CHECK_INT(reopen(), ==, SONDE_OK);
    return elf_is_program(&elf);
}

TEST(elf_programs_differ_from_libraries_by_interpreter_and_soname) {
    static const Elf64_Dyn none[2], soname[2] = {{.d_tag = DT_NEEDED}, {.d_tag = DT_SONAME}};
    static const Elf64_Dyn pie[2] = {{.d_tag = DT_FLAGS_1, .d_un.d_val = DF_1_PIE}};
    static const Elf64_Dyn after_the_end[2] = {{.d_tag = DT_NULL}, {.d_tag = DT_SONAME}};
    CHECK(is_program(none, PT_DYNAMIC, true));
    CHECK(!is_program(none, PT_DYNAMIC, false));
    CHECK(!is_program(soname, PT_DYNAMIC, true)); /* libc, which can be run */
    CHECK(is_program(soname, PT_LOAD, true));     /* these are not dynamic entries */
    CHECK(is_program(pie, PT_DYNAMIC, false));
    CHECK(is_program(after_the_end, PT_DYNAMIC, true));
    file.header.e_type = ET_EXEC;
    CHECK_INT(reopen(), ==, SONDE_OK);
    CHECK(elf_is_program(&elf));
}

TEST(elf_input_is_a_regular_file) {
    int ends[2];
    struct elf_input input;
    CHECK_INT(pipe(ends), ==, 0);
    CHECK(!elf_input_of_file(ends[0], &input));
    CHECK(!elf_input_of_file(-1, &input));
    close(ends[0]), close(ends[1]);
}
