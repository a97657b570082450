/* SPDX-License-Identifier: Apache-2.0
 *
 * Disassembling: kinds, targets and texts for both machines, what a large function is shortened to,
 * and files of code that are damaged. */
#include "service/symbol/code/code_file.h"
#include "service/symbol/code/disassemble.h"
#include "service/symbol/code/read_code.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct decoded {
    struct symbol_instruction items[32];
    char texts[32][64];
    uint32_t count;
};

static void keep(void *context, const struct symbol_instruction *instruction, const char *text) {
    struct decoded *decoded = context;
    CHECK(decoded->count < 32);
    decoded->items[decoded->count] = *instruction;
    snprintf(decoded->texts[decoded->count++], 64, "%s", text);
}

static void decode(const struct machine *machine, const void *bytes, size_t len,
                   struct decoded *decoded) {
    struct disassembler *disassembler = disassembler_create(machine);
    CHECK(disassembler != NULL);
    decoded->count = 0;
    disassemble(disassembler, bytes, len, 0x1000, keep, decoded);
    disassembler_destroy(disassembler);
}

static void expect(const struct decoded *decoded, uint32_t at, enum symbol_code_kind kind,
                   uint64_t target, const char *start) {
    CHECK_INT(decoded->items[at].kind, ==, kind);
    CHECK_INT(decoded->items[at].target, ==, target);
    if (strncmp(decoded->texts[at], start, strlen(start)) != 0)
        check_fail(__FILE__, __LINE__, "%s does not start with %s", decoded->texts[at], start);
}

TEST(x86_64_instructions_have_kinds_and_targets) {
    static const uint8_t code[] = {
        0x31, 0xc0,                   /* xor */
        0xe8, 0x09, 0x00, 0x00, 0x00, /* call 0x1010 */
        0x75, 0xf7,                   /* jne 0x1000 */
        0xeb, 0x05,                   /* jmp 0x1010 */
        0x06,                         /* not an instruction in 64-bit mode */
        0xff, 0xe0,                   /* jmp *%rax */
        0xc3,                         /* ret */
    };
    struct decoded decoded;
    decode(&machine_x86_64, code, sizeof code, &decoded);
    CHECK_INT(decoded.count, ==, 7);
    expect(&decoded, 0, SYMBOL_CODE_PLAIN, 0, "xorl    %eax, %eax");
    expect(&decoded, 1, SYMBOL_CODE_CALL, 0x1010, "call");
    expect(&decoded, 2, SYMBOL_CODE_BRANCH, 0x1000, "jne");
    expect(&decoded, 3, SYMBOL_CODE_JUMP, 0x1010, "jmp");
    expect(&decoded, 4, SYMBOL_CODE_DATA, 0, ".byte   06");
    expect(&decoded, 5, SYMBOL_CODE_JUMP, 0, "jmp");
    expect(&decoded, 6, SYMBOL_CODE_RETURN, 0, "ret");
}

TEST(arm64_instructions_have_kinds_and_targets) {
    static const uint32_t code[] = {
        0x8b010000, /* add x0, x0, x1 */
        0x94000003, /* bl 0x1010 */
        0x54ffffc1, /* b.ne 0x1000 */
        0xb4ffffa0, /* cbz x0, 0x1000 */
        0x36180060, /* tbz w0, #3, 0x101c */
        0x14000002, /* b 0x101c */
        0x00000000, /* not an instruction */
        0xd65f03c0, /* ret */
    };
    struct decoded decoded;
    decode(&machine_aarch64, code, sizeof code, &decoded);
    CHECK_INT(decoded.count, ==, 8);
    expect(&decoded, 0, SYMBOL_CODE_PLAIN, 0, "add     x0, x0, x1");
    expect(&decoded, 1, SYMBOL_CODE_CALL, 0x1010, "bl");
    expect(&decoded, 2, SYMBOL_CODE_BRANCH, 0x1000, "b.ne");
    expect(&decoded, 3, SYMBOL_CODE_BRANCH, 0x1000, "cbz");
    expect(&decoded, 4, SYMBOL_CODE_BRANCH, 0x101c, "tbz");
    expect(&decoded, 5, SYMBOL_CODE_JUMP, 0x101c, "b ");
    expect(&decoded, 6, SYMBOL_CODE_DATA, 0, ".byte");
    expect(&decoded, 7, SYMBOL_CODE_RETURN, 0, "ret");
}

