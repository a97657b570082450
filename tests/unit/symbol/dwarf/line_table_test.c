/* SPDX-License-Identifier: Apache-2.0
 *
 * Line tables of programs compiled in many ways, compared with llvm-symbolizer. */
#include "tests/unit/check.h"
#include "tests/unit/symbol/dwarf/corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* --- the same program in other forms ---------------------------------------------------------- */

/* The answers for `path` and for a variant of it must be equal. */
static void check_equal(const char *path, const char *variant) {
    static struct corpus_addresses addresses;
    struct symbol_store *store = corpus_store(NULL);
    corpus_addresses(path, &addresses);
    char *plain = corpus_render(store, path, &addresses);
    char *other = corpus_render(store, variant, &addresses);
    size_t at = 0;
    while (plain[at] && plain[at] == other[at])
        at++;
    if (plain[at] != other[at])
        check_fail(__FILE__, __LINE__, "differs from the plain one:\n%.300s\n<>\n%.300s",
                   plain + (at > 100 ? at - 100 : 0), other + (at > 100 ? at - 100 : 0));
    free(plain);
    free(other);
    symbol_store_destroy(store);
}

TEST(s9_sections_compressed_by_zlib) {
    const char *path = corpus_compile("gcc", "-g -O2", "");
    fixture_must("objcopy", "objcopy --compress-debug-sections=zlib prog packed && "
                            "readelf -t packed | grep -q ZLIB");
    check_equal(path, fixture_path("packed"));
}

TEST(s9_sections_compressed_in_the_old_way) {
    const char *path = corpus_compile("gcc", "-g -O2", "");
    fixture_must("objcopy", "objcopy --compress-debug-sections=zlib-gnu prog packed && "
                            "readelf -SW packed | grep -q zdebug_info");
    check_equal(path, fixture_path("packed"));
}

TEST(s9_sections_compressed_by_zstd) {
    const char *path = corpus_compile("gcc", "-g -O2", "");
    if (fixture_run("objcopy --compress-debug-sections=zstd prog packed") != 0)
        check_skip("this objcopy does not support zstd");
    CHECK_INT(fixture_run("readelf -t packed | grep -q ZSTD"), ==, 0);
    check_equal(path, fixture_path("packed"));
}

TEST(s9_split_into_dwo_files) {
    const char *path = corpus_compile("gcc", "-g -O2 -gdwarf-5 -gsplit-dwarf", "");
    CHECK_INT(fixture_run("ls *.dwo"), ==, 0);
    CHECK_INT(fixture_run("chmod 755 ."), ==, 0); /* the worker runs as nobody */
    corpus_check(path, "gcc split dwarf 5");
    path = corpus_compile("clang", "-g -O2 -gdwarf-4 -gsplit-dwarf", "");
    corpus_check(path, "clang split dwarf 4");
}

TEST(s9_shared_parts_moved_by_dwz) {
    const char *path = corpus_compile("gcc", "-g -O2 -gdwarf-4", "");
    fixture_must("dwz", "cp prog left && cp prog right && printf x >> right && "
                        "dwz -m common.dwz left right && readelf -SW left | grep -q debugaltlink");
    check_equal(path, fixture_path("left"));
}

TEST(s9_debug_information_in_a_separate_file) {
    const char *path = corpus_compile("gcc", "-g -O2 -Wl,--build-id=0xfeed01", "");
    fixture_must("objcopy", "cp prog stripped && mkdir -p .build-id/fe && "
                            "objcopy --only-keep-debug prog .build-id/fe/ed01.debug && "
                            "objcopy --strip-debug stripped");
    check_equal(path, fixture_path("stripped"));
}

TEST(s9_rust) {
    fixture_write(
        "main.rs",
        "mod inner {\n"
        "    #[inline(always)]\n"
        "    pub fn small(x: u32) -> u32 { x.wrapping_mul(7).rotate_left(3) }\n"
        "    #[inline(never)]\n"
        "    pub fn large(x: u32) -> u32 { let v: Vec<u32> = (0..x).map(small).collect();\n"
        "        v.iter().fold(1, |a, b| a ^ small(*b)) }\n"
        "}\n"
        "fn main() { let n = std::env::args().count() as u32; println!(\"{}\", inner::large(n)); "
        "}\n");
    const char *rustc = fixture_line("command -v rustc");
    if (rustc[0] != '/')
        check_skip("rustc is not installed");
    char program[256];
    snprintf(program, sizeof program, "%s", rustc);
    static const char *const schemes[] = {"legacy", "v0"};
    for (int i = 0; i < 2; i++) {
        if (fixture_run("RUSTC_BOOTSTRAP=1 %s -g -O -Zunstable-options "
                        "-Csymbol-mangling-version=%s main.rs -o prog",
                        program, schemes[i]) != 0 &&
            fixture_run("%s -g -O -Csymbol-mangling-version=%s main.rs -o prog", program,
                        schemes[i]) != 0)
            check_skip("rustc does not compile here");
        corpus_check(fixture_path("prog"), schemes[i]);
    }
}

