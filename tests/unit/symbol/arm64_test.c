/* SPDX-License-Identifier: Apache-2.0
 *
 * Files for arm64, which clang and lld make on any machine: names, lines, linkage tables, veneers,
 * uploads; and files for machines that Sonde does not read. */
#include "service/symbol/files/files.h"
#include "tests/unit/check.h"
#include "tests/unit/symbol/dwarf/corpus.h"
#include "tests/unit/symbol/fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARM64 "clang --target=aarch64-linux-gnu -nostdlib -fuse-ld=lld -Wl,--build-id=sha1 "

static const char *name_at(const char *path, uint64_t vaddr) {
    static char name[256];
    struct symbol_store *store = fixture_store(NULL, NULL);
    snprintf(name, sizeof name, "%s", fixture_name_in(store, fixture_path("%s", path), vaddr).name);
    symbol_store_destroy(store);
    return name;
}

static uint64_t nm(const char *path, const char *name) {
    return fixture_nm(fixture_path("%s", path), name);
}

/* --- functions and mapping symbols ------------------------------------------------------------ */

TEST(arm64_functions_are_named_and_mapping_symbols_are_not) {
    fixture_write("plain.s", "    .text\n    .globl _start\n    .type _start, %function\n"
                             "_start:\n    bl helper\n    ret\n    .size _start, .-_start\n"
                             "helper:\n    nop\n"
                             "$d:\n    .word 1\n$x.7:\n    nop\n    ret\n"
                             "    .type $sSwift, %function\n$sSwift:\n    ret\n"
                             "    .size $sSwift, .-$sSwift\n");
    fixture_must("ld.lld", ARM64 "plain.s -o plain");
    uint64_t start = nm("plain", "_start");
    CHECK_STR(name_at("plain", start + 4), "_start");
    CHECK_STR(name_at("plain", start + 8), "helper");
    CHECK_STR(name_at("plain", start + 12), "helper"); /* $d */
    CHECK_STR(name_at("plain", start + 16), "helper"); /* $x.7 */
    CHECK_STR(name_at("plain", start + 24), "$sSwift");
}

/* --- the linkage table ------------------------------------------------------------------------ */

/* The code calls the imports in the order of `imports`, so entry n of the table is import n. */
static void check_plt(const char *flags, uint64_t entry_bytes) {
    static const char *const imports[] = {"alpha", "beta", "gamma_"};
    fixture_write("calls.c", "void alpha(void); void beta(void); void gamma_(void);\n"
                             "void calls(void) { alpha(); beta(); gamma_(); }\n");
    fixture_must("ld.lld", ARM64 "-O1 -fPIC -shared %s calls.c -o calls.so", flags);
    uint64_t plt = strtoull(fixture_line("readelf -SW calls.so | sed 's/^ *\\[ *[0-9]*\\] //' | "
                                         "awk '$1 == \".plt\" {print $3}'"),
                            NULL, 16);
    for (uint64_t i = 0; i < 3; i++) {
        char wanted[32];
        uint64_t entry = plt + 32 + i * entry_bytes;
        snprintf(wanted, sizeof wanted, "%s@plt", imports[i]);
        CHECK_STR(name_at("calls.so", entry), wanted);
        CHECK_STR(name_at("calls.so", entry + entry_bytes - 4), wanted);
    }
    CHECK_STR(name_at("calls.so", plt + 8), ""); /* the header */
    CHECK_STR(name_at("calls.so", plt + 32 + 3 * entry_bytes), "");
}

TEST(arm64_plt_entries_of_16_bytes_are_named_after_their_import) {
    check_plt("-mbranch-protection=none", 16);
}

TEST(arm64_plt_entries_of_24_bytes_with_bti_are_named_after_their_import) {
    check_plt("-mbranch-protection=standard -Wl,-z,force-bti", 24);
}

TEST(arm64_plt_entries_with_signed_addresses_are_named_after_their_import) {
    check_plt("-mbranch-protection=standard -Wl,-z,force-bti -Wl,-z,pac-plt", 24);
}

