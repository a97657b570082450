/* SPDX-License-Identifier: Apache-2.0
 *
 * DWARF in many forms, compared with llvm-symbolizer: versions, 32 and 64 bits, packages of split
 * units, type units. Compressed, split and shared DWARF is in line_table_test.c. */
#include "tests/unit/check.h"
#include "tests/unit/symbol/dwarf/corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check_compiled(const char *family, const char *flags) {
    char how[256];
    snprintf(how, sizeof how, "%s %s", family, flags);
    corpus_check(corpus_compile(family, flags, ""), how);
}

TEST(s9_old_versions) {
    check_compiled("gcc", "-g -O2 -gdwarf-2");
    check_compiled("gcc", "-g -O2 -gdwarf-3");
}

TEST(s9_offsets_of_64_bits) {
    corpus_write();
    if (fixture_run("gcc -g -gdwarf-5 -gdwarf64 -c two.c -o wide.o && "
                    "readelf --debug-dump=info wide.o | grep -q '64-bit'") != 0)
        check_skip("this compiler cannot write 64-bit DWARF");
    check_compiled("gcc", "-g -O2 -gdwarf-5 -gdwarf64");
    check_compiled("gcc", "-g -O2 -gdwarf-4 -gdwarf64");
}

TEST(s9_type_units) {
    check_compiled("gcc", "-g -O2 -gdwarf-5 -fdebug-types-section");
    check_compiled("gcc", "-g -O2 -gdwarf-4 -fdebug-types-section");
    check_compiled("clang", "-g -O2 -gdwarf-5 -fdebug-types-section");
}

/* The .dwo files are gone, so the answers come from the package. They must not have changed. */
static void check_packed(const char *family, const char *flags, const char *packer) {
    static struct corpus_addresses addresses;
    struct symbol_store *store = corpus_store(NULL);
    corpus_compile(family, flags, "");
    corpus_addresses(fixture_path("prog"), &addresses);
    CHECK_INT(fixture_run("chmod 755 ."), ==, 0); /* the worker runs as nobody */
    char *split = corpus_render(store, fixture_path("prog"), &addresses);
    CHECK(strstr(split, "middle"));
    fixture_must(packer,
                 "rm -f packed.dwp && cp prog packed && printf x >> packed && "
                 "timeout 30 %s -o packed.dwp *.dwo && rm *.dwo",
                 packer);
    char *packed = corpus_render(store, fixture_path("packed"), &addresses);
    CHECK_STR(packed, split);
    free(split);
    free(packed);
    symbol_store_destroy(store);
}

TEST(a_package_of_another_user_is_not_read) {
    static struct corpus_addresses addresses;
    if (geteuid() != 0)
        check_skip("only root can give files to other users");
    struct symbol_store *store = corpus_store(NULL);
    corpus_compile("gcc", "-g -O2 -gdwarf-4 -gsplit-dwarf", "");
    corpus_addresses(fixture_path("prog"), &addresses);
    CHECK_INT(fixture_run("chmod 755 ."), ==, 0); /* the worker runs as nobody */
    fixture_must("dwp", "cp prog packed && printf x >> packed && cp prog robbed && "
                        "printf y >> robbed && timeout 30 dwp -o packed.dwp *.dwo && "
                        "rm *.dwo && cp packed.dwp robbed.dwp && chown 12345 robbed.dwp");
    char *packed = corpus_render(store, fixture_path("packed"), &addresses);
    char *robbed = corpus_render(store, fixture_path("robbed"), &addresses);
    CHECK(strcmp(packed, robbed) != 0);
    free(packed);
    free(robbed);
    symbol_store_destroy(store);
}

TEST(s9_split_units_in_a_package) {
    check_packed("gcc", "-g -O2 -gdwarf-4 -gsplit-dwarf", "dwp");
    check_packed("clang", "-g -O2 -gdwarf-5 -gsplit-dwarf", "llvm-dwp");
}

TEST(a_skeleton_without_its_split_unit_still_has_lines) {
    const char *path = corpus_compile("gcc", "-g -O2 -gdwarf-5 -gsplit-dwarf", "");
    uint64_t address = fixture_nm(path, "two");
    CHECK_INT(fixture_run("rm *.dwo"), ==, 0);
    struct symbol_store *store = corpus_store(NULL);
    struct symbol_module *module = fixture_module(store, path);
    struct symbol_query query = {.module = module, .vaddr = address};
    struct symbol_answer answer;
    struct sonde_arena arena = {0};
    CHECK_INT(symbol_resolve_wait(store, &query, 1, 60000, &arena, &answer), ==, SONDE_OK);
    CHECK_INT(answer.frame_count, ==, 1);
    CHECK_STR(answer.frames[0].name, "two");
    CHECK(strstr(answer.frames[0].file, "two.c"));
    CHECK_INT(answer.frames[0].line, >, 0);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
}