/* --- names ------------------------------------------------------------------------------------ */

static struct sonde_arena arena;

static struct symbol_answer ask(struct symbol_store *store, const char *path, uint64_t vaddr,
                                uint32_t wait_ms) {
    struct symbol_module *module = fixture_module(store, path);
    struct symbol_query query = {.module = module, .vaddr = vaddr};
    struct symbol_answer answer;
    sonde_err err = wait_ms ? symbol_resolve_wait(store, &query, 1, wait_ms, &arena, &answer)
                            : symbol_resolve(store, &query, 1, &arena, &answer);
    CHECK_INT(err, ==, SONDE_OK);
    symbol_module_release(module);
    return answer;
}

static const struct symbol_frame *outermost(const struct symbol_answer *answer) {
    CHECK_INT(answer->frame_count, >, 0);
    return &answer->frames[answer->frame_count - 1];
}

TEST(trap_1_a_cold_part_has_its_functions_name_and_its_own_linkage_name) {
    const char *path = corpus_compile("gcc", "-g -O2", "");
    struct symbol_store *store = corpus_store(NULL);
    uint64_t cold =
        strtoull(fixture_line("nm prog | grep 'helper.*cold' | cut -d' ' -f1"), NULL, 16);
    if (cold == 0)
        check_skip("this compiler splits off no cold part here");
    struct symbol_answer answer = ask(store, path, cold, 60000);
    CHECK_STR(outermost(&answer)->name, "helper");
    CHECK(strstr(outermost(&answer)->system_name, "helper."));
    CHECK(strstr(outermost(&answer)->system_name, "cold"));
    symbol_store_destroy(store);
}

TEST(trap_3_functions_of_anonymous_namespaces_have_their_whole_scope) {
    const char *path = corpus_compile("gcc", "-g -O2", "");
    struct symbol_store *store = corpus_store(NULL);
    uint64_t unnamed = fixture_nm(path, "_ZN12_GLOBAL__N_17unnamedEi");
    CHECK_INT(unnamed, >, 0);
    struct symbol_answer answer = ask(store, path, unnamed, 60000);
    CHECK_STR(outermost(&answer)->name, "(anonymous namespace)::unnamed(int)");
    /* Inlined, it has no symbol: the scope comes from DWARF. */
    bool found = false;
    for (uint64_t i = 0; i < 64 && !found; i++) {
        answer = ask(store, path, unnamed + i, 60000);
        found = answer.frame_count == 3 &&
                strcmp(answer.frames[0].name, "(anonymous namespace)::innermost") == 0 &&
                strcmp(answer.frames[1].name, "(anonymous namespace)::middle") == 0;
    }
    CHECK(found);
    symbol_store_destroy(store);
}

TEST(trap_4_code_without_dwarf_is_named_by_the_symbol_table) {
    const char *path = corpus_compile("gcc", "-g -O2", "");
    struct symbol_store *store = corpus_store(NULL);
    uint64_t assembly = fixture_nm(path, "from_assembly");
    struct symbol_answer answer = ask(store, path, assembly + 1, 60000);
    CHECK_STR(outermost(&answer)->name, "from_assembly");
    CHECK_INT(answer.quality, ==, SYMBOL_FULL);
    CHECK_INT(answer.frame_count, ==, 1);
    symbol_store_destroy(store);
}

/* --- service ---------------------------------------------------------------------------------- */

TEST(names_come_at_once_and_lines_when_the_table_is_ready) {
    const char *path = corpus_compile("gcc", "-g -O2", "");
    struct symbol_store *store = corpus_store(NULL);
    struct symbol_module *module = fixture_module(store, path);
    uint64_t address = fixture_nm(path, "two");
    struct symbol_answer answer = ask(store, path, address, 0);
    CHECK_STR(outermost(&answer)->name, "two");
    CHECK(answer.quality == SYMBOL_NAMES || answer.quality == SYMBOL_FULL);
    answer = ask(store, path, address, 60000);
    CHECK_INT(answer.quality, ==, SYMBOL_FULL);
    CHECK_STR(outermost(&answer)->name, "two");
    CHECK(strstr(answer.frames[0].file, "two.c"));
    CHECK_INT(symbol_store_tables_built(store), ==, 2); /* the symbol table, and the line table */
    symbol_module_release(module);
    symbol_store_destroy(store);
}

