/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/time_text.h"
#include "tests/unit/check.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOW 1763869322000000007ll

/* The moment, or -1 if the text is refused. */
static int64_t moment(const char *text) {
    int64_t unix_ns = -2;
    struct sonde_diag diag = {0};
    sonde_err err = sonde_time_read(sonde_slice_of(text), NOW, &unix_ns, &diag);
    if (err == SONDE_OK)
        return unix_ns;
    CHECK_INT(err, ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "is not a time; use now, -1h, Unix seconds, 2025-"));
    return -1;
}

TEST(a_time_is_relative_to_now) {
    CHECK_INT(moment("now"), ==, NOW);
    CHECK_INT(moment("-90s"), ==, NOW - 90000000000);
    CHECK_INT(moment("-1h30m"), ==, NOW - 5400000000000);
    CHECK_INT(moment("now-2d"), ==, NOW - 172800000000000);
    CHECK_INT(moment("-1w"), ==, NOW - 604800000000000);
}

TEST(a_time_is_in_unix_seconds_or_their_fractions) {
    CHECK_INT(moment("0"), ==, 0);
    CHECK_INT(moment("1763869322"), ==, 1763869322000000000);
    CHECK_INT(moment("1763869322.25"), ==, 1763869322250000000);
    CHECK_INT(moment("1763869322250"), ==, 1763869322250000000);
    CHECK_INT(moment("1763869322250000"), ==, 1763869322250000000);
    CHECK_INT(moment("1763869322250000001"), ==, 1763869322250000001);
    CHECK_INT(moment("1763869322.123456789123"), ==, 1763869322123456789);
}

TEST(a_time_is_in_the_form_of_rfc_3339) {
    CHECK_INT(moment("2025-11-23T03:42:02Z"), ==, 1763869322000000000);
    CHECK_INT(moment("2025-11-23 03:42:02z"), ==, 1763869322000000000);
    CHECK_INT(moment("2025-11-23T04:42:02.5+01:00"), ==, 1763869322500000000);
    CHECK_INT(moment("2025-11-22t22:12:02-05:30"), ==, 1763869322000000000);
    CHECK_INT(moment("2024-02-29T00:00:00Z"), ==, 1709164800000000000);
    CHECK_INT(moment("2016-12-31T23:59:60Z"), ==, 1483228800000000000); /* a leap second */
}

/* NOW is 03:42:02 in London, 09:12:02 in Kolkata and 22:42:02 of the day before in New York. */
TEST(a_time_without_an_offset_is_local) {
    static const struct {
        const char *zone;
        int64_t offset_s;
    } zones[] = {{"UTC0", 0}, {"IST-5:30", 19800}, {"EST5EDT,M3.2.0,M11.1.0", -18000}};
    for (size_t i = 0; i < sizeof zones / sizeof zones[0]; i++) {
        setenv("TZ", zones[i].zone, 1);
        tzset();
        int64_t shift = zones[i].offset_s * 1000000000;
        CHECK_INT(moment("2025-11-23T03:42:02"), ==, 1763869322000000000 - shift);
        CHECK_INT(moment("2025-11-23 03:42"), ==, 1763869320000000000 - shift);
        CHECK_INT(moment("2025-11-23"), ==, 1763856000000000000 - shift);
    }
    CHECK_INT(moment("22:42:02"), ==, 1763869322000000000);
    CHECK_INT(moment("22:43"), ==, 1763869380000000000 - 86400000000000); /* it was yesterday */
    CHECK_INT(moment("2025-07-01 00:00"), ==, 1751342400000000000);       /* summer time */
    unsetenv("TZ");
    tzset();
}

TEST(other_texts_are_refused_with_a_list_of_the_forms) {
    static const char *const refused[] = {
        "",
        " ",
        "yesterday",
        "now ",
        "now+1h",
        "nowish",
        "-",
        "-1",
        "-h",
        "-1x",
        "-1h2",
        "--1h",
        "+1h",
        "1h",
        "-1.5h",
        "-10000w",
        "-99999999999s",
        "1763869322.",
        ".5",
        "1e9",
        "0x10",
        "9223372036854775807",
        "10000000000",
        "99999999999999999999",
        "2025-11-23T03:42Z",
        "2025-11-23 03:42:02.5",
        "2025-11-23 03",
        "2025-11-23 ",
        "03:42:",
        "3:42",
        "03:42:60",
        "24:00",
        "2025-02-29T00:00:00Z",
        "2025-13-01T00:00:00Z",
        "2025-00-01T00:00:00Z",
        "2025-11-00T00:00:00Z",
        "2025-11-23T24:00:00Z",
        "2025-11-23T03:60:02Z",
        "2025-11-23T03:42:61Z",
        "2025-11-23T03:42:02+24:00",
        "2025-11-23T03:42:02ZZ",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+00:01",
        "9999-01-01T00:00:00Z",
        "2025-11-23T03:42:02.Z",
        "-1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (moment(refused[i]) != -1)
            CHECK_STR(refused[i], "refused");
}

TEST(a_moment_is_written_with_its_time_zone) {
    char text[SONDE_TIME_BYTES];
    CHECK_STR(sonde_time_utc(1763869322999999999, text), "2025-11-23 03:42:02 UTC");
    CHECK_STR(sonde_time_utc(INT64_MAX, text), "2262-04-11 23:47:16 UTC");
    CHECK_STR(sonde_time_utc(0, text), "");
    CHECK_STR(sonde_time_utc(-1, text), "");
}
