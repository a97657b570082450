/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares tables of real files with libdw's interpretation of the same CFI, address by address;
 * and tables of programs that are compiled here with different places for unwind information. */
#include "service/unwind/table/table_build.h"
#include "tests/unit/check.h"
#include "tests/unit/unwind/modules.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

static const int dwarf_numbers[UNWIND_SAVED_COUNT] = {6, 3, 12, 13, 14, 15};

static const struct unwind_header *header_of(const struct sonde_buf *table) {
    return (const struct unwind_header *)table->data;
}

static bool build_path(const char *path, struct sonde_buf *table) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    struct sonde_diag diag = {0};
    sonde_err err = unwind_table_build(fd, table, &diag);
    close(fd);
    if (err != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s: %s", path, sonde_diag_text(&diag, err));
    CHECK_INT(unwind_table_check(table->data, table->len), ==, SONDE_OK);
    return true;
}

/* libdw's CFA as register and offset; false for other expressions. */
static bool plain_cfa(Dwarf_Frame *frame, unsigned *number, int64_t *offset) {
    Dwarf_Op *ops;
    size_t count;
    if (dwarf_frame_cfa(frame, &ops, &count) != 0 || count != 1)
        return false;
    if (ops->atom == DW_OP_bregx) {
        *number = (unsigned)ops->number;
        *offset = (int64_t)ops->number2;
        return true;
    }
    *number = ops->atom - DW_OP_breg0;
    *offset = (int64_t)ops->number;
    return ops->atom >= DW_OP_breg0 && ops->atom <= DW_OP_breg31;
}

/* Where libdw finds a register, in the form that a table has it. */
static int16_t saved_by_libdw(Dwarf_Frame *frame, int number, bool *from_rbp) {
    Dwarf_Op memory[3], *ops;
    size_t count;
    *from_rbp = false;
    if (dwarf_frame_register(frame, number, memory, &ops, &count) != 0)
        return UNWIND_LOST;
    if (count == 0 && number == 3) /* libdw does not know that rbx is callee-saved */
        return UNWIND_SAME;
    if (count == 0)
        return ops == memory ? UNWIND_LOST : UNWIND_SAME;
    if (count == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_plus_uconst)
        return (int16_t)ops[1].number;
    if (count == 1 && ops[0].atom == DW_OP_call_frame_cfa)
        return 0;
    *from_rbp = count == 1 && ops[0].atom == DW_OP_breg6;
    return *from_rbp ? (int16_t)ops[0].number : UNWIND_LOST;
}

static bool saved_equals(const struct unwind_rule *rule, Dwarf_Frame *frame) {
    for (int i = 0; i < UNWIND_SAVED_COUNT; i++) {
        bool from_rbp;
        int16_t saved = saved_by_libdw(frame, dwarf_numbers[i], &from_rbp);
        if (from_rbp && rule->cfa == UNWIND_CFA_RSP) /* see settle_saved in cfi_program.c */
            saved = UNWIND_SAME, from_rbp = false;
        if (rule->saved[i] != saved || (rule->from_rbp >> i & 1) != from_rbp)
            return false;
    }
    return true;
}

static bool rule_equals(const struct unwind_rule *rule, Dwarf_Frame *frame) {
    unsigned number;
    int64_t offset;
    bool ignored;
    if (rule->cfa == UNWIND_CFA_END)
        return saved_by_libdw(frame, 16, &ignored) == UNWIND_LOST;
    if (!plain_cfa(frame, &number, &offset))
        return rule->cfa == UNWIND_CFA_PLT || rule->cfa == UNWIND_CFA_SIGNAL ||
               rule->cfa == UNWIND_CFA_NONE ||
               (rule->cfa == UNWIND_CFA_DEREF && saved_equals(rule, frame));
    if (rule->cfa == UNWIND_CFA_NONE || rule->cfa == UNWIND_CFA_RETURN)
        return saved_by_libdw(frame, 16, &ignored) != -8;
    return rule->cfa_register == number && rule->cfa_offset == offset && saved_equals(rule, frame);
}

static uint64_t entry; /* of the file that is compared */

/* What unwind information does not say. The kernel starts a file at its entry, so no function has
 * called it, which only the ELF header says. Rows of other code are those of its instructions. */
static bool is_unknown_to_libdw(uint64_t vaddr, const struct unwind_rule *rule) {
    if (rule->cfa == UNWIND_CFA_END)
        return vaddr - entry < 64;
    return rule->cfa == UNWIND_CFA_NONE || rule->cfa == UNWIND_CFA_RSP ||
           rule->cfa == UNWIND_CFA_RBP;
}

