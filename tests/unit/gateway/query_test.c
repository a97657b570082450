/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/query.h"

#include "tests/unit/check.h"

static struct query query;

static const struct query *parsed(const char *text) {
    query_finish(&query);
    query_parse(&query, sonde_slice_of(text));
    return &query;
}

static bool is(const char *text, const char *key, const char *value) {
    struct sonde_slice found;
    return query_get(parsed(text), key, &found) && sonde_slice_equals(found, value);
}

TEST(values_are_form_url_decoded) {
    CHECK(is("a=1", "a", "1"));
    CHECK(is("a=1+2%203", "a", "1 2 3"));
    CHECK(is("%61=%2f%2F", "a", "//"));
    CHECK(is("a", "a", ""));
    CHECK(is("a=", "a", ""));
    CHECK(is("&&a=b=c&", "a", "b=c"));
    CHECK(is("a=%zz%4%", "a", "%zz%4%"));
    struct sonde_slice zero;
    CHECK(query_get(parsed("a=%00"), "a", &zero) && zero.len == 1 && zero.data[0] == 0);
    CHECK(!query_get(parsed(""), "", &zero));
}

TEST(the_last_of_two_values_wins) {
    CHECK(is("a=1&b=2&a=3", "a", "3"));
    CHECK_INT(query_occurrences(parsed("a=1&b=2&a=3"), "a"), ==, 2);
}

