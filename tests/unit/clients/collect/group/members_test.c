/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/group/members.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <string.h>

static const char *const all[] = {"a", "c"};

TEST(who_is_in_an_answer_is_a_member_at_once) {
    struct members members = {.count = 0};
    CHECK(members_update(&members, "b", all, 2, 1000, 20000));
    CHECK_INT(members.count, ==, 3);
    CHECK_STR(members.items[0].name, "a");
    CHECK_STR(members.items[1].name, "b");
    CHECK_STR(members.items[2].name, "c");
    CHECK(!members_update(&members, "b", all, 2, 8000, 20000));
}

TEST(who_is_missing_for_a_whole_lease_has_left) {
    struct members members = {.count = 0};
    CHECK(members_update(&members, "b", all, 2, 1000, 20000));
    CHECK(!members_update(&members, "b", all, 1, 2000, 20000));
    CHECK(!members_update(&members, "b", all, 1, 21999, 20000));
    CHECK(members_update(&members, "b", all, 1, 22000, 20000));
    CHECK_INT(members.count, ==, 2);
    CHECK(members_update(&members, "b", all, 2, 23000, 20000)); /* is back */
}

TEST(one_answer_without_a_member_means_nothing) {
    struct members members = {.count = 0};
    CHECK(members_update(&members, "b", all, 2, 1000, 20000));
    for (int64_t now_ms = 2000; now_ms < 200000; now_ms += 19000) {
        CHECK(!members_update(&members, "b", NULL, 0, now_ms, 20000));
        CHECK(!members_update(&members, "b", all, 2, now_ms + 1000, 20000));
    }
}

TEST(too_many_and_too_long_names_are_left_out) {
    struct members members = {.count = 0};
    char names[MEMBERS_MAX + 5][16], longest[MEMBERS_MAX_NAME + 2];
    const char *list[MEMBERS_MAX + 5];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    for (int i = 0; i < MEMBERS_MAX + 5; i++) {
        snprintf(names[i], sizeof names[i], "m%d", i);
        list[i] = i ? names[i] : longest;
    }
    CHECK(members_update(&members, "own", list, MEMBERS_MAX + 5, 1, 1));
    CHECK_INT(members.count, ==, MEMBERS_MAX);
    for (size_t i = 0; i < members.count; i++)
        CHECK(strcmp(members.items[i].name, longest) != 0);
}
