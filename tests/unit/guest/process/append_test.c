/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/append.h"

#include "tests/unit/check.h"

#include <errno.h>

TEST(text_that_does_not_fit_is_cut) {
    char text[8] = "";
    append_text(text, sizeof text, "abc");
    append_number(text, sizeof text, 1234567);
    CHECK_STR(text, "abc1234");
    append_text(text, sizeof text, "more");
    CHECK_STR(text, "abc1234");
}

TEST(the_largest_number_is_written_whole) {
    char text[24] = "";
    append_number(text, sizeof text, UINT64_MAX);
    CHECK_STR(text, "18446744073709551615");
}

TEST(errors_have_their_names_or_numbers) {
    char text[32] = "";
    append_errno(text, sizeof text, EPERM);
    CHECK_STR(text, "EPERM");
    append_errno(text, sizeof text, 95);
    CHECK_STR(text, "EPERMerror 95");
}
