/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/names/name_match.h"
#include "api/draw/names/readable_name.h"
#include "api/draw/names/view_names.h"
#include "service/symbol/demangle.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <string.h>

#define TABLE      "tests/unit/draw/names/names.txt"
#define MOST_NAMES 8

static struct sonde_arena arena;

static const char *text_of(struct sonde_buf *text) {
    static char texts[4][8192];
    static unsigned next;
    char *copy = texts[next++ % 4];
    CHECK(!text->failed && text->len < sizeof texts[0]);
    memcpy(copy, sonde_buf_slice(text).data, text->len);
    copy[text->len] = 0;
    sonde_buf_finish(text);
    return copy;
}

static const char *readable(const char *name, bool with_parameters) {
    struct sonde_buf text = {0};
    draw_readable_name(&text, name, with_parameters);
    return text_of(&text);
}

static const char *demangled(const char *linkage) {
    struct sonde_buf text = {0};
    symbol_demangle(linkage, &text);
    return text_of(&text);
}

static void check_line(char *line) {
    const char *columns[4] = {0};
    line[strcspn(line, "\n")] = 0;
    for (int i = 0; i < 4; i++)
        columns[i] = strsep(&line, "\t");
    CHECK(columns[3] && !line);
    CHECK_STR(demangled(columns[0]), columns[1]);
    CHECK_STR(readable(columns[1], false), columns[2]);
    CHECK_STR(readable(columns[1], true), columns[3]);
    /* A readable name does not change again. */
    CHECK_STR(readable(columns[2], false), columns[2]);
    CHECK_STR(readable(columns[3], true), columns[3]);
}

TEST(names_of_cpp_rust_d_and_go_are_readable) {
    char line[8192];
    unsigned lines = 0;
    FILE *table = fopen(TABLE, "re");
    CHECK(table != NULL);
    for (; fgets(line, sizeof line, table); lines++)
        if (line[0] != '#')
            check_line(line);
    fclose(table);
    CHECK_INT(lines, >, 60);
}

TEST(brackets_nested_too_deeply_are_left_alone) {
    char name[2000] = "f";
    for (int i = 0; i < 200; i++)
        strcat(name, "<a::b");
    for (int i = 0; i < 200; i++)
        strcat(name, " >");
    CHECK_STR(readable(name, false), name);
}

TEST(a_name_that_was_cut_is_readable_as_far_as_it_goes) {
    const char *cut = "std::vector<std::__cxx11::basic_string<char, std::char_traits<char>, "
                      "std::allocator<char> >, std::allocator<std::__cxx11::basic...[cut]";
    CHECK_STR(readable(cut, false), "std::vector<std::string, std::allocator<std::basic...[cut]");
    CHECK_STR(readable("f(std::vector<int, std::allo...[cut]", false), "f(...");
}

static const char *const *in_view(const char *const *names, size_t count, size_t columns) {
    static const char *shown[MOST_NAMES];
    sonde_err err = columns ? draw_row_names(names, count, columns, &arena, shown)
                            : draw_view_names(names, count, &arena, shown);
    CHECK_INT(err, ==, SONDE_OK);
    return shown;
}

TEST(overloads_of_one_view_have_their_parameters) {
    static const char *const names[] = {"shop::hash(std::basic_string_view<char, "
                                        "std::char_traits<char> >)",
                                        "shop::hash(char const*)", "shop::index(char const*)",
                                        "shop::hash(char const*)"};
    const char *const *shown = in_view(names, 4, 0);
    CHECK_STR(shown[0], "shop::hash(std::string_view)");
    CHECK_STR(shown[1], "shop::hash(char const*)");
    CHECK_STR(shown[2], "shop::index(...)");
    CHECK_STR(shown[3], "shop::hash(char const*)");
}

TEST(functions_that_differ_in_what_is_never_shown_have_full_names) {
    static const char *const names[] = {
        "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::size() const",
        "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::size() "
        "const",
        "std::string::size() const"};
    const char *const *shown = in_view(names, 3, 0);
    for (int i = 0; i < 3; i++)
        CHECK_STR(shown[i], names[i]);
}