/* ---- code of an ELF file, which is only what elf_offset_of needs ---- */

#define NOPS (2 * SYMBOL_CODE_WHOLE)

struct nops {
    struct elf_file elf;
    Elf64_Phdr segment;
    uint8_t *bytes;
};

static void make_nops(struct nops *nops) {
    nops->bytes = malloc(NOPS);
    memset(nops->bytes, 0x90, NOPS);
    nops->segment = (Elf64_Phdr){
        .p_type = PT_LOAD, .p_flags = PF_X, .p_vaddr = 0x1000, .p_filesz = NOPS, .p_memsz = NOPS};
    nops->elf = (struct elf_file){.input = {.bytes = nops->bytes, .fd = -1, .size = NOPS},
                                  .segments = &nops->segment,
                                  .segment_count = 1};
}

static sonde_err read_nops(const struct nops *nops, uint64_t start, uint64_t end,
                           const uint64_t *wanted, uint32_t wanted_count,
                           struct symbol_code *code) {
    const struct symbol_code_range range = {start, end};
    const struct symbol_code_request request = {&range, 1, wanted, wanted_count};
    struct disassembler *disassembler = disassembler_create(&machine_x86_64);
    struct sonde_buf bytes = {0};
    sonde_err err = read_code(&nops->elf, disassembler, &request, &bytes);
    *code = (struct symbol_code){0};
    if (!err)
        CHECK(code_file_open(&bytes, code));
    sonde_buf_finish(&bytes);
    disassembler_destroy(disassembler);
    return err;
}

TEST(small_code_is_whole_and_large_code_is_what_is_around_the_wanted) {
    struct nops nops;
    struct symbol_code code;
    static const uint64_t wanted[] = {0x1000, 0x1000 + SYMBOL_CODE_WHOLE};
    make_nops(&nops);
    CHECK_INT(read_nops(&nops, 0x1000, 0x1000 + 1000, NULL, 0, &code), ==, SONDE_OK);
    CHECK_INT(code.count, ==, 1000);
    symbol_code_finish(&code);
    CHECK_INT(read_nops(&nops, 0x1000, 0x1000 + NOPS, wanted, 2, &code), ==, SONDE_OK);
    CHECK_INT(code.count, ==, 3 * SYMBOL_CODE_AROUND + 2);
    CHECK_INT(code.instructions[SYMBOL_CODE_AROUND + 1].is_after_gap, ==, 1);
    CHECK_INT(code.instructions[2 * SYMBOL_CODE_AROUND + 1].vaddr, ==, wanted[1]);
    symbol_code_finish(&code);
    free(nops.bytes);
}

TEST(code_that_the_file_lacks_and_ranges_of_nothing_are_refused) {
    struct nops nops;
    struct symbol_code code;
    make_nops(&nops);
    CHECK_INT(read_nops(&nops, 0x100, 0x200, NULL, 0, &code), ==, SONDE_NOT_FOUND);
    CHECK_INT(read_nops(&nops, 0x1100, 0x1100, NULL, 0, &code), ==, SONDE_TOO_LARGE);
    CHECK_INT(read_nops(&nops, 0x1000, 0x1001 + (uint64_t)SYMBOL_CODE_BYTES, NULL, 0, &code), ==,
              SONDE_TOO_LARGE);
    nops.segment.p_filesz = 0; /* as in a debug file */
    CHECK_INT(read_nops(&nops, 0x1000, 0x1100, NULL, 0, &code), ==, SONDE_NOT_FOUND);
    free(nops.bytes);
}