TEST(hexadecimal_numbers_have_at_most_16_digits_after_zeros) {
    static const struct {
        const char *text;
        bool good;
        uint64_t value;
    } rows[] = {
        {"1f2A", true, 0x1f2a},
        {"0x1f2a", true, 0x1f2a},
        {"0X0", true, 0},
        {"ffffffffffffffff", true, UINT64_MAX},
        {"00000ffffffffffffffff", true, UINT64_MAX},
        {"1ffffffffffffffff", false, 0},
        {"", false, 0},
        {"0x", false, 0},
        {"0x1g", false, 0},
        {"-1", false, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t value = 42;
        bool good = query_hex(sonde_slice_of(rows[i].text), &value);
        if (good != rows[i].good || value != (good ? rows[i].value : 42))
            check_fail(__FILE__, __LINE__, "%s: %llx", rows[i].text, (unsigned long long)value);
    }
}

struct whole_row {
    const char *text;
    bool good;
    uint64_t value;
};

TEST(whole_numbers_are_digits_within_bounds) {
    static const struct whole_row rows[] = {
        {"s=1", true, 1},     {"s=3600", true, 3600},
        {"s=007", true, 7},   {"x=1", true, 42}, /* absent: the default stays */
        {"s=0", false, 0},    {"s=3601", false, 0},
        {"s=", false, 0},     {"s=-1", false, 0},
        {"s=%2B5", false, 0}, {"s=+5", false, 0},
        {"s=1.5", false, 0},  {"s=1e2", false, 0},
        {"s=0x10", false, 0}, {"s=18446744073709551616", false, 0},
        {"s=%001", false, 0}, {"s=99999999999999999999999999", false, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t value = 42;
        struct sonde_diag diag = {0};
        sonde_err err = query_whole(parsed(rows[i].text), "s", 1, 3600, &value, &diag);
        if ((err == SONDE_OK) != rows[i].good || (rows[i].good && value != rows[i].value))
            check_fail(__FILE__, __LINE__, "%s: %d, %llu", rows[i].text, err,
                       (unsigned long long)value);
        if (!rows[i].good)
            CHECK_INT(value, ==, 42);
    }
}

TEST(a_refusal_names_parameter_value_and_bounds) {
    uint64_t value = 0;
    struct sonde_diag diag = {0};
    CHECK_INT(query_whole(parsed("seconds=a\"b%00%0a"), "seconds", 1, 3600, &value, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "seconds: \"a\\x22b\\x00\\x0a\" is not a whole number from 1 to 3600");
}

TEST(a_long_value_is_cut_in_the_refusal) {
    char text[400] = "s=", quoted[QUERY_QUOTED_SIZE];
    memset(text + 2, 'x', 300);
    uint64_t value;
    struct sonde_diag diag = {0};
    CHECK(query_whole(parsed(text), "s", 1, 2, &value, &diag));
    CHECK_INT(strlen(diag.text), ==, strlen("s: \"\" is not a whole number from 1 to 2") + 64);
    memset(text, '\n', 300);
    CHECK_INT(strlen(query_quote((struct sonde_slice){text, 300}, quoted)), ==, 256);
}

TEST(counts_may_have_an_exponent) {
    uint64_t value = 0;
    CHECK(!query_count(parsed("n=1e8"), "n", 1, 1000000000000, &value, NULL));
    CHECK_INT(value, ==, 100000000);
    CHECK(!query_count(parsed("n=25E0"), "n", 1, 1000000000000, &value, NULL));
    CHECK_INT(value, ==, 25);
    static const char *const bad[] = {"n=1.5",  "n=1e",  "n=e8",   "n=1e-2",
                                      "n=1e99", "n=0e5", "n=1e13", "n=1e18446744073709551616",
                                      "n=abc",  "n="};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (!query_count(parsed(bad[i]), "n", 1, 1000000000000, &value, NULL))
            check_fail(__FILE__, __LINE__, "%s was taken", bad[i]);
}

TEST(a_share_may_be_a_percentage) {
    const char *const bad[] = {"s=0", "s=1.1", "s=101%", "s=%", "s=", "s=1%%", "s=x%", "s=-1%"};
    double value = 7;
    CHECK(!query_share(parsed("s=1%"), "s", 0.0001, 1, &value, NULL));
    CHECK_NEAR(value, 0.01, 1e-9);
    CHECK(!query_share(parsed("s=0.5"), "s", 0.0001, 1, &value, NULL));
    CHECK_NEAR(value, 0.5, 1e-9);
    CHECK(!query_share(parsed("other=1"), "s", 0.0001, 1, &value, NULL));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(query_share(parsed(bad[i]), "s", 0.0001, 1, &value, NULL), ==,
                  SONDE_INVALID_ARGUMENT);
    CHECK_NEAR(value, 0.5, 1e-9);
}

TEST(decimals_are_checked_by_their_own_grammar) {
    double value = 0;
    CHECK(!query_decimal(parsed("d=0.01"), "d", 0.0001, 2, &value, NULL));
    CHECK_NEAR(value, 0.01, 1e-12);
    CHECK(!query_decimal(parsed("d=1e-3"), "d", 0.0001, 2, &value, NULL));
    CHECK_NEAR(value, 0.001, 1e-12);
    CHECK(!query_decimal(parsed("d=.5"), "d", 0.0001, 2, &value, NULL));
    CHECK(!query_decimal(parsed("d=2."), "d", 0.0001, 2, &value, NULL));
    static const char *const bad[] = {"d=",     "d=.",     "d=nan", "d=inf", "d=0x1p-3",
                                      "d=%201", "d=-0.5",  "d=1e",  "d=1e+", "d=3",
                                      "d=0",    "d=1e400", "d=0,5", "d=1%00"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (!query_decimal(parsed(bad[i]), "d", 0.0001, 2, &value, NULL))
            check_fail(__FILE__, __LINE__, "%s was taken", bad[i]);
}

TEST(flags_are_true_false_1_or_0) {
    bool flag = true;
    CHECK(!query_flag(parsed("p=false"), "p", &flag, NULL) && !flag);
    CHECK(!query_flag(parsed("p=1"), "p", &flag, NULL) && flag);
    CHECK(!query_flag(parsed("q=maybe"), "p", &flag, NULL) && flag);
    CHECK(query_flag(parsed("p=maybe"), "p", &flag, NULL));
    CHECK(query_flag(parsed("p=TRUE"), "p", &flag, NULL));
    query_finish(&query);
}
