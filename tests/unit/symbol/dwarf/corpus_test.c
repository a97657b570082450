/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the answers for the corpus, compiled in many ways, with llvm-symbolizer's. */
#include "tests/unit/check.h"
#include "tests/unit/symbol/dwarf/corpus.h"

#include <stdio.h>

static void check_compiled(const char *family, const char *flags, const char *link) {
    char how[256];
    snprintf(how, sizeof how, "%s %s %s", family, flags, link);
    corpus_check(corpus_compile(family, flags, link), how);
}

#define MATRIX(family, level)                                 \
    TEST(s9_##family##_##level) {                             \
        check_compiled(#family, "-g -gdwarf-4 -" #level, ""); \
        check_compiled(#family, "-g -gdwarf-5 -" #level, ""); \
    }
MATRIX(gcc, O0)
MATRIX(gcc, O2)
MATRIX(gcc, O3)
MATRIX(clang, O0)
MATRIX(clang, O2)
MATRIX(clang, O3)

TEST(s9_fixed_address_and_lld) {
    check_compiled("gcc", "-g -O2 -fno-pie", "-no-pie");
    check_compiled("clang", "-g -O2", "-fuse-ld=lld");
}

TEST(s9_link_time_optimisation) {
    check_compiled("gcc", "-g -O2 -flto", "");
    check_compiled("clang", "-g -O2 -flto", "-fuse-ld=lld");
}

TEST(trap_5_sequences_of_discarded_functions_name_nothing) {
    check_compiled("gcc", "-g -O2 -ffunction-sections", "-Wl,--gc-sections");
    check_compiled("clang", "-g -O2 -ffunction-sections", "-fuse-ld=lld -Wl,--gc-sections");
}

TEST(s9_identical_code_folded_by_the_linker) {
    check_compiled("clang", "-g -O2 -ffunction-sections", "-fuse-ld=lld -Wl,--icf=all");
}
