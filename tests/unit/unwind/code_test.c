/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of files with code that has no unwind information: assembler, trampolines of signals, Go's
 * functions. */
#include "service/unwind/table/table_build.h"
#include "service/unwind/table/table_lookup.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char assembler[] =
    "__asm__(\".text\\n\"\n"
    "\".type leaf, @function\\nleaf: mov %rdi, %rax\\nret\\n.size leaf, . - leaf\\n\"\n"
    "\".type frame, @function\\n\"\n"
    "\"frame: push %rbp\\nmov %rsp, %rbp\\nsub %rax, %rsp\\nleave\\nret\\n\"\n"
    "\".size frame, . - frame\\n\"\n"
    "\".globl restorer\\nrestorer: mov $15, %rax\\nsyscall\\n\"\n"
    "\".globl narrow\\nnarrow: mov $15, %eax\\nsyscall\\nud2\\n\");\n"
    "int main(void) { return 0; }\n";

static const char go[] = "package main\n"
                         "//go:noinline\n"
                         "func leaf(n int) int { return n * n }\n"
                         "//go:noinline\n"
                         "func middle(n int) int { var a [64]int; a[n&63] = leaf(n); "
                         "return a[(n+1)&63] + leaf(n) }\n"
                         "func main() { println(middle(7)) }\n";

static char folder[256];

static const char *path_of(const char *name) {
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_source(const char *name, const char *text) {
    const char *dir = getenv("TEST_TMPDIR");
    snprintf(folder, sizeof folder, "%s", dir ? dir : "/tmp");
    FILE *file = fopen(path_of(name), "w");
    CHECK(file && fputs(text, file) >= 0);
    fclose(file);
}

/* Runs a command in the folder. */
static void run(const char *command) {
    char line[900];
    snprintf(line, sizeof line, "cd '%s' && %s", folder, command);
    CHECK_INT(system(line), ==, 0);
}

static uint64_t address_of(const char *program, const char *name) {
    char line[900];
    unsigned long long address = 0;
    snprintf(line, sizeof line, "nm '%s/%s' | grep -E ' [tTwW] %s(.abi0)?$' | tail -1", folder,
             program, name);
    FILE *nm = popen(line, "r");
    CHECK(nm && fscanf(nm, "%llx", &address) == 1);
    pclose(nm);
    return address;
}

static void build(const char *program, struct sonde_buf *table) {
    int fd = open(path_of(program), O_RDONLY | O_CLOEXEC);
    CHECK_INT(fd, >=, 0);
    CHECK_INT(unwind_table_build(fd, table, NULL), ==, SONDE_OK);
    CHECK_INT(unwind_table_check(table->data, table->len), ==, SONDE_OK);
    close(fd);
}

static const struct unwind_rule *rule_at(const struct sonde_buf *table, uint64_t vaddr) {
    return unwind_table_rule(table->data, vaddr);
}

static void check_cfa(const struct sonde_buf *table, uint64_t vaddr, uint8_t cfa, int32_t offset) {
    CHECK_INT(rule_at(table, vaddr)->cfa, ==, cfa);
    CHECK_INT(rule_at(table, vaddr)->cfa_offset, ==, offset);
}

TEST(functions_without_unwind_information_have_rows_of_their_instructions) {
    struct sonde_buf table = {0};
    write_source("asm.c", assembler);
    run("gcc -O2 -fno-omit-frame-pointer asm.c -o asm");
    build("asm", &table);
    uint64_t leaf = address_of("asm", "leaf"), frame = address_of("asm", "frame");
    check_cfa(&table, leaf, UNWIND_CFA_RSP, 8);
    check_cfa(&table, leaf + 3, UNWIND_CFA_RSP, 8);
    check_cfa(&table, frame + 1, UNWIND_CFA_RSP, 16);
    check_cfa(&table, frame + 7, UNWIND_CFA_RBP, 16);
    sonde_buf_finish(&table);
}

/* The return address of a handler is the first byte of a trampoline. It is looked up at the byte
 * before, where no function may be. */
TEST(trampolines_of_signals_are_known_by_their_instructions) {
    static const char *const kinds[] = {"", "-s"};
    struct sonde_buf table = {0};
    write_source("asm.c", assembler);
    run("gcc -O2 asm.c -o asm");
    uint64_t restorer = address_of("asm", "restorer"), narrow = address_of("asm", "narrow");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (i == 1)
            run("strip asm");
        build("asm", &table);
        check_cfa(&table, restorer, UNWIND_CFA_SIGNAL, 0);
        check_cfa(&table, restorer + 7, UNWIND_CFA_SIGNAL, 0);
        check_cfa(&table, narrow, UNWIND_CFA_SIGNAL, 0);
        CHECK_INT(rule_at(&table, restorer - 1)->cfa, ==, UNWIND_CFA_NONE);
        sonde_buf_finish(&table);
    }
}