static bool pc_equals(const struct sonde_buf *table, Dwarf_CFI *cfi, uint64_t vaddr) {
    const struct unwind_rule *rule = modules_rule(table, vaddr);
    Dwarf_Frame *frame;
    if (dwarf_cfi_addrframe(cfi, vaddr, &frame) != 0)
        return is_unknown_to_libdw(vaddr, rule);
    bool equal = rule_equals(rule, frame);
    free(frame);
    return equal;
}

struct oracle {
    int fd;
    Elf *elf;
    Dwarf *dwarf; /* NULL = .eh_frame alone */
    Dwarf_CFI *eh, *debug;
};

static void oracle_init(struct oracle *oracle, const char *path, bool debug_frame) {
    *oracle = (struct oracle){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    elf_version(EV_CURRENT);
    oracle->elf = elf_begin(oracle->fd, ELF_C_READ_MMAP, NULL);
    oracle->eh = dwarf_getcfi_elf(oracle->elf);
    if (debug_frame) {
        oracle->dwarf = dwarf_begin_elf(oracle->elf, DWARF_C_READ, NULL);
        oracle->debug = dwarf_getcfi(oracle->dwarf);
    }
    CHECK(oracle->eh != NULL && (!debug_frame || oracle->debug != NULL));
    entry = elf64_getehdr(oracle->elf)->e_entry;
}

static void oracle_finish(struct oracle *oracle) {
    dwarf_cfi_end(oracle->eh);
    dwarf_end(oracle->dwarf);
    elf_end(oracle->elf);
    close(oracle->fd);
}

static uint64_t count_differences(const char *path, const struct sonde_buf *table,
                                  const struct oracle *oracle, uint64_t step) {
    const struct unwind_header *header = header_of(table);
    uint64_t different = 0;
    for (uint64_t at = 0; at < header->text_bytes; at += step)
        if (!pc_equals(table, oracle->eh, header->base + at) &&
            !(oracle->debug && pc_equals(table, oracle->debug, header->base + at)) &&
            different++ < 5)
            printf("%s: different at %#lx\n", path, (unsigned long)(header->base + at));
    return different;
}

/* Compares every step-th byte of the text. */
static void compare_with_libdw(const char *path, uint64_t step, bool debug_frame) {
    struct sonde_buf table = {0};
    struct oracle oracle;
    if (!build_path(path, &table))
        check_skip("%s is not installed", path);
    const struct unwind_header *header = header_of(&table);
    oracle_init(&oracle, path, debug_frame);
    uint64_t different = count_differences(path, &table, &oracle, step);
    oracle_finish(&oracle);
    printf("%s: %u functions, %u rows, %.2f bytes a row, %u rules, %u complex, %.2f %% of the "
           "text covered\n",
           path, header->fde_count, header->row_count, (double)table.len / header->row_count,
           header->rule_count, header->complex_rows,
           100.0 * header->covered_bytes / (double)header->text_bytes);
    sonde_buf_finish(&table);
    CHECK_INT(different, ==, 0);
}

TEST(libc_is_read_as_libdw_reads_it) {
    compare_with_libdw("/lib/x86_64-linux-gnu/libc.so.6", 1, false);
}

TEST(the_entry_of_the_dynamic_linker_is_the_root_of_stacks) {
    struct sonde_buf table = {0};
    Elf64_Ehdr header;
    int fd = open("/lib64/ld-linux-x86-64.so.2", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, &header, sizeof header) == sizeof header);
    CHECK_INT(unwind_table_build(fd, &table, NULL), ==, SONDE_OK);
    CHECK_INT(modules_rule(&table, header.e_entry)->cfa, ==, UNWIND_CFA_END);
    CHECK_INT(modules_rule(&table, header.e_entry + 8)->cfa, ==, UNWIND_CFA_END);
    sonde_buf_finish(&table);
    close(fd);
}

TEST(the_dynamic_linker_is_read_as_libdw_reads_it) {
    compare_with_libdw("/lib64/ld-linux-x86-64.so.2", 1, false);
}

TEST(libstdcxx_is_read_as_libdw_reads_it) {
    compare_with_libdw("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", 3, false);
}

TEST(openssl_assembler_is_read_as_libdw_reads_it) {
    compare_with_libdw("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", 5, false);
}

TEST(python_is_read_as_libdw_reads_it) {
    compare_with_libdw("/usr/bin/python3.11", 7, false);
}

