/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of arm64 files, which clang and lld make on any machine: call frame programs with the
 * return address in x30, signed addresses, large frames, trampolines; and that a table of another
 * machine is refused. */
#include "service/unwind/table/table_build.h"
#include "service/unwind/table/table_cache.h"
#include "service/unwind/table/table_lookup.h"
#include "tests/unit/check.h"
#include "tests/unit/elf/machine/arm64_rows.h"
#include "tests/unit/elf/machine/arm64_source.h"
#include "tests/unit/symbol/fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARM64 "clang --target=aarch64-linux-gnu -nostdlib -fuse-ld=lld -Wl,--build-id=sha1 "

static struct sonde_buf table;

/* Builds the table of a file in the fixture's directory. */
static sonde_err build(const char *name, struct sonde_diag *diag) {
    struct elf_input input;
    int fd = open(fixture_path("%s", name), O_RDONLY | O_CLOEXEC);
    CHECK(elf_input_of_file(fd, &input));
    sonde_buf_finish(&table);
    sonde_err err = unwind_table_build_any(&input, &table, diag);
    close(fd);
    if (err == SONDE_OK)
        CHECK_INT(unwind_table_check_for(EM_AARCH64, table.data, table.len), ==, SONDE_OK);
    return err;
}

/* Assembles functions of one section into a library. */
static void assemble(const char *text) {
    fixture_write("made.s", text);
    fixture_must("ld.lld", ARM64 "-shared made.s -o made");
    CHECK_INT(build("made", NULL), ==, SONDE_OK);
}

static const struct unwind_rule *at(const char *symbol, uint64_t offset) {
    return unwind_table_rule(table.data, fixture_nm(fixture_path("made"), symbol) + offset);
}

static uint64_t hot_at(const char *symbol, uint64_t offset) {
    const struct unwind_header *header = (const struct unwind_header *)table.data;
    const uint64_t *hot = (const uint64_t *)(table.data + header->hot_offset);
    const struct unwind_rule *rules = (const void *)(table.data + header->rules_offset);
    return hot[at(symbol, offset) - rules];
}

/* --- rules ------------------------------------------------------------------------------------ */

TEST(arm64_return_address_is_in_x30_until_it_is_stored) {
    assemble("    .text\n    .globl f\n    .type f, %function\nf:\n    .cfi_startproc\n"
             "    stp x29, x30, [sp, #-48]!\n"
             "    .cfi_def_cfa_offset 48\n    .cfi_offset 29, -48\n    .cfi_offset 30, -40\n"
             "    mov x29, sp\n    .cfi_def_cfa_register 29\n"
             "    stp x19, x20, [sp, #16]\n    .cfi_offset 19, -32\n    .cfi_offset 20, -24\n"
             "    ldp x29, x30, [sp], #48\n    .cfi_def_cfa 31, 0\n    .cfi_restore 29\n"
             "    .cfi_restore 30\n    .cfi_restore 19\n    .cfi_restore 20\n"
             "    ret\n    .cfi_endproc\n    .size f, .-f\n");
    CHECK_INT(at("f", 0)->cfa, ==, UNWIND_CFA_RSP);
    CHECK_INT(at("f", 0)->cfa_register, ==, 31);
    CHECK_INT(at("f", 0)->cfa_offset, ==, 0);
    CHECK_INT(at("f", 0)->arm64.link, ==, UNWIND_SAME);
    CHECK_INT(at("f", 4)->cfa_offset, ==, 48);
    CHECK_INT(at("f", 4)->arm64.frame, ==, -6);
    CHECK_INT(at("f", 4)->arm64.link, ==, -5);
    CHECK_INT(at("f", 8)->cfa, ==, UNWIND_CFA_RBP);
    CHECK_INT(at("f", 8)->cfa_register, ==, 29);
    CHECK_INT(at("f", 12)->arm64.near[0], ==, 2);
    CHECK_INT(at("f", 12)->arm64.near[1], ==, 3);
    CHECK_INT(at("f", 12)->arm64.near[2], ==, UNWIND_NEAR_SAME);
    CHECK_INT(at("f", 16)->cfa, ==, UNWIND_CFA_RSP);
    CHECK_INT(at("f", 16)->arm64.link, ==, UNWIND_SAME);
    CHECK_INT(at("f", 16)->arm64.near[0], ==, UNWIND_NEAR_SAME);
}

