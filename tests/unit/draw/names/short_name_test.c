/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/short_name.h"
#include "tests/unit/check.h"

#include <string.h>

static char shown[4096];

static const char *shorten(const char *name, size_t columns) {
    struct sonde_buf out = {0};
    draw_short_name(&out, name, columns);
    CHECK(!out.failed && out.len < sizeof shown);
    memcpy(shown, out.data, out.len);
    shown[out.len] = 0;
    sonde_buf_finish(&out);
    return shown;
}

TEST(a_name_that_fits_stays_whole) {
    CHECK_STR(shorten("map<int, long>::find(int const&)", 32), "map<int, long>::find(int const&)");
    CHECK_STR(shorten("größe(int)", 10), "größe(int)");
}

TEST(parameters_go_first_and_template_arguments_next) {
    const char *name = "std::map<int, std::string>::find(std::string const&) const";
    CHECK_STR(shorten(name, 57), "std::map<int, std::string>::find(...) const");
    CHECK_STR(shorten(name, 42), "std::map<...>::find(...) const");
    CHECK_STR(shorten(name, 29), "...:map<...>::find(...) const");
    CHECK_STR(shorten("f(int (*)(char, long), int)::{lambda(int)#1}::operator()(char) const", 60),
              "f(...)::{lambda(int)#1}::operator()(...) const");
}

TEST(names_of_operators_are_no_brackets) {
    CHECK_STR(shorten("bool operator<< <char, long>(std::ostream&, char const*)", 40),
              "bool operator<< <char, long>(...)");
    CHECK_STR(shorten("box<int, long, char>::operator->(int, long) const", 31),
              "box<...>::operator->(...) const");
    CHECK_STR(shorten("bool operator<(long_type const&, long_type const&)", 30),
              "bool operator<(...)");
    CHECK_STR(shorten("apply<&box::operator<=>, long>(int, long)", 15), "apply<...>(...)");
    CHECK_STR(shorten("f(auto) -> std::vector<char, alloc<char> >", 28),
              "f(...) -> std::vector<...>");
}

TEST(what_says_which_function_it_is_stays) {
    CHECK_STR(shorten("(anonymous namespace)::serve_connection(int, int)", 45),
              "(anonymous namespace)::serve_connection(...)");
    CHECK_STR(shorten("main.(*Server).serveConnection(int, string, bool)", 40),
              "main.(*Server).serveConnection(...)");
    CHECK_STR(shorten("<alloc::vec::Vec<T, Global> as core::ops::drop::Drop>::drop", 53),
              "<alloc::vec::Vec<...> as core::ops::drop::Drop>::drop");
    CHECK_STR(shorten("slices.SortFunc[go.shape.[]uint8]", 30), "slices.SortFunc[...]");
    CHECK_STR(shorten("[libclickhouse-common.so]+0x12345", 20), "...ommon.so]+0x12345");
}

TEST(empty_brackets_are_closed_and_hide_no_later_ones) {
    char name[512] = "", expected[512] = "";
    for (int i = 0; i < 40; i++) {
        strcat(name, "f()::");
        strcat(expected, "f()::");
    }
    strcat(name, "handle(int, long, char)");
    strcat(expected, "handle(...)");
    CHECK_STR(shorten(name, strlen(expected)), expected);
}

TEST(the_end_of_a_name_stays_and_characters_are_whole) {
    CHECK_STR(shorten("a::very::long::name::of::a::function", 20), "...::of::a::function");
    CHECK_STR(shorten("ääääääääääää", 8), "...äääää");
    CHECK_STR(shorten("abcdefghijkl", 1), "...hijkl");
}

TEST(unclosed_groups_cost_little) {
    static char name[4000];
    memset(name, '<', sizeof name - 1);
    name[0] = 'f';
    for (int i = 0; i < 50; i++)
        CHECK_INT(strlen(shorten(name, 20)), ==, 20);
}