TEST(s12_a_table_that_changed_on_disk_is_checked_again) {
    const char *path = corpus_compile("gcc", "-g -O2", "");
    uint64_t address = fixture_nm(path, "two");
    struct symbol_store *store = corpus_store(fixture_path("sealed"));
    CHECK_INT(ask(store, path, address, 60000).quality, ==, SYMBOL_FULL);
    symbol_store_destroy(store);
    for (int i = 0; i < 2; i++) { /* opening marks the use and keeps the seal */
        store = fixture_store(fixture_path("sealed"), NULL);
        CHECK_INT(ask(store, path, address, 0).quality, ==, SYMBOL_FULL);
        symbol_store_destroy(store);
    }
    CHECK_INT(fixture_run("for f in sealed/*.lines; do s=$(stat -c %%s $f); printf XX | "
                          "dd of=$f bs=1 seek=$((s - 8)) conv=notrunc; done"),
              ==, 0);
    store = fixture_store(fixture_path("sealed"), NULL);
    CHECK_INT(ask(store, path, address, 0).quality, ==, SYMBOL_NAMES);
    CHECK_INT(fixture_run("ls sealed/*.lines"), !=, 0); /* and it is gone */
    symbol_store_destroy(store);
}

TEST(a_line_table_on_disk_answers_at_once) {
    const char *path = corpus_compile("gcc", "-g -O2", "");
    struct symbol_store *store = corpus_store(fixture_path("cache"));
    uint64_t address = fixture_nm(path, "two");
    struct symbol_answer answer = ask(store, path, address, 60000);
    CHECK_INT(answer.quality, ==, SYMBOL_FULL);
    symbol_store_destroy(store);
    store = fixture_store(fixture_path("cache"), NULL); /* a store that cannot build one */
    answer = ask(store, path, address, 0);
    CHECK_INT(answer.quality, ==, SYMBOL_FULL);
    CHECK_INT(symbol_store_tables_built(store), ==, 0);
    symbol_store_destroy(store);
    CHECK_INT(fixture_run("for f in cache/*.lines; do printf XXXX | "
                          "dd of=$f bs=1 seek=5000 conv=notrunc; done"),
              ==, 0);
    store = fixture_store(fixture_path("cache"), NULL);
    answer = ask(store, path, address, 0);
    CHECK_INT(answer.quality, ==, SYMBOL_NAMES); /* the damaged one was discarded */
    symbol_store_destroy(store);
}

static struct symbol_store *store_with(const char *worker) {
    struct symbol_options options = {.debug_roots = fixture_dir(), .worker = worker};
    struct symbol_store *store;
    CHECK_INT(symbol_store_create(&options, &store, NULL), ==, SONDE_OK);
    return store;
}

/* A worker that builds symbol tables, and runs `action` for line tables. */
static struct symbol_store *store_that_fails_by(const char *action) {
    char text[1024];
    snprintf(text, sizeof text, "#!/bin/sh\n[ \"$2\" = symbols ] && exec %s \"$@\"\n%s\n",
             corpus_worker(), action);
    fixture_write("worker.sh", text);
    CHECK_INT(fixture_run("chmod 700 worker.sh"), ==, 0);
    return store_with(fixture_path("worker.sh"));
}

TEST(s14_a_worker_that_dies_costs_lines_and_not_names) {
    const char *path = corpus_compile("gcc", "-g -O2", "");
    static const char *const actions[] = {"exit 1", "exit 0", "kill -SEGV $$"};
    uint64_t address = fixture_nm(path, "two");
    for (int i = 0; i < 4; i++) {
        struct symbol_store *store =
            i < 3 ? store_that_fails_by(actions[i]) : store_with("/nowhere");
        struct symbol_answer answer = ask(store, path, address, 60000);
        CHECK_INT(answer.quality, ==, SYMBOL_NAMES);
        CHECK_STR(outermost(&answer)->name, "two");
        symbol_store_destroy(store);
    }
}

TEST(a_store_ends_while_its_worker_runs) {
    const char *path = corpus_compile("gcc", "-g -O2", "");
    struct symbol_store *store = store_that_fails_by("exec sleep 1000");
    struct symbol_answer answer = ask(store, path, fixture_nm(path, "two"), 200);
    CHECK_INT(answer.quality, ==, SYMBOL_NAMES); /* it did not wait longer than asked */
    symbol_store_destroy(store);
}

TEST(s14_damaged_dwarf_never_ends_the_service) {
    corpus_compile("gcc", "-g -O2", "");
    uint64_t address = fixture_nm(fixture_path("prog"), "two");
    unsigned long offset = strtoul(
        fixture_line("readelf -SW prog | grep ' .debug_info' | sed 's/.*PROGBITS *[0-9a-f]* //' | "
                     "cut -d' ' -f1"),
        NULL, 16);
    CHECK_INT(offset, >, 0);
    for (unsigned long seed = 1; seed <= 12; seed++) {
        struct symbol_store *store = corpus_store(NULL);
        CHECK_INT(fixture_run("cp prog broken && for i in 1 2 3 4 5 6 7 8; do "
                              "printf '\\%lo' | dd of=broken bs=1 conv=notrunc "
                              "seek=$((%lu + %lu * 131 + i * 997)); done",
                              (seed * 37) & 0377, offset, seed),
                  ==, 0);
        struct symbol_answer answer = ask(store, fixture_path("broken"), address, 60000);
        CHECK_INT(answer.frame_count, >, 0);
        symbol_store_destroy(store);
    }
}
