/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/line_limit.h"

#include "tests/unit/check.h"

static unsigned admitted(struct line_limit *limit, unsigned lines, int64_t now_ms) {
    unsigned count = 0;
    for (unsigned i = 0; i < lines; i++)
        count += line_limit_admits(limit, now_ms);
    return count;
}

TEST(a_minute_has_60_lines_and_the_rest_is_counted) {
    struct line_limit limit = {0};
    CHECK_INT(admitted(&limit, 50, 1000), ==, 50);
    CHECK_INT(admitted(&limit, 50, 60999), ==, 10);
    CHECK_INT(line_limit_take(&limit), ==, 40);
    CHECK_INT(line_limit_take(&limit), ==, 0);
    CHECK_INT(admitted(&limit, 5, 60999), ==, 0);
    CHECK_INT(line_limit_take(&limit), ==, 5);
}

TEST(a_new_minute_begins_with_its_first_line) {
    struct line_limit limit = {0};
    CHECK_INT(admitted(&limit, 70, 1000), ==, 60);
    CHECK_INT(admitted(&limit, 70, 61000), ==, 60);
    CHECK_INT(admitted(&limit, 1, 120999), ==, 0);
    CHECK_INT(admitted(&limit, 70, 500000), ==, 60);
    CHECK_INT(line_limit_take(&limit), ==, 31);
}
