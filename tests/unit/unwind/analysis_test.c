/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows that the analysis of instructions finds, beside those that the compiler wrote: for all
 * functions of the C library, where both know a row. */
#include "api/elf/elf.h"
#include "service/unwind/code/analysis.h"
#include "service/unwind/code/instruction.h"
#include "service/unwind/table/table_build.h"
#include "service/unwind/table/table_lookup.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBC "/lib/x86_64-linux-gnu/libc.so.6"

static struct elf_file elf;
static struct sonde_buf theirs;
static struct { uint32_t functions, certain, rows, by_rbp, different; } count;

static void open_libc(void) {
    struct elf_input input;
    int fd = open(LIBC, O_RDONLY | O_CLOEXEC);
    CHECK_INT(unwind_table_build(fd, &theirs, NULL), ==, SONDE_OK);
    CHECK(elf_input_of_file(fd, &input));
    CHECK_INT(elf_open(&input, &elf, NULL), ==, SONDE_OK);
}

/* The table of one function; empty if nothing is certain. */
static void analyse(const uint8_t *code, uint32_t size, struct sonde_buf *table) {
    struct unwind_rows rows;
    unwind_rows_init(&rows);
    rows.origin = 0;
    if (unwind_analysis_run(code, size, 0, &rows))
        CHECK_INT(unwind_rows_write(&rows, table), ==, SONDE_OK);
    unwind_rows_finish(&rows);
}

static void compare_at(uint64_t vaddr, const struct unwind_rule *ours, const char *name) {
    const struct unwind_rule *their = unwind_table_rule(theirs.data, vaddr);
    if (ours->cfa != their->cfa || (ours->cfa != UNWIND_CFA_RSP && ours->cfa != UNWIND_CFA_RBP))
        return;
    count.rows++;
    count.by_rbp += ours->cfa == UNWIND_CFA_RBP;
    if (ours->cfa_offset == their->cfa_offset)
        return;
    if (count.different++ < 10)
        printf("%s at %lx: %+d, not %+d\n", name, (unsigned long)vaddr, ours->cfa_offset,
               their->cfa_offset);
}

static void compare(const Elf64_Sym *symbol, const char *name) {
    uint64_t offset, len;
    struct sonde_buf ours = {0};
    if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_size == 0 ||
        !elf_offset_of(&elf, symbol->st_value, &offset, &len) || len < symbol->st_size)
        return;
    uint8_t *code = malloc(symbol->st_size);
    CHECK(elf_read(&elf.input, offset, code, symbol->st_size));
    analyse(code, (uint32_t)symbol->st_size, &ours);
    count.functions++;
    count.certain += ours.len > 0;
    struct instruction instruction = {.length = 1};
    for (uint64_t at = 0; ours.len && at < symbol->st_size; at += instruction.length) {
        if (!instruction_decode(code + at, symbol->st_size - at, &instruction))
            break;
        compare_at(symbol->st_value + at, unwind_table_rule(ours.data, at), name);
    }
    sonde_buf_finish(&ours);
    free(code);
}

TEST(rows_by_analysis_equal_the_compilers) {
    open_libc();
    const Elf64_Shdr *section = elf_section_of_type(&elf, SHT_DYNSYM);
    const Elf64_Shdr *strings = section ? elf_section_at(&elf, section->sh_link) : NULL;
    struct sonde_buf symbols = {0}, names = {0};
    CHECK(strings != NULL);
    CHECK_INT(elf_append(&elf, section->sh_offset, section->sh_size, 1 << 24, &symbols), ==, 0);
    CHECK_INT(elf_append(&elf, strings->sh_offset, strings->sh_size, 1 << 24, &names), ==, 0);
    for (size_t i = 0; i + sizeof(Elf64_Sym) <= symbols.len; i += sizeof(Elf64_Sym)) {
        const Elf64_Sym *symbol = (const Elf64_Sym *)(symbols.data + i);
        compare(symbol, names.data + symbol->st_name % names.len);
    }
    printf("%u of %u functions are certain; %u of %u instructions differ (%u by rbp)\n",
           count.certain, count.functions, count.different, count.rows, count.by_rbp);
    CHECK_INT(count.certain * 10, >, count.functions * 8);
    CHECK_INT(count.by_rbp, >, 1000);
    CHECK_INT(count.different * 1000, <=, count.rows);
    CHECK_INT(count.rows, >, 10000);
    sonde_buf_finish(&symbols);
    sonde_buf_finish(&names);
    sonde_buf_finish(&theirs);
    elf_finish(&elf);
}

/* The rows: the pc, and the CFA from rsp or rbp, or "root" or "gap". */
static const char *rows_of(const char *code, uint32_t size) {
    static char text[256];
    struct sonde_buf table = {0};
    size_t len = 0;
    analyse((const uint8_t *)code, size, &table);
    text[0] = 0;
    const struct unwind_rule *before = NULL;
    for (uint32_t at = 0; table.len && at < size; at++) {
        const struct unwind_rule *rule = unwind_table_rule(table.data, at);
        if (rule == before)
            continue;
        before = rule;
        if (rule->cfa == UNWIND_CFA_RSP || rule->cfa == UNWIND_CFA_RBP)
            len += (size_t)snprintf(text + len, sizeof text - len, "%u:%s%d ", at,
                                    rule->cfa == UNWIND_CFA_RBP ? "rbp+" : "", rule->cfa_offset);
        else
            len += (size_t)snprintf(text + len, sizeof text - len, "%u:%s ", at,
                                    rule->cfa == UNWIND_CFA_END ? "root" : "gap");
    }
    sonde_buf_finish(&table);
    return text;
}
#define ROWS(code) rows_of(code, sizeof(code) - 1)

