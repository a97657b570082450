/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/dynamic_linker.h"

#include "tests/unit/check.h"

#include <string.h>

#define PROGRAM(words) dynamic_linker_program(words, sizeof words)

TEST(the_dynamic_linkers_of_glibc_and_musl_are_known) {
    CHECK(dynamic_linker_is("/lib64/ld-linux-x86-64.so.2"));
    CHECK(dynamic_linker_is("/opt/app/lib/ld-2.31.so"));
    CHECK(dynamic_linker_is("ld.so"));
    CHECK(dynamic_linker_is("/lib/ld-musl-x86_64.so.1"));
    CHECK(!dynamic_linker_is("/usr/bin/ld"));
    CHECK(!dynamic_linker_is("/usr/bin/ld.gold"));
    CHECK(!dynamic_linker_is("/usr/bin/ldd.so"));
    CHECK(!dynamic_linker_is("ld-data.sock"));
    CHECK(!dynamic_linker_is(""));
}

TEST(the_program_behind_the_dynamic_linkers_options_is_found) {
    CHECK_STR(PROGRAM("/lib64/ld-linux-x86-64.so.2\0./prog\0"
                      "1"),
              "./prog");
    CHECK_STR(PROGRAM("ld.so\0--inhibit-cache\0--library-path\0/lib\0./prog\0-x"), "./prog");
    CHECK_STR(PROGRAM("ld.so\0--library-path=/lib\0--\0./prog"), "./prog");
    CHECK_STR(PROGRAM("ld.so\0--argv0\0shop\0./prog"), "shop");
    CHECK_STR(PROGRAM("/usr/bin/env\0./prog"), "/usr/bin/env");
}

TEST(a_dynamic_linker_without_a_program_keeps_its_name) {
    CHECK_STR(PROGRAM("ld.so"), "ld.so");
    CHECK_STR(PROGRAM("ld.so\0--list-tunables"), "ld.so");
    CHECK_STR(PROGRAM("ld.so\0--library-path"), "ld.so");
    CHECK_STR(PROGRAM("ld.so\0--argv0"), "ld.so");
    CHECK_STR(dynamic_linker_program("", 0), "");
}
