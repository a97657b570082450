/* SPDX-License-Identifier: Apache-2.0
 *
 * Selectors that attack: each is an error with its place, or plain data. */
#include "service/store/selector/selector.h"
#include "tests/unit/check.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *context_value(void *context, const char *name) {
    return context;
}

static void check_error(const char *text, const char *expected) {
    struct selector *selector = (struct selector *)text;
    struct sonde_diag diag = {0};
    CHECK_INT(selector_parse(text, NULL, NULL, &selector, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(selector == NULL);
    CHECK_STR(diag.text, expected);
    CHECK_INT(selector_parse(text, NULL, NULL, &selector, NULL), ==, SONDE_INVALID_ARGUMENT);
}

static bool matches(const char *text, const char *value) {
    struct selector *selector;
    struct sonde_diag diag = {0};
    if (selector_parse(text, NULL, NULL, &selector, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s: %s", text, diag.text);
    bool result = selector_matches(selector, context_value, (void *)value);
    selector_destroy(selector);
    return result;
}

/* Writes `count` times `part` with `between` in between. */
static char *repeat(char *at, const char *part, const char *between, size_t count) {
    for (size_t i = 0; i < count; i++)
        at += sprintf(at, "%s%s", i ? between : "", part);
    return at;
}

TEST(errors_have_the_place_and_what_was_expected) {
    static const char *const operator= "= != <> < <= > >= IN LIKE REGEXP or NOT before them";
    char text[160];
    snprintf(text, sizeof text, "byte 1: expected an operator: %s", operator);
    check_error("a", text);
    snprintf(text, sizeof text, "byte 2: expected an operator: %s", operator);
    check_error("a b", text);
    check_error("a=", "byte 2: expected a value in quotes or a number");
    check_error("a=b", "byte 2: expected a value in quotes or a number");
    check_error("a=1x", "byte 2: expected a value in quotes or a number");
    check_error("a=1.", "byte 2: expected a value in quotes or a number");
    check_error("a='x", "byte 4: expected a closing '");
    check_error("a='x\\'", "byte 6: expected a closing '");
    check_error("a=\"x", "byte 4: expected a closing \"");
    check_error("='x'", "byte 0: expected the name of a label");
    check_error("AND='x'", "byte 0: expected the name of a label");
    check_error("``='x'", "byte 1: expected a name between the back-quotes");
    check_error("`a='x'", "byte 6: expected a back-quote after the name");
    check_error("a='x' b='y'", "byte 6: expected AND or OR");
    check_error("a='x' AND", "byte 9: expected the name of a label");
    check_error("(a='x'", "byte 6: expected AND, OR or )");
    check_error("a='x')", "byte 5: expected AND or OR");
    check_error("()", "byte 1: expected the name of a label");
    check_error("a NOT = 'x'", "byte 6: expected IN, LIKE or REGEXP after NOT");
    check_error("a IN 'x'", "byte 5: expected ( after IN");
    check_error("a IN ()", "byte 6: expected a value in quotes or a number");
    check_error("a IN ('x' 'y')", "byte 10: expected , or )");
    check_error("a LIKE 5", "byte 7: expected a value in quotes");
    check_error("{a='x'", "byte 6: expected , or }");
    check_error("{,}", "byte 1: expected the name of a label");
    check_error("{a<'x'}", "byte 2: expected an operator: = != =~ !~");
    check_error("{a=5}", "byte 3: expected a value in quotes");
    check_error("{} OR a='x'", "byte 3: expected nothing after }");
    check_error("a=~'x'", "byte 2: expected a value in quotes or a number");
}

TEST(text_that_would_be_sql_stays_data) {
    CHECK(matches("a = ''' OR 1=1 --'", "' OR 1=1 --"));
    CHECK(!matches("a = ''' OR 1=1 --'", "x"));
    CHECK(matches("a = '; DROP TABLE windows; /*'", "; DROP TABLE windows; /*"));
    CHECK(!matches("a = 'x' AND (b = 'x' OR a = 'y')", "y"));
    check_error("a = '' OR 1=1 --'", "byte 10: expected the name of a label");
    check_error("a = 'x'; DROP TABLE windows", "byte 7: expected AND or OR");
    check_error("a = 'x' -- b", "byte 8: expected AND or OR");
    check_error("a = 'x' UNION SELECT 1", "byte 8: expected AND or OR");
    check_error("a = char(39)", "byte 4: expected a value in quotes or a number");
}

TEST(text_beyond_the_length_limit_is_refused) {
    static char text[100002];
    char *end = repeat(text, "(", "", 100000);
    CHECK_INT(end - text, ==, 100000);
    check_error(text, "byte 4096: expected at most 4096 bytes");
    memset(text, ' ', SELECTOR_MAX_BYTES);
    text[SELECTOR_MAX_BYTES] = 0;
    CHECK(matches(text, ""));
}

TEST(nesting_beyond_the_depth_limit_is_refused) {
    char text[1000];
    sprintf(repeat(repeat(text, "(", "", 32), "a='x'", "", 1), "%.32s",
            "))))))))))))))))))))))))))))))))");
    CHECK(matches(text, "x"));
    repeat(text, "(", "", 33);
    check_error(text, "byte 33: expected at most 32 levels of NOT and parentheses");
    repeat(text, "NOT", " ", 33);
    check_error(text, "byte 131: expected at most 32 levels of NOT and parentheses");
    sprintf(repeat(text, "NOT", " ", 32), " a='y'");
    CHECK(matches(text, "y"));
}

TEST(nodes_beyond_their_limit_are_refused) {
    static char text[SELECTOR_MAX_BYTES + 1];
    repeat(text, "a=1", " OR ", 128); /* 255 nodes */
    CHECK(matches(text, "1"));
    repeat(text, "a=1", " OR ", 129);
    check_error(text, "byte 899: expected at most 256 comparisons, AND, OR and NOT together");
    *repeat(text, "{", "", 1) = 0;
    sprintf(repeat(text + 1, "a='1'", ",", 129), "}");
    check_error(text, "byte 774: expected at most 256 comparisons, AND, OR and NOT together");
}

TEST(lists_beyond_their_limit_are_refused) {
    static char text[SELECTOR_MAX_BYTES + 1];
    sprintf(repeat(repeat(text, "a IN (", "", 1), "1", ",", 256), ")");
    CHECK(matches(text, "1"));
    sprintf(repeat(repeat(text, "a IN (", "", 1), "1", ",", 257), ")");
    check_error(text, "byte 518: expected at most 256 values after IN");
}

TEST(regular_expressions_that_do_not_compile_have_their_offset) {
    check_error("a REGEXP '('", "byte 9: expected a regular expression: missing closing "
                                "parenthesis at byte 1 of it");
    check_error("{a=~\"x)|(y\"}", "byte 4: expected a regular expression: unmatched closing "
                                  "parenthesis at byte 1 of it");
    check_error("a REGEXP '\\C'", "byte 9: expected a regular expression: using \\C is disabled by "
                                  "the application at byte 2 of it");
    static char text[1000];
    sprintf(repeat(repeat(text, "a REGEXP '", "", 1), "(", "", 300), "'");
    check_error(text, "byte 9: expected a regular expression: parentheses are too deeply nested "
                      "at byte 33 of it");
    check_error("a REGEXP '((((a{1000}){1000}){1000}){1000})'",
                "byte 9: expected a regular expression: regular expression is too large at byte 33 "
                "of it");
}

TEST(catastrophic_regular_expressions_are_bounded_and_do_not_match) {
    static char value[4001];
    memset(value, 'a', 4000);
    CHECK(!matches("a REGEXP '^(a+)+$' AND b='x'", value));
    CHECK(matches("a REGEXP '^a+$'", value));
    memcpy(value + 30, "!", 2);
    CHECK(!matches("{a=~'(a|aa)+'}", value));
    CHECK(!matches("{a=~'(a*)*b'}", value));
    CHECK(!matches("a REGEXP '^(?:(?:a?){30}){9}b'", value));
    CHECK(!matches("a REGEXP '(*LIMIT_MATCH=4000000000)^(a|a?)+$'", value)); /* may only lower it */
    CHECK(!matches("a REGEXP '^((?1)?)+b'", value));
    CHECK(matches("a NOT REGEXP '^(a|aa)+$'", value)); /* unknown counts as no match */
}

TEST(like_patterns_take_no_exponential_time) {
    static char text[SELECTOR_MAX_BYTES + 1], value[20001];
    memset(value, 'a', 20000);
    sprintf(repeat(repeat(text, "a LIKE '", "", 1), "%a", "", 1000), "b'");
    CHECK(!matches(text, value));
    sprintf(repeat(repeat(text, "a LIKE '", "", 1), "%a", "", 1000), "'");
    CHECK(matches(text, value));
}

TEST(invalid_utf8_is_refused_in_selectors_and_harmless_in_values) {
    check_error("a = 'x\xff'", "byte 6: expected UTF-8");
    check_error("a\xc3", "byte 1: expected UTF-8");
    CHECK(!matches("a REGEXP '^.$'", "\xff"));
    CHECK(matches("a REGEXP 'b'", "\xff\xfe"
                                  "b"));
    CHECK(matches("a LIKE '_'", "\xff"));
    CHECK(matches("a LIKE '%b'", "\xe2\x82"
                                 "b"));
}

TEST(a_nul_ends_the_text) {
    check_error("a = 'x\0' OR b = 'y'", "byte 6: expected a closing '");
    CHECK(matches("a = 'x'\0 AND b = 'y'", "x"));
}
