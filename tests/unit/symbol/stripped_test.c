/* SPDX-License-Identifier: Apache-2.0
 *
 * Files without symbols, or with some of them. */
#include "tests/unit/check.h"
#include "tests/unit/symbol/fixture.h"

#include <stdio.h>
#include <stdlib.h>

TEST(trap_7_a_stripped_library_names_only_exports_and_reports_that) {
    fixture_write(
        "sparse.c",
        "__attribute__((noinline)) static int hidden_one(int x) { __asm__(\"\"); return x; }\n"
        "int exported(int x) { return hidden_one(x) + 1; }\n");
    fixture_must("gcc", "gcc -O1 -fPIC -shared sparse.c -o sparse.so && nm sparse.so > nm.txt && "
                        "strip sparse.so");
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t hidden =
        strtoull(fixture_line("awk '$3 == \"hidden_one\" {print $1}' nm.txt"), NULL, 16);
    uint64_t exported =
        strtoull(fixture_line("awk '$3 == \"exported\" {print $1}' nm.txt"), NULL, 16);
    struct fixture_answer answer = fixture_name_in(store, fixture_path("sparse.so"), exported);
    CHECK_STR(answer.name, "exported");
    CHECK_INT(answer.quality, ==, SYMBOL_EXPORTS_ONLY);
    CHECK_INT(answer.reason, ==, SYMBOL_REASON_STRIPPED);
    struct fixture_answer unnamed = fixture_name_in(store, fixture_path("sparse.so"), hidden + 2);
    char place[64];
    snprintf(place, sizeof place, "[sparse.so]+0x%llx", (unsigned long long)hidden);
    CHECK_INT(unnamed.frame_count, ==, 0);
    CHECK_STR(unnamed.place, place); /* "[lib]+0xSTART", so the function stays in one piece */
    struct symbol_module *module = fixture_module(store, fixture_path("sparse.so"));
    char advice[PROGRAM_ADVICE];
    CHECK(symbol_module_advice(module, "sparse", advice));
    CHECK(symbol_module_advice(module, "sparse", advice));
    CHECK(strstr(advice, "sparse is stripped; link it without -s") == advice);
    symbol_module_release(module);
    symbol_store_destroy(store);
}

TEST(gnu_debugdata_names_what_exports_do_not) {
    fixture_write(
        "mini.c",
        "__attribute__((noinline)) static int hidden_two(int x) { __asm__(\"\"); return x; }\n"
        "int exported_two(int x) { return hidden_two(x) + 1; }\n");
    fixture_must("xz",
                 "gcc -O1 -fPIC -shared mini.c -o mini.so && "
                 "objcopy --only-keep-debug mini.so mini.dbg && "
                 "objcopy -S --remove-section .comment mini.dbg --keep-symbol=hidden_two m2 && "
                 "nm mini.so > nm2.txt && rm -f m2.xz && xz m2 && strip mini.so && "
                 "objcopy --add-section .gnu_debugdata=m2.xz mini.so");
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t hidden =
        strtoull(fixture_line("awk '$3 == \"hidden_two\" {print $1}' nm2.txt"), NULL, 16);
    uint64_t exported =
        strtoull(fixture_line("awk '$3 == \"exported_two\" {print $1}' nm2.txt"), NULL, 16);
    struct fixture_answer answer = fixture_name_in(store, fixture_path("mini.so"), hidden);
    CHECK_STR(answer.name, "hidden_two");
    CHECK_INT(answer.quality, ==, SYMBOL_NAMES);
    CHECK_STR(fixture_name_in(store, fixture_path("mini.so"), exported).name, "exported_two");
    symbol_store_destroy(store);
}

