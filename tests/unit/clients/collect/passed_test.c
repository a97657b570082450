/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/host/passed.h"
#include "tests/unit/check.h"

static struct passed passed;

static void begin(void) {
    passed_finish(&passed);
    passed_init(&passed);
}

TEST(each_definition_is_needed_once) {
    begin();
    for (uint64_t id = 1; id <= 5000; id++) {
        CHECK(passed_needs_frame(&passed, id, 0, true));
        CHECK(passed_needs_stack(&passed, "web", id));
    }
    for (uint64_t id = 1; id <= 5000; id++) {
        CHECK(!passed_needs_frame(&passed, id, 0, true));
        CHECK(!passed_needs_stack(&passed, "web", id));
    }
}

TEST(a_stack_is_needed_for_each_service) {
    begin();
    CHECK(passed_needs_stack(&passed, "web", 1));
    CHECK(passed_needs_stack(&passed, "cache", 1));
    CHECK(!passed_needs_stack(&passed, "web", 1));
    CHECK(!passed_needs_stack(&passed, "cache", 1));
}

TEST(newer_names_and_first_names_are_needed) {
    begin();
    CHECK(passed_needs_frame(&passed, 1, 0, false));
    CHECK(passed_needs_frame(&passed, 1, 0, true));
    CHECK(passed_needs_frame(&passed, 1, 2, true));
    CHECK(!passed_needs_frame(&passed, 1, 2, true));
    CHECK(!passed_needs_frame(&passed, 1, 0, true));
}

TEST(it_begins_anew_when_it_is_full) {
    begin();
    for (uint64_t id = 1; id <= PASSED_MAX; id++)
        CHECK(passed_needs_frame(&passed, id, 0, false));
    CHECK(!passed_needs_frame(&passed, 1, 0, false));
    CHECK(passed_needs_frame(&passed, PASSED_MAX + 1, 0, false));
    CHECK(passed_needs_frame(&passed, 1, 0, false));
    CHECK_INT(passed.count, ==, 2);
}

TEST(it_forgets_after_an_hour) {
    begin();
    passed_expire(&passed, 10 * PASSED_FORGET_S * 1000);
    CHECK(passed_needs_frame(&passed, 1, 0, false));
    passed_expire(&passed, 11 * PASSED_FORGET_S * 1000 - 1);
    CHECK(!passed_needs_frame(&passed, 1, 0, false));
    passed_expire(&passed, 11 * PASSED_FORGET_S * 1000);
    CHECK(passed_needs_frame(&passed, 1, 0, false));
}