TEST(libllvm_is_read_as_libdw_reads_it) {
    compare_with_libdw("/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1", 211, false);
}

TEST(rows_cost_at_most_six_bytes) {
    struct sonde_buf table = {0};
    CHECK(build_path("/lib/x86_64-linux-gnu/libc.so.6", &table));
    CHECK_INT(table.len / header_of(&table)->row_count, <, 6);
    CHECK_INT(header_of(&table)->covered_bytes, >, header_of(&table)->text_bytes * 95 / 100);
    CHECK_INT(header_of(&table)->build_id_bytes, ==, 20);
    sonde_buf_finish(&table);
}

TEST(the_vdso_is_built_from_memory) {
    const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);
    if (!vdso)
        check_skip("no vdso here");
    struct sonde_buf table = {0};
    CHECK_INT(unwind_table_build_memory(vdso, 8192, &table, NULL), ==, SONDE_OK);
    CHECK_INT(unwind_table_check(table.data, table.len), ==, SONDE_OK);
    CHECK_INT(header_of(&table)->fde_count, >, 2);
    sonde_buf_finish(&table);
}

/* Programs compiled here. */

static const char source[] =
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "__attribute__((noinline)) int leaf(int n) { return n * 3; }\n"
    "__attribute__((noinline)) int frame(int n) { volatile char b[64]; b[n & 63] = 1;\n"
    "  return leaf(n) + b[3]; }\n"
    "__attribute__((noinline)) int grow(int n) { char *b = (char *)alloca(n + 1);\n"
    "  memset(b, n, n); return frame(b[n / 2]); }\n"
    "__attribute__((noinline)) int align(int n) { volatile char b[64] "
    "__attribute__((aligned(64)));\n"
    "  b[n & 63] = 2; return grow(n) + b[1]; }\n"
    "int main(int c, char **v) { return align(c) + frame(atoi(v[0])); }\n";

static const char *temporary(const char *name) {
    static char path[4][512];
    static int turn;
    const char *dir = getenv("TEST_TMPDIR");
    char *out = path[turn++ & 3];
    snprintf(out, sizeof path[0], "%s/%s", dir ? dir : "/tmp", name);
    return out;
}

/* Compiles the source with a compiler's command line and returns the program's path. */
static const char *compile(const char *compiler, const char *name) {
    char command[2048];
    const char *file = temporary("sample.cc"), *program = temporary(name);
    FILE *out = fopen(file, "w");
    CHECK(out != NULL);
    fwrite(source, 1, sizeof source - 1, out);
    fclose(out);
    snprintf(command, sizeof command, "PATH=/usr/bin:/bin %s -o %s %s", compiler, program, file);
    if (system(command) != 0)
        check_skip("cannot run %s", compiler);
    return program;
}

TEST(a_gcc_program_without_frame_pointers_is_read_as_libdw_reads_it) {
    compare_with_libdw(compile("g++ -O2 -fomit-frame-pointer", "gcc_omit"), 1, false);
}

TEST(a_gcc_program_without_optimisation_is_read_as_libdw_reads_it) {
    compare_with_libdw(compile("g++ -O0", "gcc_plain"), 1, false);
}

TEST(a_clang_program_is_read_as_libdw_reads_it) {
    compare_with_libdw(compile("clang++ -O2", "clang_plain"), 1, false);
}

TEST(an_lld_program_is_read_as_libdw_reads_it) {
    compare_with_libdw(compile("clang++ -O2 -fuse-ld=lld", "clang_lld"), 1, false);
}

#define NO_TABLES "g++ -O2 -g -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-exceptions "

TEST(debug_frame_is_used_if_eh_frame_is_missing) {
    struct sonde_buf table = {0};
    const char *program = compile(NO_TABLES, "debug_frame");
    CHECK(build_path(program, &table));
    CHECK_INT(header_of(&table)->fde_count, >=, 5);
    sonde_buf_finish(&table);
    compare_with_libdw(program, 1, true);
}

TEST(compressed_debug_frame_gives_the_same_rows) {
    struct sonde_buf plain = {0}, packed = {0};
    CHECK(build_path(compile(NO_TABLES, "plain_debug"), &plain));
    CHECK(build_path(compile(NO_TABLES "-gz=zlib", "packed_debug"), &packed));
    CHECK_INT(header_of(&plain)->row_count, ==, header_of(&packed)->row_count);
    CHECK_INT(header_of(&plain)->covered_bytes, ==, header_of(&packed)->covered_bytes);
    sonde_buf_finish(&plain);
    sonde_buf_finish(&packed);
}