/* --- veneers ---------------------------------------------------------------------------------- */

static void check_veneer(const char *flags, const char *symbol) {
    fixture_must("ld.lld", ARM64 "far.s %s -Wl,-T,far.ld -o far", flags);
    uint64_t veneer = nm("far", symbol);
    CHECK(veneer != 0 && veneer != nm("far", "distant"));
    CHECK_STR(name_at("far", veneer), "distant");
    CHECK_STR(name_at("far", veneer + 4), "distant");
    CHECK_STR(name_at("far", nm("far", "distant")), "distant");
    CHECK_STR(name_at("far", nm("far", "_start")), "_start");
}

TEST(arm64_veneers_of_lld_are_named_after_their_target) {
    fixture_write("far.s", "    .text\n    .globl _start\n    .type _start, %function\n"
                           "_start:\n    bl distant\n    ret\n    .size _start, .-_start\n"
                           "    .section .far, \"ax\"\n    .globl distant\n"
                           "    .type distant, %function\ndistant:\n    ret\n"
                           "    .size distant, .-distant\n");
    fixture_write("far.ld", "PHDRS { near PT_LOAD; far PT_LOAD; }\n"
                            "SECTIONS { .text 0x10000 : { *(.text) } :near\n"
                            ".far 0x60000000 : { *(.far) } :far }\n");
    check_veneer("-no-pie", "__AArch64AbsLongThunk_distant");
    check_veneer("-pie", "__AArch64ADRPThunk_distant");
}

/* GNU ld's own veneers have these symbols: local functions. */
TEST(arm64_veneers_of_gnu_ld_are_named_after_their_target_and_functions_keep_their_name) {
    static const char *const names[][2] = {{"__near_veneer", "near"},
                                           {"__near_bti_veneer", "near"},
                                           {"__AArch64ADRPThunk__Z4nearv", "near()"},
                                           {"___veneer", "___veneer"},
                                           {"__AArch64ADRPThunk_", "__AArch64ADRPThunk_"}};
    struct sonde_buf text = {0};
    sonde_buf_puts(&text, "    .text\n    .globl _start\n_start:\n    ret\n");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        sonde_buf_printf(&text,
                         "    .type %s, %%function\n%s:\n    nop\n    ret\n    .size %s, .-%s\n",
                         names[i][0], names[i][0], names[i][0], names[i][0]);
    sonde_buf_puts(&text, "    .globl __own_veneer\n    .type __own_veneer, %function\n"
                          "__own_veneer:\n    ret\n    .size __own_veneer, .-__own_veneer\n");
    sonde_buf_putc(&text, 0);
    fixture_write("gnu.s", text.data);
    fixture_must("ld.lld", ARM64 "gnu.s -o gnu");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK_STR(name_at("gnu", nm("gnu", names[i][0]) + 4), names[i][1]);
    CHECK_STR(name_at("gnu", nm("gnu", "__own_veneer")), "__own_veneer");
    sonde_buf_finish(&text);
}

/* --- a function of libstdc++ ------------------------------------------------------------------ */

/* As in Debian's libstdc++: the routine of std::thread is not exported, but passed to a call. */
TEST(the_routine_of_threads_in_a_stripped_arm64_libstdcxx_is_named) {
    fixture_write(
        "threads.s",
        "    .text\n"
        "#define START _ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_"
        "deleteIS1_EEPFvvE\n"
        "    .globl START\n    .type START, %function\nSTART:\n    .cfi_startproc\n"
        "    stp x29, x30, [sp, #-16]!\n    adrp x2, other\n    bl outside\n"
        "    adrp x2, routine\n    mov x29, sp\n    add x2, x2, :lo12:routine\n"
        "    mov x1, #0\n    bl pthread_create\n    ldp x29, x30, [sp], #16\n    ret\n"
        "    .cfi_endproc\n    .size START, .-START\n"
        "    .type other, %function\nother:\n    .cfi_startproc\n    ret\n"
        "    .cfi_endproc\n    .size other, .-other\n"
        "    .type routine, %function\nroutine:\n    .cfi_startproc\n    nop\n    ret\n"
        "    .cfi_endproc\n    .size routine, .-routine\n");
    fixture_must("ld.lld", ARM64 "-x assembler-with-cpp threads.s -shared -o threads && "
                                 "llvm-strip -o bare threads");
    CHECK_STR(name_at("bare", nm("threads", "routine") + 4), "execute_native_thread_routine");
    CHECK_STR(name_at("bare", nm("threads", "other")), "");
}

