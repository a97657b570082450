/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files share modules and tables, and whose debug files count. */
#include "tests/unit/check.h"
#include "tests/unit/symbol/fixture.h"

#include <unistd.h>

static void compile(const char *out) {
    fixture_write("planted.c", "__attribute__((noinline)) int planted_one(int x) {\n"
                               "    __asm__ volatile(\"\");\n"
                               "    return x + 1;\n"
                               "}\n"
                               "int main(void) { return planted_one(2); }\n");
    fixture_must("gcc", "gcc -O2 -no-pie planted.c -o %s", out);
}

/* The path is a guest's claim, so it separates modules, but not their tables. */
TEST(equal_files_share_tables_and_different_files_do_not) {
    struct symbol_store *store = fixture_store(fixture_path("cache"), NULL);
    compile("left");
    CHECK_INT(fixture_run("cp left right && strip -o third left"), ==, 0);
    struct symbol_module *left = fixture_module(store, fixture_path("left"));
    struct symbol_module *again = fixture_module(store, fixture_path("left"));
    struct symbol_module *right = fixture_module(store, fixture_path("right"));
    struct symbol_module *third = fixture_module(store, fixture_path("third"));
    CHECK(left == again && left != right);
    CHECK(third != left); /* the same build-id, other symbols */
    CHECK_STR(symbol_module_build_id(third), symbol_module_build_id(left));
    CHECK_STR(symbol_module_base_name(left), "left");
    CHECK_STR(symbol_module_base_name(right), "right");
    uint64_t one = fixture_nm(fixture_path("left"), "planted_one");
    CHECK_STR(fixture_name_in(store, fixture_path("left"), one).name, "planted_one");
    CHECK_INT(symbol_store_tables_built(store), ==, 1);
    CHECK_STR(fixture_name_in(store, fixture_path("right"), one).name, "planted_one");
    CHECK_INT(symbol_store_tables_built(store), ==, 1);
    CHECK_STR(fixture_name_in(store, fixture_path("third"), one).name, "");
    symbol_module_release(left);
    symbol_module_release(again);
    symbol_module_release(right);
    symbol_module_release(third);
    symbol_store_destroy(store);
}

TEST(s5_a_debug_file_of_another_user_beside_the_program_is_rejected) {
    if (geteuid() != 0)
        check_skip("only root can give files to other users");
    struct symbol_store *store = fixture_store(NULL, NULL);
    compile("linked");
    fixture_must("objcopy", "objcopy --only-keep-debug linked linked.debug && strip linked && "
                            "objcopy --add-gnu-debuglink=linked.debug linked");
    uint64_t one = fixture_nm(fixture_path("linked.debug"), "planted_one");
    CHECK_INT(fixture_run("chown 12345 linked.debug"), ==, 0);
    CHECK_STR(fixture_name_in(store, fixture_path("linked"), one).name, "");
    CHECK_INT(fixture_run("chown 12345 linked"), ==, 0); /* its own debug file */
    CHECK_STR(fixture_name_in(store, fixture_path("linked"), one).name, "planted_one");
    symbol_store_destroy(store);
}