/* The hot rule of a frame with a frame record says all that a walk needs. */
TEST(arm64_frame_records_have_hot_rules_and_leaves_do_not) {
    assemble("    .text\n    .globl f\nf:\n    .cfi_startproc\n    nop\n"
             "    .cfi_def_cfa_offset 32\n    .cfi_offset 29, -32\n    .cfi_offset 30, -24\n"
             "    nop\n    .cfi_offset 30, -8\n    nop\n    .cfi_endproc\n");
    CHECK_INT(hot_at("f", 0), ==, UNWIND_HOT_WHOLE);
    CHECK_INT(hot_at("f", 4), ==, (32ull << 32 | 0xfffcull << 16 | UNWIND_CFA_RSP));
    CHECK_INT(hot_at("f", 8), ==, UNWIND_HOT_WHOLE);
}

TEST(arm64_cfa_can_be_relative_to_any_register_and_x30_in_another) {
    assemble("    .text\n    .globl f\nf:\n    .cfi_startproc\n    nop\n"
             "    .cfi_def_cfa 19, 64\n    .cfi_offset 30, -8\n    nop\n"
             "    .cfi_def_cfa 31, 16\n    .cfi_register 30, 9\n    nop\n"
             "    .cfi_restore 30\n    nop\n    .cfi_undefined 30\n    nop\n"
             "    .cfi_restore 30\n    .cfi_def_cfa 40, 0\n    nop\n    .cfi_endproc\n");
    CHECK_INT(at("f", 4)->cfa, ==, UNWIND_CFA_REG);
    CHECK_INT(at("f", 4)->cfa_register, ==, 19);
    CHECK_INT(at("f", 4)->cfa_offset, ==, 64);
    CHECK_INT(at("f", 8)->cfa, ==, UNWIND_CFA_RETURN);
    CHECK_INT(at("f", 8)->cfa_register, ==, 9);
    CHECK_INT(at("f", 8)->arm64.link, ==, UNWIND_LOST);
    CHECK_INT(at("f", 12)->cfa, ==, UNWIND_CFA_RSP);
    CHECK_INT(at("f", 12)->arm64.link, ==, UNWIND_SAME);
    CHECK_INT(at("f", 16)->cfa, ==, UNWIND_CFA_END);
    CHECK_INT(at("f", 20)->cfa, ==, UNWIND_CFA_NONE);
    CHECK_INT(at("f", 20)->cfa_add, ==, UNWIND_NONE_COMPLEX);
}

/* Registers are near x29, however far the CFA is. One at an odd place or too far away is lost. */
TEST(arm64_frames_of_200_kib_have_rules_and_places_that_do_not_fit_are_lost) {
    assemble("    .text\n    .globl f\nf:\n    .cfi_startproc\n    nop\n"
             "    .cfi_def_cfa_offset 200000\n    .cfi_offset 29, -200000\n"
             "    .cfi_offset 30, -199992\n    .cfi_offset 19, -199984\n    nop\n"
             "    .cfi_offset 20, -198976\n    .cfi_offset 21, -8\n    .cfi_offset 22, -100004\n"
             "    nop\n    .cfi_offset 30, -300000\n    nop\n    .cfi_endproc\n");
    CHECK_INT(at("f", 4)->cfa_offset, ==, 200000);
    CHECK_INT(at("f", 4)->arm64.frame, ==, -25000);
    CHECK_INT(at("f", 4)->arm64.link, ==, -24999);
    CHECK_INT(at("f", 4)->arm64.near[0], ==, 2);
    CHECK_INT(at("f", 8)->arm64.near[1], ==, UNWIND_NEAR_LOST); /* 128 units */
    CHECK_INT(at("f", 8)->arm64.near[2], ==, UNWIND_NEAR_LOST);
    CHECK_INT(at("f", 8)->arm64.near[3], ==, UNWIND_NEAR_LOST);
    CHECK_INT(at("f", 12)->cfa, ==,
              UNWIND_CFA_NONE); /* without its return address no row is right */
}

/* --- pointer authentication ------------------------------------------------------------------- */

