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
    CHECK_INT(fixture_run("cp -p left right && strip -o third left"), ==, 0);
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

/* Builds two programs that differ only in a name that is far from the file's edges, and installs
 * one over the other. */
static void install_another_build(const char *build_id, const char *first_time,
                                  const char *second_time) {
    struct symbol_store *store = fixture_store(fixture_path("cache"), NULL);
    fixture_write("build.c", "__attribute__((noipa)) static int planted_one(int x) {\n"
                             "    __asm__ volatile(\"\");\n"
                             "    return x + 1;\n"
                             "}\n"
                             "int main(void) { return planted_one(2); }\n");
    fixture_must("gcc",
                 "for i in $(seq 200); do echo \"int planted_at_the_end_of_the_file_$i;\"; done"
                 " >>build.c && gcc -O2 -no-pie -Wl,--build-id=%s build.c -o first"
                 " && sed s/planted_one/planted_two/g first >second",
                 build_id);
    CHECK_INT(fixture_run("tail -c 4096 first >end && tail -c 4096 second | cmp - end"), ==, 0);
    CHECK_INT(fixture_run("cmp -n 4096 first second && ! cmp -s first second"), ==, 0);
    CHECK_INT(fixture_run("touch -d %s first && touch -d %s second && install -p first app",
                          first_time, second_time),
              ==, 0);
    uint64_t one = fixture_nm(fixture_path("app"), "planted_one");
    CHECK_STR(fixture_name_in(store, fixture_path("app"), one).name, "planted_one");
    CHECK_INT(fixture_run("install -p second app"), ==, 0);
    CHECK_STR(fixture_name_in(store, fixture_path("app"), one).name, "planted_two");
    symbol_store_destroy(store);
}

TEST(another_build_without_build_id_has_tables_of_its_own_whatever_its_time_is) {
    install_another_build("none", "@1", "@1");
}

TEST(another_build_with_the_same_build_id_has_tables_of_its_own) {
    install_another_build("0xfeedbeef", "@1", "@2");
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