/* --- debug information ------------------------------------------------------------------------ */

#define PLANTED(name) "__attribute__((noinline)) long " name "(long x) { return twice(x) + 1; }\n"
#define SOURCE                                                                                     \
    "static inline __attribute__((always_inline)) long twice(long x) {\n"                          \
    "    volatile long y = x;\n"                                                                   \
    "    return y * 2;\n"                                                                          \
    "}\n" PLANTED("planted") PLANTED("second") PLANTED("third") PLANTED("fourth") PLANTED("fifth") \
        PLANTED("sixth") "void _start(void) { for (;;) planted(7); }\n"

static void compile_debug(const char *flags) {
    fixture_write("debug.c", SOURCE);
    fixture_must("ld.lld",
                 ARM64 "-g -O1 %s debug.c -o debug && "
                       "llvm-objcopy --only-keep-debug debug debug.debug",
                 flags);
}

TEST(arm64_lines_and_inlined_functions_agree_with_llvm_symbolizer) {
    static const char *const flags[] = {"-gdwarf-4", "-gdwarf-5", "-gdwarf-5 -gz=zlib"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        compile_debug(flags[i]);
        corpus_check(fixture_path("debug"), flags[i]);
    }
}

static sonde_err upload(struct symbol_store *store, const char *path, struct symbol_file *file,
                        struct sonde_diag *diag) {
    static char bytes[1 << 20];
    struct symbol_upload *made;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    ssize_t len = read(fd, bytes, sizeof bytes);
    close(fd);
    CHECK(len > 0 && len < (ssize_t)sizeof bytes);
    CHECK_INT(symbol_upload_begin(store, (uint64_t)len, &made, diag), ==, SONDE_OK);
    CHECK_INT(symbol_upload_write(made, bytes, (size_t)len, diag), ==, SONDE_OK);
    return symbol_upload_finish(made, file, diag);
}

static struct symbol_store *open_store(void) {
    struct symbol_options options = {.cache_dir = fixture_path("cache"),
                                     .debug_roots = fixture_path("nothing"),
                                     .worker = corpus_worker()};
    struct symbol_store *store;
    CHECK_INT(symbol_store_create(&options, &store, NULL), ==, SONDE_OK);
    return store;
}

TEST(an_uploaded_arm64_debug_file_resolves_addresses_by_build_id) {
    struct symbol_file file;
    struct symbol_module *module;
    struct sonde_arena arena = {0};
    struct symbol_answer answer;
    compile_debug("");
    struct symbol_store *store = open_store();
    CHECK_INT(upload(store, fixture_path("debug.debug"), &file, NULL), ==, SONDE_OK);
    CHECK_INT(file.quality, ==, SYMBOL_FULL);
    CHECK_INT(symbol_module_find(store, file.build_id, &module, NULL), ==, SONDE_OK);
    struct symbol_query query = {.module = module, .vaddr = nm("debug", "planted") + 4};
    CHECK_INT(symbol_resolve_wait(store, &query, 1, 20000, &arena, &answer), ==, SONDE_OK);
    CHECK_INT(answer.frame_count, ==, 2);
    CHECK_STR(answer.frames[0].name, "twice");
    CHECK_STR(answer.frames[1].name, "planted");
    CHECK_INT(answer.frames[1].line, ==, 5);
    symbol_module_release(module);
    sonde_arena_finish(&arena);
    symbol_store_destroy(store);
}

/* The debug file has lost the file offset of its code. Its rodata moves the code off the first page
 * of 16 KiB and of 64 KiB. */