TEST(arm64_signed_return_addresses_have_the_rows_of_unsigned_ones) {
    static const char body[] =
        "    .text\n    .globl f\nf:\n    .cfi_startproc\n%s"
        "    paciasp\n%s    stp x29, x30, [sp, #-16]!\n    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset 29, -16\n    .cfi_offset 30, -8\n    .cfi_remember_state\n"
        "    ldp x29, x30, [sp], #16\n    .cfi_def_cfa_offset 0\n    .cfi_restore 29\n"
        "    .cfi_restore 30\n    autiasp\n%s    ret\n    .cfi_restore_state\n    nop\n"
        "    .cfi_endproc\n";
    static const struct {
        const char *key, *toggle;
    } cases[] = {
        {"", ""},
        {"", "    .cfi_negate_ra_state\n"},
        {"    .cfi_b_key_frame\n", "    .cfi_negate_ra_state\n"},
        {"", "    .cfi_escape 0x2c\n"}, /* ..._with_pc, which this assembler does not know */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text, body, cases[i].key, cases[i].toggle, cases[i].toggle);
        assemble(text);
        const struct unwind_header *header = (const struct unwind_header *)table.data;
        CHECK_INT(header->row_count, ==, 4);
        CHECK_INT(header->complex_rows, ==, 0);
        CHECK_INT(at("f", 4)->arm64.link, ==, UNWIND_SAME);
        CHECK_INT(at("f", 8)->arm64.link, ==, -1);
        CHECK_INT(at("f", 12)->arm64.link, ==, UNWIND_SAME);
        CHECK_INT(at("f", 20)->arm64.link, ==, -1);
    }
}

/* 0x2d means something else on SPARC, and nothing on x86-64. */
TEST(x86_64_has_no_signed_return_addresses) {
    fixture_write("plain.s", "    .text\n    .globl f\nf:\n    .cfi_startproc\n    nop\n"
                             "    .cfi_escape 0x2d\n    nop\n    .cfi_endproc\n");
    fixture_must("gcc", "gcc -shared -nostdlib plain.s -o plain");
    int fd = open(fixture_path("plain"), O_RDONLY | O_CLOEXEC);
    sonde_buf_finish(&table);
    CHECK_INT(unwind_table_build(fd, &table, NULL), ==, SONDE_OK);
    CHECK_INT(((const struct unwind_header *)table.data)->complex_rows, ==, 1);
    close(fd);
}

/* Tagged stacks have the letter G, which clang 14 cannot write: it replaces the B. */
TEST(arm64_frames_with_tagged_stacks_are_read) {
    fixture_write("made.s",
                  "    .text\n    .globl f\nf:\n    .cfi_startproc\n    .cfi_b_key_frame\n"
                  "    nop\n    .cfi_def_cfa_offset 16\n    nop\n    .cfi_endproc\n");
    fixture_must("ld.lld", ARM64 "-shared made.s -o made && sed -i 's/zRB/zRG/' made");
    CHECK_INT(build("made", NULL), ==, SONDE_OK);
    CHECK_INT(at("f", 4)->cfa_offset, ==, 16);
}

/* --- what call frame information does not say ------------------------------------------------- */

/* As in the vdso, whose kernel leaves the information out on purpose. */
TEST(arm64_signal_trampolines_are_recognized_by_their_instructions) {
    assemble("    .text\n    .globl f\n    .type f, %function\nf:\n    .cfi_startproc\n    ret\n"
             "    .cfi_endproc\n    .size f, .-f\n    nop\n    nop\n    nop\n    nop\n"
             "    .globl __kernel_rt_sigreturn\n    .type __kernel_rt_sigreturn, %function\n"
             "__kernel_rt_sigreturn:\n    mov x8, #139\n    svc #0\n"
             "    .size __kernel_rt_sigreturn, .-__kernel_rt_sigreturn\n");
    CHECK_INT(at("__kernel_rt_sigreturn", 0)->cfa, ==, UNWIND_CFA_SIGNAL);
    CHECK_INT(at("__kernel_rt_sigreturn", 0)->cfa_offset, ==, 128);
    CHECK_INT(at("__kernel_rt_sigreturn", 7)->cfa, ==, UNWIND_CFA_SIGNAL);
    CHECK_INT(at("f", 0)->cfa, ==, UNWIND_CFA_RSP);
}

/* Linkers write no call frame information of the linkage table. */
static void check_plt(const char *flags, uint32_t push, uint32_t entry_bytes) {
    fixture_write("calls.c", "void alpha(void); void beta(void);\n"
                             "void calls(void) { alpha(); beta(); }\n");
    fixture_must("ld.lld", ARM64 "-O1 -fPIC -shared %s calls.c -o made", flags);
    CHECK_INT(build("made", NULL), ==, SONDE_OK);
    uint64_t plt = strtoull(
        fixture_line(
            "readelf -SW made | sed 's/^ *\\[ *[0-9]*\\] //' | awk '$1 == \".plt\" {print $3}'"),
        NULL, 16);
    for (uint32_t offset = 0; offset < 32 + 2 * entry_bytes; offset += 4) {
        const struct unwind_rule *rule = unwind_table_rule(table.data, plt + offset);
        bool is_pushed = offset >= push && offset < 32;
        CHECK_INT(rule->cfa, ==, UNWIND_CFA_RSP);
        CHECK_INT(rule->cfa_offset, ==, is_pushed ? 16 : 0);
        CHECK_INT(rule->arm64.link, ==, is_pushed ? -1 : UNWIND_SAME);
        CHECK_INT(rule->arm64.frame, ==, UNWIND_SAME);
    }
    CHECK_INT(unwind_table_rule(table.data, plt + 32 + 2 * entry_bytes)->cfa, ==, UNWIND_CFA_NONE);
}