TEST(debug_frame_is_also_read_from_the_debug_file) {
    struct sonde_buf whole = {0}, split = {0}, bare = {0}, broken = {0};
    const char *program = compile(NO_TABLES, "split_debug");
    char command[1024], bare_path[512], debug_path[512];
    snprintf(bare_path, sizeof bare_path, "%s.bare", program);
    snprintf(debug_path, sizeof debug_path, "%s.debug", program);
    snprintf(command, sizeof command, "objcopy --only-keep-debug %s %s && strip -o %s %s", program,
             debug_path, bare_path, program);
    CHECK_INT(system(command), ==, 0);
    int fd = open(bare_path, O_RDONLY | O_CLOEXEC), debug = open(debug_path, O_RDWR | O_CLOEXEC);
    int full = open(program, O_RDONLY | O_CLOEXEC);
    CHECK(unwind_table_needs_debug(fd, debug));
    CHECK(!unwind_table_needs_debug(full, debug)); /* it has its own */
    CHECK(!unwind_table_needs_debug(fd, fd));
    CHECK(!unwind_table_needs_debug(fd, -1));
    CHECK(build_path(program, &whole) && build_path(bare_path, &bare));
    CHECK_INT(unwind_table_build_with_debug(fd, debug, &split, NULL), ==, SONDE_OK);
    CHECK_INT(header_of(&split)->fde_count, ==, header_of(&whole)->fde_count);
    CHECK_INT(header_of(&split)->fde_count, >=, header_of(&bare)->fde_count + 5);
    CHECK_INT(ftruncate(debug, 4096), ==, 0); /* it loses its section headers */
    CHECK_INT(unwind_table_build_with_debug(fd, debug, &broken, NULL), ==, SONDE_OK);
    CHECK_INT(header_of(&broken)->fde_count, ==, header_of(&bare)->fde_count);
    CHECK_INT(header_of(&broken)->row_count, ==, header_of(&bare)->row_count);
    close(fd);
    close(debug);
    close(full);
    sonde_buf_finish(&whole);
    sonde_buf_finish(&split);
    sonde_buf_finish(&bare);
    sonde_buf_finish(&broken);
}

TEST(a_program_without_unwind_tables_has_less_coverage) {
    struct sonde_buf with = {0}, without = {0};
    CHECK(build_path(compile("g++ -O2", "with"), &with));
    CHECK(build_path(compile("g++ -O2 -fno-asynchronous-unwind-tables -fno-unwind-tables "
                             "-fno-exceptions",
                             "without"),
                     &without));
    CHECK_INT(header_of(&without)->fde_count + 4, <, header_of(&with)->fde_count);
    sonde_buf_finish(&with);
    sonde_buf_finish(&without);
}

/* Removes a file's section headers, as packers and `strip --strip-section-headers` do. */
static void drop_section_headers(const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    Elf64_Ehdr header;
    CHECK_INT(pread(fd, &header, sizeof header, 0), ==, sizeof header);
    header.e_shoff = 0;
    header.e_shnum = header.e_shstrndx = 0;
    CHECK_INT(pwrite(fd, &header, sizeof header, 0), ==, sizeof header);
    close(fd);
}

TEST(a_file_without_section_headers_has_the_same_rules) {
    struct sonde_buf with = {0}, without = {0};
    const char *program = compile("g++ -O2 -s", "stripped"); /* its symbols would be lost */
    CHECK(build_path(program, &with));
    drop_section_headers(program);
    CHECK(build_path(program, &without));
    CHECK_INT(header_of(&with)->fde_count, ==, header_of(&without)->fde_count);
    for (uint64_t at = 0; at < header_of(&with)->text_bytes; at++) { /* NONE has several kinds */
        const struct unwind_rule *rule = modules_rule(&with, header_of(&with)->base + at);
        const struct unwind_rule *other = modules_rule(&without, header_of(&with)->base + at);
        CHECK_INT(rule->cfa, ==, other->cfa);
        CHECK_INT(rule->cfa_offset, ==, other->cfa_offset);
    }
    sonde_buf_finish(&with);
    sonde_buf_finish(&without);
}

TEST(a_file_that_is_not_a_program_is_refused) {
    struct sonde_buf table = {0};
    struct sonde_diag diag = {0};
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    CHECK_INT(unwind_table_build(fd, &table, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(diag.text[0] != 0);
    close(fd);
}