/* As in musl: behind a function whose size is not known. */
TEST(a_trampoline_without_a_symbol_is_not_part_of_the_function_before) {
    struct sonde_buf table = {0};
    write_source("asm.c", "__asm__(\".text\\n.globl before, behind\\nbefore: ret\\nnop\\n\"\n"
                          "\"local: mov $15, %rax\\nsyscall\\nbehind: push %rax\\nret\\n\");\n"
                          "int main(void) { return 0; }\n");
    run("gcc -O2 asm.c -o sizes && strip -N local -o nameless sizes");
    build("nameless", &table);
    uint64_t local = address_of("sizes", "local");
    check_cfa(&table, local, UNWIND_CFA_SIGNAL, 0);
    CHECK_INT(rule_at(&table, local - 1)->cfa, ==, UNWIND_CFA_NONE);
    check_cfa(&table, address_of("sizes", "behind") + 1, UNWIND_CFA_RSP, 16);
    sonde_buf_finish(&table);
}

/* Local labels are not functions, and the function before has no size: what it does not reach is
 * other code. */
TEST(code_behind_a_function_of_unknown_size_has_no_frame_pointer_unless_it_sets_one_up) {
    struct sonde_buf table = {0};
    write_source("asm.c", "__asm__(\".text\\n.globl before\\nbefore: jmp other\\n\"\n"
                          "\"label: push %rbx\\nother: pop %rax\\npush %rax\\nret\\n\"\n"
                          "\"last: push %rbx\\nmov %rdi, %rax\\npop %rbx\\nret\\n\");\n"
                          "int main(void) { return 0; }\n");
    run("gcc -O2 asm.c -o labels");
    build("labels", &table);
    CHECK_INT(rule_at(&table, address_of("labels", "last") + 1)->cfa, ==, UNWIND_CFA_NONE);
    CHECK_INT(rule_at(&table, address_of("labels", "last") + 1)->cfa_add, ==,
              UNWIND_NONE_NO_POINTER);
    sonde_buf_finish(&table);
}

/* Without symbols nobody knows where functions begin. */
TEST(nameless_code_without_frame_pointers_says_so) {
    struct sonde_buf table = {0};
    write_source("asm.c", "__asm__(\".text\\nleaf: .rept 50\\nmov %rdi, %rax\\n.endr\\nret\\n\");\n"
                          "int main(void) { return 0; }\n");
    run("gcc -O2 asm.c -o nameless");
    uint64_t leaf = address_of("nameless", "leaf");
    run("strip nameless");
    build("nameless", &table);
    CHECK_INT(rule_at(&table, leaf)->cfa, ==, UNWIND_CFA_NONE);
    CHECK_INT(rule_at(&table, leaf)->cfa_add, ==, UNWIND_NONE_NO_POINTER);
    sonde_buf_finish(&table);
}