TEST(arm64_linkage_tables_have_rows_and_their_header_stores_x30) {
    check_plt("-mbranch-protection=none", 4, 16);
    check_plt("-mbranch-protection=standard -Wl,-z,force-bti", 8, 24);
}

TEST(arm64_entry_is_the_root_of_stacks_and_code_without_information_is_not_guessed) {
    fixture_write("made.s", "    .text\n    .globl _start\n    .type _start, %function\n_start:\n"
                            "    .cfi_startproc\n    bl bare\n    nop\n    .cfi_endproc\n"
                            "    .size _start, .-_start\n"
                            "    .type bare, %function\nbare:\n    sub sp, sp, #32\n    nop\n"
                            "    add sp, sp, #32\n    ret\n    .size bare, .-bare\n");
    fixture_must("ld.lld", ARM64 "made.s -o made");
    CHECK_INT(build("made", NULL), ==, SONDE_OK);
    CHECK_INT(at("_start", 4)->cfa, ==, UNWIND_CFA_END);
    CHECK_INT(at("bare", 4)->cfa, ==, UNWIND_CFA_NONE);
    CHECK_INT(at("bare", 4)->cfa_add, ==, UNWIND_NONE_NO_POINTER);
}

/* --- whole files ------------------------------------------------------------------------------ */

TEST(arm64_rows_of_compiled_files_are_those_of_readelf) {
    fixture_write("frames.c", ARM64_SOURCE);
    for (size_t i = 0; i < sizeof arm64_flags / sizeof *arm64_flags; i++) {
        struct arm64_rows rows;
        fixture_must("ld.lld",
                     ARM64 "%s -shared -fPIC -fasynchronous-unwind-tables frames.c -o frames",
                     arm64_flags[i]);
        const char *path = fixture_path("frames");
        CHECK_INT(arm64_rows_compare(path, path, false, &rows, NULL), ==, SONDE_OK);
        CHECK_INT(rows.compared, >, 10);
        CHECK_INT(rows.different, ==, 0);
        CHECK_INT(rows.complex, ==, 0);
        CHECK_INT(rows.lost, ==, 0);
    }
}

/* Go's compiler makes programs for any machine. A stripped one has Go's own table of depths, which
 * does not know of the few functions in assembler that move the stack pointer without storing x30:
 * the program's entry, and one for debuggers. */
TEST(arm64_rows_of_go_programs_are_those_of_readelf_with_and_without_dwarf) {
    static const char *const names[] = {"whole", "stripped"};
    struct arm64_rows rows;
    fixture_write("main.go", "package main\n"
                             "//go:noinline\n"
                             "func leaf(n int) int { return n * n }\n"
                             "//go:noinline\n"
                             "func middle(n int) int { var a [64]int; a[n&63] = leaf(n); "
                             "return a[(n+1)&63] + leaf(n) }\n"
                             "func main() { println(middle(7)) }\n");
    fixture_must("go",
                 "export HOME=. GOFLAGS= GOARCH=arm64 GO111MODULE=off GOCACHE=$PWD/cache && "
                 "go build -o whole main.go && go build -ldflags '-s -w' -o stripped main.go");
    for (size_t i = 0; i < 2; i++) {
        CHECK_INT(arm64_rows_compare(fixture_path("%s", names[i]), fixture_path("whole"), true,
                                     &rows, NULL),
                  ==, SONDE_OK);
        printf("%s: %lu rows, %lu differ\n", names[i], (unsigned long)rows.compared,
               (unsigned long)rows.different);
        CHECK_INT(rows.compared, >, 1000);
        CHECK_INT(rows.different, <=, i == 0 ? 0 : rows.compared / 200);
    }
}

/* Without section headers, .eh_frame is found by its segment. */
TEST(arm64_files_are_read_without_section_headers) {
    fixture_write("frames.c", ARM64_SOURCE);
    fixture_must("ld.lld", ARM64 "-O2 -shared -fPIC -fasynchronous-unwind-tables frames.c -o made "
                                 "&& printf '\\0\\0\\0\\0\\0\\0\\0\\0' | "
                                 "dd of=made bs=1 seek=40 conv=notrunc status=none");
    CHECK_INT(build("made", NULL), ==, SONDE_OK);
    CHECK_INT(((const struct unwind_header *)table.data)->fde_count, ==, 8);
}