TEST(rows_that_would_look_equal_keep_their_difference) {
    static const char *const names[] = {
        "shop::parse_header(shop::connection&, std::vector<shop::field>&, long)",
        "shop::parse_header(shop::connection&, std::vector<shop::field>&, char)",
        "shop::parse_header(shop::connection&, std::vector<shop::line>&, bool, bool, bool)",
        "shop::write(shop::connection&, int)"};
    const char *const *shown = in_view(names, 2, 40);
    CHECK_STR(shown[0], "parse_header(...tor<shop::field>&, long)");
    CHECK_STR(shown[1], "parse_header(...tor<shop::field>&, char)");
    shown = in_view(names + 2, 2, 40);
    CHECK_STR(shown[0], "shop::parse_header(...)");
    CHECK_STR(shown[1], "shop::write(...)");
}

TEST(rows_fit_the_columns) {
    static const char *const names[] = {"größe::berechnen(größe::zahl const&, größe::zahl)",
                                        "größe::berechnen(größe::zähler const&, größe::zahl)"};
    for (size_t columns = 16; columns < 60; columns++) {
        const char *const *shown = in_view(names, 2, columns);
        CHECK(strcmp(shown[0], shown[1]) != 0);
        for (int i = 0; i < 2; i++) {
            size_t width = 0;
            for (const char *at = shown[i]; *at; at++)
                width += (*at & 0xc0) != 0x80;
            CHECK_INT(width, <=, columns);
        }
    }
}

#define APPEND                                                                                 \
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::append(" \
    "char const*)"

static enum draw_fit fit(const char *name, const char *function) {
    struct draw_typed typed;
    draw_typed_init(&typed, name);
    enum draw_fit found = draw_typed_fit(&typed, function);
    draw_typed_finish(&typed);
    return found;
}

TEST(a_typed_name_is_a_name_or_its_readable_form) {
    CHECK_INT(fit(APPEND, APPEND), ==, DRAW_FIT_EXACT);
    CHECK_INT(fit("std::string::append", APPEND), ==, DRAW_FIT_READABLE);
    CHECK_INT(fit("std::string::append(...)", APPEND), ==, DRAW_FIT_READABLE);
    CHECK_INT(fit("std::string::append(char const*)", APPEND), ==, DRAW_FIT_READABLE);
    CHECK_INT(fit("shop::price", "shop::price(std::allocator<int>, int)"), ==, DRAW_FIT_READABLE);
    CHECK_INT(fit("shop::pri", "shop::price(int, int)"), ==, DRAW_FIT_NONE);
    CHECK_INT(fit("append", APPEND), ==, DRAW_FIT_NONE);
    CHECK_INT(fit("", APPEND), ==, DRAW_FIT_NONE);
}

TEST(dots_and_stars_of_a_typed_name_are_any_text) {
    CHECK_INT(fit("std::*::append*", APPEND), ==, DRAW_FIT_PATTERN);
    CHECK_INT(fit("...::append(...)", APPEND), ==, DRAW_FIT_PATTERN);
    CHECK_INT(fit("std::string::app…", APPEND), ==, DRAW_FIT_PATTERN);
    CHECK_INT(fit("...::assign(...)", APPEND), ==, DRAW_FIT_NONE);
    /* A name can have stars of its own, and is then no pattern. */
    CHECK_INT(fit("parse(char*)", "parse(char*)"), ==, DRAW_FIT_EXACT);
    CHECK_INT(fit("parse(char*)", "parse(char, int)"), ==, DRAW_FIT_PATTERN);
}

TEST(only_parameters_can_be_left_out_behind_a_name) {
    const char *serve = "main.(*Server).Serve";
    const char *hidden = "shop::(anonymous namespace)::f(int)";
    CHECK_INT(fit("main.", serve), ==, DRAW_FIT_NONE);
    CHECK_INT(fit("main", serve), ==, DRAW_FIT_NONE);
    CHECK_INT(fit("main.*", serve), ==, DRAW_FIT_PATTERN);
    CHECK_INT(fit("shop::", hidden), ==, DRAW_FIT_NONE);
    CHECK_INT(fit("shop::(anonymous namespace)::f", hidden), ==, DRAW_FIT_READABLE);
    CHECK_INT(fit("shop::(anonymous namespace)::f(int)", "shop::(anonymous namespace)::f(long)"),
              ==, DRAW_FIT_NONE);
    CHECK_INT(fit("shop::list<int>::operator()", "shop::list<int>::operator()(int, int)"), ==,
              DRAW_FIT_READABLE);
}