TEST(a_frame_grows_and_shrinks_with_rsp) {
    /* push rbx; sub rsp, 32; add rsp, 32; pop rbx; ret */
    CHECK_STR(ROWS("\x53\x48\x83\xec\x20\x48\x83\xc4\x20\x5b\xc3"), "0:8 1:16 5:48 9:16 10:8 ");
}

TEST(code_behind_a_return_has_the_state_of_the_jump_to_it) {
    /* push rbx; jz +2; pop rbx; ret; nop; pop rbx; ret */
    CHECK_STR(ROWS("\x53\x74\x03\x5b\xc3\x90\x5b\xc3"), "0:8 1:16 4:8 5:gap 6:16 7:8 ");
}

TEST(a_cleared_rbp_marks_the_root) {
    /* xor ebp, ebp; pop rdi; call rax; hlt */
    CHECK_STR(ROWS("\x31\xed\x5f\xff\xd0\xf4"), "0:8 2:root ");
    /* push rbp; xor ebp, ebp; pop rbp; ret: rbp is only a number */
    CHECK_STR(ROWS("\x55\x31\xed\x5d\xc3"), "0:8 1:16 4:8 ");
}

TEST(a_frame_pointer_is_used_whatever_the_depth_is) {
    /* push rbp; mov rbp, rsp; pop rbp; ret */
    CHECK_STR(ROWS("\x55\x48\x89\xe5\x5d\xc3"), "0:8 1:16 4:rbp+16 5:8 ");
    /* push rbp; mov rbp, rsp; sub rsp, rax; leave; ret */
    CHECK_STR(ROWS("\x55\x48\x89\xe5\x48\x29\xc4\xc9\xc3"), "0:8 1:16 4:rbp+16 8:8 ");
    /* push rbp; mov rbp, rsp; push rbx; and rsp, -32; lea rsp, [rbp - 8]; pop rbx; pop rbp; ret */
    CHECK_STR(ROWS("\x55\x48\x89\xe5\x53\x48\x83\xe4\xe0\x48\x8d\x65\xf8\x5b\x5d\xc3"),
              "0:8 1:16 4:rbp+16 5:rbp+16 14:rbp+16 15:8 ");
    /* push rbp; mov rbp, rsp; jz +1; push rax; nop; leave; ret: two depths meet */
    CHECK_STR(ROWS("\x55\x48\x89\xe5\x74\x01\x50\x90\xc9\xc3"), "0:8 1:16 4:rbp+16 9:8 ");
    /* push rbp; mov rbp, rsp; xor ebp, ebp; sub rsp, rax: rbp is a number */
    CHECK_STR(ROWS("\x55\x48\x89\xe5\x31\xed\x48\x29\xc4\xc3"), "");
    /* mov rbp, rsp: the caller's rbp is lost */
    CHECK_STR(ROWS("\x48\x89\xe5\x48\x29\xc4\xc9\xc3"), "");
}

/* As V8's builtins, which remove their arguments: pop rdx; lea rsp, [rsp + 8 * rcx]; push rdx;
 * ret. */
TEST(behind_a_popped_return_address_nothing_is_known) {
    CHECK_STR(ROWS("\x5a\x48\x8d\x24\xcc\x52\xc3"), "0:8 1:gap ");
}

TEST(what_is_not_certain_has_no_rows) {
    CHECK_STR(ROWS("\x48\x29\xc4\xc3"), "");                 /* sub rsp, rax; ret */
    CHECK_STR(ROWS("\x48\x8b\x67\x30\xff\x67\x38"), "");     /* longjmp */
    CHECK_STR(ROWS("\x48\x83\xc4\x08\xc3"), "");             /* releases more than there is */
    CHECK_STR(ROWS("\x74\x01\x53\x5b\x74\xfc\xc3\x06"), ""); /* two depths at one place */
    CHECK_STR(ROWS("\x06\xc3"), "");                         /* not an instruction */
}

#define SWITCH(code) unwind_analysis_find_switch((const uint8_t *)(code), sizeof(code) - 1)

TEST(a_change_of_stack_is_found) {
    CHECK_INT(SWITCH("\x90\x48\x89\xdc\xff\xd7\xc3"), ==, 4);     /* mov rsp, rbx */
    CHECK_INT(SWITCH("\x48\x8b\x62\x38\xff\xd7\xc3"), ==, 4);     /* mov rsp, [rdx + 56] */
    CHECK_INT(SWITCH("\x48\x89\xec\x5d\xc3"), ==, 5);             /* mov rsp, rbp */
    CHECK_INT(SWITCH("\x48\x83\xec\x20\x48\x89\xe5\xc3"), ==, 8); /* sub rsp; mov rbp, rsp */
    CHECK_INT(SWITCH("\x06\x48\x89\xdc"), ==, 4);                 /* not an instruction */
}