TEST(mappings_of_arm64_kernels_with_any_page_size_are_located_by_a_debug_file) {
    struct symbol_file file;
    struct symbol_module *module;
    fixture_write("pages.c", "const char filler[24000] = {1};\n"
                             "int planted(void) { return filler[7]; }\n");
    fixture_must("ld.lld", ARM64 "-g -O1 -fPIC -shared pages.c -o pages.so && "
                                 "llvm-objcopy --only-keep-debug pages.so pages.debug");
    uint64_t code = strtoull(fixture_line("readelf -lW pages.so | awk '$1 == \"LOAD\" && / R E /"
                                          "{print $3}'"),
                             NULL, 16);
    CHECK((code & 0xf000) != 0 && (code & 0x3000) != (code & 0xf000));
    struct symbol_store *store = open_store();
    CHECK_INT(upload(store, fixture_path("pages.debug"), &file, NULL), ==, SONDE_OK);
    CHECK_INT(symbol_module_find(store, file.build_id, &module, NULL), ==, SONDE_OK);
    for (uint64_t page = 4096; page <= 65536; page *= 4) {
        uint64_t bias = 0, loaded = 0xffff80000000;
        uint64_t start = loaded + (code & ~(page - 1));
        struct symbol_mapping mapping = {.start = start, .end = start + page};
        CHECK(symbol_module_bias_of(module, &mapping, &bias));
        CHECK_INT(bias, ==, loaded);
    }
    symbol_module_release(module);
    symbol_store_destroy(store);
}

/* --- other machines --------------------------------------------------------------------------- */

static const struct {
    const char *target, *says;
} others[] = {
    {"aarch64_be-linux-gnu", "the file is for big-endian arm64; Sonde reads"},
    {"riscv64-linux-gnu", "the file is for RISC-V; Sonde reads"},
    {"x86_64-linux-gnux32", "the file is for x86-64 with 32-bit pointers (x32); Sonde reads"},
    {"i386-linux-gnu", "the file is for 32-bit x86; Sonde reads"},
    {"arm-linux-gnueabihf", "the file is for 32-bit Arm; Sonde reads"},
    {"powerpc64-linux-gnu", "the file is for big-endian PowerPC; Sonde reads"},
};

/* An object file is enough: readers look at the header first. */
TEST(uploads_for_other_machines_are_refused_by_the_name_of_the_machine) {
    struct symbol_file file;
    struct symbol_store *store = open_store();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct sonde_diag diag = {0};
        fixture_write("other.c", "int other(void) { return 1; }\n");
        fixture_must("clang", "clang --target=%s -c other.c -o other.o", others[i].target);
        CHECK_INT(upload(store, fixture_path("other.o"), &file, &diag), ==, SONDE_INVALID_ARGUMENT);
        if (!strstr(diag.text, others[i].says))
            check_fail(__FILE__, __LINE__, "%s: %s", others[i].target, diag.text);
    }
    symbol_store_destroy(store);
}

TEST(a_debug_file_for_another_machine_is_refused_where_its_build_id_is_asked_for) {
    struct symbol_module *module;
    struct sonde_diag diag = {0};
    struct symbol_options options = {.debug_roots = fixture_path("roots")};
    struct symbol_store *store;
    fixture_write("other.c", "int other(void) { return 1; }\n");
    fixture_must("clang", "mkdir -p roots/.build-id/ab && clang --target=riscv64-linux-gnu "
                          "-c other.c -o roots/.build-id/ab/cdef.debug");
    CHECK_INT(symbol_store_create(&options, &store, NULL), ==, SONDE_OK);
    CHECK_INT(symbol_module_find(store, "abcdef", &module, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "the file is for RISC-V; Sonde reads") == diag.text);
    struct symbol_module *mapped =
        fixture_module(store, fixture_path("roots/.build-id/ab/cdef.debug"));
    CHECK_STR(symbol_reason_text(symbol_module_reason(mapped)), "OTHER_MACHINE");
    symbol_module_release(mapped);
    symbol_store_destroy(store);
}