TEST(functions_that_lost_their_symbol_are_shown_by_their_start) {
    fixture_write("partly.c",
                  "__attribute__((noipa)) static int gone(int x) { __asm__(\"nop\"); return x; }\n"
                  "__attribute__((noipa)) int kept(int x) { __asm__(\"nop\"); return x + 1; }\n"
                  "int main(void) { return gone(1) + kept(2); }\n");
    fixture_must("gcc", "gcc -O1 partly.c -o partly && nm partly > nm3.txt && strip -x partly");
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t gone = strtoull(fixture_line("awk '$3 == \"gone\" {print $1}' nm3.txt"), NULL, 16);
    uint64_t kept = fixture_nm(fixture_path("partly"), "kept");
    char place[64];
    snprintf(place, sizeof place, "[partly]+0x%llx", (unsigned long long)gone);
    for (uint64_t at = 0; at < 3; at++) {
        struct fixture_answer unnamed = fixture_name_in(store, fixture_path("partly"), gone + at);
        CHECK_INT(unnamed.frame_count, ==, 0);
        CHECK_STR(unnamed.place, place);
        CHECK_STR(fixture_name_in(store, fixture_path("partly"), kept + at).name, "kept");
    }
    CHECK_INT(fixture_name_in(store, fixture_path("partly"), kept).quality, ==, SYMBOL_NAMES);
    symbol_store_destroy(store);
}

TEST(a_symbol_table_of_variables_hides_no_other_source_of_functions) {
    fixture_write("keeper.c",
                  "int counter = 1;\n"
                  "__attribute__((noipa)) static int hidden_three(int x) { return x + counter; }\n"
                  "int main(void) { return hidden_three(1); }\n");
    fixture_must("gcc", "gcc -O1 -no-pie keeper.c -o keeper && nm keeper > nm4.txt && "
                        "objcopy --only-keep-debug keeper keeper.debug && "
                        "strip -K counter keeper && test $(nm keeper | wc -l) = 1 && "
                        "objcopy --add-gnu-debuglink=keeper.debug keeper");
    struct symbol_store *store = fixture_store(NULL, NULL);
    const char *path = fixture_path("keeper");
    uint64_t hidden =
        strtoull(fixture_line("awk '$3 == \"hidden_three\" {print $1}' nm4.txt"), NULL, 16);
    CHECK_STR(fixture_name_in(store, path, fixture_nm(path, "counter")).name, "counter");
    struct fixture_answer answer = fixture_name_in(store, path, hidden);
    CHECK_STR(answer.name, "hidden_three");
    CHECK_INT(answer.quality, ==, SYMBOL_NAMES);
    symbol_store_destroy(store);
}

TEST(a_file_with_damaged_section_headers_is_not_called_stripped) {
    fixture_write("damaged.c", "int main(void) { return 0; }\n");
    /* e_shoff is at offset 40 of the file. */
    fixture_must("gcc", "gcc damaged.c -o damaged && printf '\\377\\377\\377\\377' |"
                        " dd of=damaged bs=1 seek=40 conv=notrunc 2>dd.txt");
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct symbol_module *module = fixture_module(store, fixture_path("damaged"));
    char advice[PROGRAM_ADVICE];
    CHECK(symbol_module_advice(module, "damaged", advice));
    CHECK(strstr(advice, "damaged has damaged section headers, or too many") == advice);
    symbol_module_release(module);
    symbol_store_destroy(store);
}

#define STARTER \
    "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE"

/* The name of `routine` in a stripped library, which is passed to `callee`. */
static const char *name_of_routine(const char *callee) {
    static char name[64];
    char source[800];
    snprintf(source, sizeof source,
             "int %s(void *, void *, void *(*)(void *), void *);\n"
             "static void *routine(void *x) { __asm__(\"\"); return x; }\n"
             "int start(void *thread) __asm__(\"" STARTER "\");\n"
             "int start(void *thread) { return %s(thread, 0, routine, 0) + 1; }\n",
             callee, callee);
    fixture_write("starter.c", source);
    fixture_must("gcc", "gcc -O1 -fPIC -fcf-protection -shared starter.c -o starter.so && "
                        "nm starter.so > nm5.txt && strip starter.so");
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t routine =
        strtoull(fixture_line("awk '$3 == \"routine\" {print $1}' nm5.txt"), NULL, 16);
    struct fixture_answer answer = fixture_name_in(store, fixture_path("starter.so"), routine + 4);
    snprintf(name, sizeof name, "%s", answer.frame_count ? answer.name : "");
    symbol_store_destroy(store);
    return name;
}

TEST(the_function_that_runs_a_std_thread_is_what_pthread_create_gets) {
    CHECK_STR(name_of_routine("pthread_create"), "execute_native_thread_routine");
    CHECK_STR(name_of_routine("another_function"), "");
}
