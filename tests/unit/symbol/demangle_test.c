/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/demangle.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char *shown(const char *name) {
    static struct sonde_buf buf;
    buf.len = 0;
    symbol_demangle(name, &buf);
    return buf.data ? buf.data : "";
}

TEST(s10_plain_and_cpp_names_look_as_in_the_source) {
    CHECK_STR(shown("main"), "main");
    CHECK_STR(shown("_start"), "_start");
    CHECK_STR(shown("_ZN3foo3barEi"), "foo::bar(int)");
    CHECK_STR(shown("_ZNSt6vectorIiSaIiEE9push_backERKi"),
              "std::vector<int, std::allocator<int> >::push_back(int const&)");
    CHECK_STR(shown("_ZN1AmmEv"), "A::operator--()");
    CHECK_STR(shown("_ZN1AC2Ev"), "A::A()");
    CHECK_STR(shown("_Zbroken"), "_Zbroken");
    CHECK_STR(shown("_Z"), "_Z");
    CHECK_STR(shown("_R"), "_R");
}

TEST(s10_a_legacy_rust_name_is_not_demangled_as_cpp) {
    CHECK_STR(shown("_ZN4core3fmt9Formatter3pad17h8fd4d83f2a0a3c9dE"), "core::fmt::Formatter::pad");
    CHECK_STR(
        shown(
            "_ZN63_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..clone..Clone$GT$5clone17h00112233"
            "44556677E"),
        "<alloc::vec::Vec<T> as core::clone::Clone>::clone");
    CHECK_STR(shown("_ZN4core3fmt9Formatter3pad17h8fd4d83f2a0a3c9dE.llvm.1234567"),
              "core::fmt::Formatter::pad");
}

TEST(s10_rust_v0_names_lose_their_disambiguator) {
    CHECK_STR(shown("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
    CHECK_STR(shown("_RNvNtCs1234_7mycrate3bar3baz"), "mycrate::bar::baz");
}

TEST(s10_names_of_d_look_as_in_the_source) {
    CHECK_STR(shown("_D3app__T4workTiZQiFNbNiiZi"), "app.work!(int).work(int)");
    CHECK_STR(shown("_D3app3sumFAiZl"), "app.sum(int[])");
    CHECK_STR(shown("_Dmain"), "D main");
    CHECK_STR(shown("_DYNAMIC"), "_DYNAMIC");
    CHECK_STR(shown("_D"), "_D");
    CHECK_STR(shown("_D3app3"), "_D3app3");
}

/* Each back reference may double the name. */
TEST(s10_a_name_of_d_with_many_back_references_stays_as_it_is) {
    const char *name = "_D3app__T4workTiZQiFQbQbQbQbQbQbQbQbQbQbQbQbZi";
    CHECK_STR(shown(name), name);
}

TEST(trap_1_clone_suffixes_are_removed) {
    CHECK_STR(shown("hot.__part.9"), "hot"); /* a basic block's section */
    CHECK_STR(shown("_ZN3foo3barEi.__part.1"), "foo::bar(int)");
    CHECK_STR(shown("work.isra.0"), "work");
    CHECK_STR(shown("work.constprop.0.isra.1"), "work");
    CHECK_STR(shown("work.part.0.cold"), "work");
    CHECK_STR(shown("work.cold"), "work");
    CHECK_STR(shown("work.lto_priv.12"), "work");
    CHECK_STR(shown("_ZN3foo3barEi.isra.0.cold.3"), "foo::bar(int)");
    CHECK_STR(shown("_ZN3foo3barEi.resume"), "foo::bar(int)");
    CHECK_STR(shown("memcpy@@GLIBC_2.14"), "memcpy");
    CHECK_STR(shown("memcpy@GLIBC_2.2.5"), "memcpy");
}

TEST(a_part_that_only_looks_like_a_suffix_stays) {
    CHECK_STR(shown("main.resume"), "main.resume"); /* Go */
    CHECK_STR(shown("nested.1234"), "nested.1234");
    CHECK_STR(shown(".cold"), ".cold");
    CHECK_STR(shown("runtime.mallocgc"), "runtime.mallocgc");
}

TEST(a_plt_name_is_demangled_before_the_at_sign) {
    CHECK_STR(shown("malloc@plt"), "malloc@plt");
    CHECK_STR(shown("_ZN3foo3barEi@plt"), "foo::bar(int)@plt");
}

TEST(names_of_arbitrary_bytes_become_valid_utf8) {
    CHECK_STR(shown("a\x01\nb\x7f"), "a??b?");
    CHECK_STR(shown("\xff\xfe"
                    "x\xc0\x80"),
              "??x??");
    CHECK_STR(shown("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
    CHECK_STR(shown("\xed\xa0\x80"), "???"); /* a surrogate */
    CHECK_STR(shown("\xe2\x82"), "??");      /* cut in the middle */
}

TEST(s10_a_long_name_is_cut_with_a_marker) {
    size_t len = 100000;
    char *name = malloc(len + 1);
    memset(name, 'a', len);
    name[len] = 0;
    const char *text = shown(name);
    CHECK_INT(strlen(text), ==, SYMBOL_NAME_MAX);
    CHECK_STR(text + SYMBOL_NAME_MAX - strlen(SYMBOL_NAME_MARKER), SYMBOL_NAME_MARKER);
    free(name);
}

/* f(pair<int, int>, pair of two of those, pair of two of those, ...): 2^30 letters. */
TEST(s10_a_name_that_doubles_with_every_letter_is_cut_at_once) {
    char name[512] = "_Z1fSt4pairIiiE";
    char *at = name + strlen(name);
    for (int i = 0; i < 30; i++) {
        char digit = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i];
        at += sprintf(at, "S_IS%c_S%c_E", digit, digit);
    }
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    const char *text = shown(name);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    CHECK_INT(strlen(text), ==, SYMBOL_NAME_MAX);
    CHECK(strncmp(text, "f(std::pair<int, int>, std::pair<", 32) == 0);
    CHECK_INT(after.tv_sec - before.tv_sec, <=, 2);
}

TEST(s10_a_rust_name_of_many_back_references_is_cut) {
    /* A tuple whose elements refer back to the whole tuple before. */
    char name[2048] = "_RINvC1a1b";
    char *at = name + strlen(name);
    size_t back = strlen(name) - 2;
    at += sprintf(at, "TmmmmE");
    for (int i = 0; i < 60; i++) {
        size_t here = (size_t)(at - name) - 2;
        static const char digits[] =
            "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        char reference[16];
        size_t value = back - 1;
        if (value < 62)
            sprintf(reference, "B%c_", digits[value]);
        else
            sprintf(reference, "B%c%c_", digits[value / 62], digits[value % 62]);
        at += sprintf(at, "T%s%s%sE", reference, reference, reference);
        back = here;
    }
    strcpy(at, "E");
    const char *text = shown(name);
    CHECK_INT(strlen(text), ==, SYMBOL_NAME_MAX);
    CHECK(strstr(text, "a::b::<(u32, u32, u32, u32)"));
}

TEST(deep_nesting_does_not_overflow_the_stack) {
    char name[2100] = "_Z1f";
    for (size_t i = 4; i < 2040; i++)
        name[i] = 'P';
    strcpy(name + 2040, "i");
    CHECK(strlen(shown(name)) > 0);
    for (size_t i = 2; i < 2040; i++)
        name[i] = 'N';
    CHECK(strlen(shown(name)) > 0);
}