/* --- machines --------------------------------------------------------------------------------- */

TEST(a_table_of_another_machine_is_refused) {
    struct sonde_diag diag = {0};
    assemble("    .text\n    .globl f\nf:\n    .cfi_startproc\n    nop\n    .cfi_endproc\n");
    struct unwind_header *header = (struct unwind_header *)table.data;
    CHECK_INT(header->machine, ==, EM_AARCH64);
    CHECK_INT(unwind_table_check(table.data, table.len), ==, SONDE_CORRUPT);
    CHECK_INT(unwind_table_check_for(EM_X86_64, table.data, table.len), ==, SONDE_CORRUPT);
    header->machine = EM_RISCV; /* of which Sonde has no rules */
    header->checksum = unwind_table_checksum(table.data, table.len);
    CHECK_INT(unwind_table_check_for(EM_RISCV, table.data, table.len), ==, SONDE_CORRUPT);
    header->machine = 0; /* of Sonde 0.2, which knew one machine */
    header->checksum = unwind_table_checksum(table.data, table.len);
    CHECK_INT(unwind_table_check_for(EM_AARCH64, table.data, table.len), ==, SONDE_CORRUPT);
    int fd = open(fixture_path("made"), O_RDONLY | O_CLOEXEC);
    sonde_buf_finish(&table);
    CHECK_INT(unwind_table_build(fd, &table, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "a mapped file is for arm64, and its unwind table does not fit x86-64");
    close(fd);
}

TEST(a_table_of_sonde_0_2_is_one_of_x86_64) {
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    sonde_buf_finish(&table);
    CHECK_INT(unwind_table_build(fd, &table, NULL), ==, SONDE_OK);
    struct unwind_header *header = (struct unwind_header *)table.data;
    CHECK_INT(header->machine, ==, EM_X86_64);
    header->machine = 0;
    header->checksum = unwind_table_checksum(table.data, table.len);
    CHECK_INT(unwind_table_check_for(EM_X86_64, table.data, table.len), ==, SONDE_OK);
    close(fd);
}

static void write_table(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK_INT(write(fd, table.data, table.len), ==, (ssize_t)table.len);
    close(fd);
}

/* Two machines may share a data directory: what the other one stored is built again. */
TEST(a_stored_table_of_another_machine_is_discarded_and_its_file_is_refused) {
    struct unwind_cache *cache;
    struct unwind_cache_counters counters;
    struct sonde_diag diag = {0};
    int memfd;
    size_t bytes;
    assemble("    .text\n    .globl f\nf:\n    .cfi_startproc\n    nop\n    .cfi_endproc\n");
    CHECK_INT(unwind_cache_create(fixture_path("tables"), 0, &cache, NULL), ==, SONDE_OK);
    write_table(fixture_path("tables/same.unwind"));
    int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CHECK_INT(unwind_cache_get(cache, "same", own, -1, NULL, &memfd, &bytes), ==, SONDE_OK);
    close(memfd);
    unwind_cache_counters(cache, &counters);
    CHECK_INT(counters.discarded, ==, 1);
    CHECK_INT(counters.builds, ==, 1);
    int other = open(fixture_path("made"), O_RDONLY | O_CLOEXEC);
    CHECK_INT(unwind_cache_get(cache, "other", other, -1, &diag, &memfd, &bytes), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "a mapped file is for arm64") == diag.text);
    close(own);
    close(other);
    unwind_cache_destroy(cache);
}

TEST(arm64_rules_out_of_bounds_are_refused) {
    assemble("    .text\n    .globl f\nf:\n    .cfi_startproc\n    nop\n    .cfi_endproc\n");
    const struct unwind_header *header = (const struct unwind_header *)table.data;
    struct unwind_rule *rule = (struct unwind_rule *)(table.data + header->rules_offset);
    const struct unwind_rule good = *rule;
    struct unwind_rule bad[4] = {good, good, good, good};
    bad[0].cfa = UNWIND_CFA_PLT; /* x86-64 alone has it */
    bad[1].cfa_register = 32;
    bad[2].arm64.reserved[1] = 1;
    bad[3].cfa = UNWIND_CFA_COUNT;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct unwind_header *mine = (struct unwind_header *)table.data;
        *rule = bad[i];
        mine->checksum = unwind_table_checksum(table.data, table.len);
        CHECK_INT(unwind_table_check_for(EM_AARCH64, table.data, table.len), ==, SONDE_CORRUPT);
    }
}