/* Go's own table says the same as the .debug_frame that Go's linker writes. */
TEST(go_functions_have_the_same_rows_without_debug_information) {
    struct sonde_buf with = {0}, without = {0};
    write_source("go.go", go);
    run("export HOME=. GOFLAGS= GO111MODULE=off GOCACHE=$PWD/cache; go build -o with go.go && "
        "go build -ldflags=-w -o without go.go && strip -s -o stripped without");
    build("with", &with);
    build("stripped", &without);
    static const char *const names[] = {"main.middle", "main.leaf", "main.main", "runtime.mallocgc",
                                        "runtime.gopark"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint64_t at = address_of("with", names[i]);
        CHECK_INT(address_of("without", names[i]), ==, at);
        for (uint64_t pc = at; pc < at + 200; pc++)
            if (rule_at(&with, pc)->cfa == UNWIND_CFA_RSP)
                check_cfa(&without, pc, UNWIND_CFA_RSP, rule_at(&with, pc)->cfa_offset);
    }
    check_cfa(&without, address_of("without", "main.leaf"), UNWIND_CFA_RSP, 8);
    sonde_buf_finish(&with);
    sonde_buf_finish(&without);
}

/* What runs on the system stack has a caller, but only the runtime knows where; mcall has none. */
TEST(go_functions_that_change_the_stack_end_it_with_a_note) {
    struct sonde_buf table = {0};
    write_source("go.go", go);
    run("export HOME=. GOFLAGS= GO111MODULE=off GOCACHE=$PWD/cache; go build -o with go.go");
    build("with", &table);
    static const struct {
        const char *name;
        uint8_t cfa;
        int16_t add;
    } functions[] = {{"runtime.systemstack", UNWIND_CFA_NONE, UNWIND_NONE_COMPLEX},
                     {"runtime.asmcgocall", UNWIND_CFA_NONE, UNWIND_NONE_COMPLEX},
                     {"runtime.morestack", UNWIND_CFA_NONE, UNWIND_NONE_COMPLEX},
                     {"runtime.mcall", UNWIND_CFA_END, 0}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        uint64_t at = address_of("with", functions[i].name), end = at + 400;
        while (at < end && rule_at(&table, at)->cfa != functions[i].cfa)
            at++;
        CHECK_INT(at, <, end);
        CHECK_INT(rule_at(&table, at)->cfa_add, ==, functions[i].add);
    }
    check_cfa(&table, address_of("with", "runtime.sigreturn(__sigaction)?"), UNWIND_CFA_SIGNAL, 0);
    sonde_buf_finish(&table);
}

TEST(code_up_to_2_gib_apart_is_in_one_table_and_what_is_further_costs_only_its_own_rows) {
    static const struct {
        const char *place;
        uint8_t cfa;
    } places[] = {{"0x60000000", UNWIND_CFA_RSP}, {"0x200000000", UNWIND_CFA_NONE}};
    write_source("far.c", "__attribute__((section(\".far\"))) int far(int x) { return x + 1; }\n"
                          "int near(int x) { return x + 2; }\n"
                          "void _start(void) { for (;;) __asm__ volatile(\"\"); }\n");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct sonde_buf table = {0};
        char command[200];
        snprintf(command, sizeof command,
                 "clang -w -O2 -nostdlib -static -Wl,--no-eh-frame-hdr,--section-start=.far=%s "
                 "-mcmodel=large far.c -o far",
                 places[i].place);
        run(command);
        build("far", &table);
        check_cfa(&table, address_of("far", "near"), UNWIND_CFA_RSP, 8);
        CHECK_INT(rule_at(&table, address_of("far", "far"))->cfa, ==, places[i].cfa);
        sonde_buf_finish(&table);
    }
}

TEST(the_entry_of_a_program_is_the_root_though_it_has_unwind_information) {
    struct sonde_buf table = {0};
    write_source("start.c", "void _start(void) { for (;;) __asm__ volatile(\"\"); }\n");
    run("gcc -O2 -nostdlib -static start.c -o start");
    build("start", &table);
    CHECK_INT(rule_at(&table, address_of("start", "_start"))->cfa, ==, UNWIND_CFA_END);
    sonde_buf_finish(&table);
}