TEST(a_debug_file_that_keeps_its_segments_has_no_code) {
    struct nops nops;
    struct symbol_code code;
    Elf64_Shdr text = {.sh_type = SHT_NOBITS,
                       .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                       .sh_addr = 0x1000,
                       .sh_size = 0x100};
    make_nops(&nops);
    nops.elf.sections = &text;
    nops.elf.section_count = 1;
    CHECK_INT(read_nops(&nops, 0x10ff, 0x1100, NULL, 0, &code), ==, SONDE_NOT_FOUND);
    CHECK_INT(read_nops(&nops, 0x1100, 0x1200, NULL, 0, &code), ==, SONDE_OK); /* behind it */
    symbol_code_finish(&code);
    text.sh_type = SHT_PROGBITS;
    CHECK_INT(read_nops(&nops, 0x10ff, 0x1100, NULL, 0, &code), ==, SONDE_OK);
    symbol_code_finish(&code);
    free(nops.bytes);
}

TEST(more_instructions_than_the_limit_are_cut) {
    struct code_writer writer = {0};
    struct sonde_buf bytes = {0};
    struct symbol_code code;
    for (uint64_t i = 0; i <= SYMBOL_CODE_INSTRUCTIONS; i++)
        code_writer_add(&writer, &(struct symbol_instruction){.vaddr = i, .size = 1}, "nop");
    CHECK(code_writer_finish(&writer, &bytes));
    CHECK(code_file_open(&bytes, &code));
    CHECK_INT(code.count, ==, SYMBOL_CODE_INSTRUCTIONS);
    CHECK(code.is_cut);
    symbol_code_finish(&code);
}

/* ---- damaged files ---- */

static void write_two(struct sonde_buf *bytes) {
    struct code_writer writer = {0};
    code_writer_add(&writer, &(struct symbol_instruction){.vaddr = 16, .size = 4}, "one");
    code_writer_add(&writer, &(struct symbol_instruction){.vaddr = 20, .size = 4}, "two");
    CHECK(code_writer_finish(&writer, bytes));
}

static bool opens_with(size_t at, uint64_t value, size_t len) {
    struct sonde_buf bytes = {0};
    struct symbol_code code;
    write_two(&bytes);
    memcpy(bytes.data + at, &value, len);
    bool good = code_file_open(&bytes, &code);
    symbol_code_finish(&code);
    return good;
}

TEST(damaged_code_is_refused) {
    size_t second = sizeof(struct code_file_header) + sizeof(struct symbol_instruction);
    CHECK(opens_with(0, CODE_FILE_MAGIC, 8));
    CHECK(!opens_with(0, 1, 8));
    CHECK(!opens_with(offsetof(struct code_file_header, instruction_count), 3, 4));
    CHECK(!opens_with(offsetof(struct code_file_header, text_bytes), 1000, 8));
    CHECK(!opens_with(second + offsetof(struct symbol_instruction, vaddr), 19, 8)); /* overlaps */
    CHECK(!opens_with(second + offsetof(struct symbol_instruction, vaddr), UINT64_MAX, 8));
    CHECK(!opens_with(second + offsetof(struct symbol_instruction, text), 8, 4));
    CHECK(!opens_with(second + offsetof(struct symbol_instruction, size), 0, 1));
    CHECK(!opens_with(second + offsetof(struct symbol_instruction, kind), SYMBOL_CODE_KINDS, 1));
    CHECK(!opens_with(second + sizeof(struct symbol_instruction) + 7, 'x', 1)); /* the last NUL */
}

TEST(requests_come_back_as_they_were_and_damaged_ones_are_refused) {
    static const struct symbol_code_range ranges[] = {{1, 2}, {3, 4}};
    static const uint64_t wanted[] = {1, 3, 3};
    const struct symbol_code_request request = {ranges, 2, wanted, 3};
    struct symbol_code_request read;
    struct sonde_buf bytes = {0};
    code_request_write(&request, &bytes);
    CHECK(code_request_read(sonde_buf_slice(&bytes), &read));
    CHECK_INT(read.range_count, ==, 2);
    CHECK_INT(read.ranges[1].end, ==, 4);
    CHECK_INT(read.wanted_count, ==, 3);
    CHECK_INT(read.wanted[1], ==, 3);
    CHECK(!code_request_read((struct sonde_slice){bytes.data, bytes.len - 1}, &read));
    CHECK(!code_request_read((struct sonde_slice){bytes.data, 3}, &read));
    bytes.data[0]++;
    CHECK(!code_request_read(sonde_buf_slice(&bytes), &read));
    sonde_buf_finish(&bytes);
}
