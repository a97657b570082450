/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/group/rendezvous.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <string.h>

#define HOSTS 20000

static const char *const members[] = {"a", "b", "collect-3.example", "d", "e"};

static const char *host(int number) {
    static char name[32];
    snprintf(name, sizeof name, "10.0.%d.%d:20182", number / 250, number % 250);
    return name;
}

/* Each of 5 has 4,000 of 20,000 on average, with a standard deviation of 57. */
TEST(each_member_has_an_equal_part) {
    int counts[5] = {0};
    for (int i = 0; i < HOSTS; i++)
        counts[rendezvous_choose(members, 5, host(i))]++;
    for (int i = 0; i < 5; i++)
        CHECK(counts[i] > 3700 && counts[i] < 4300);
}

TEST(the_order_of_the_members_does_not_matter) {
    const char *const turned[] = {"e", "d", "collect-3.example", "b", "a"};
    for (int i = 0; i < HOSTS; i++)
        CHECK_STR(members[rendezvous_choose(members, 5, host(i))],
                  turned[rendezvous_choose(turned, 5, host(i))]);
}

TEST(a_member_that_leaves_gives_up_its_own_hosts_only) {
    const char *const left[] = {"a", "b", "d", "e"};
    int moved = 0;
    for (int i = 0; i < HOSTS; i++) {
        const char *before = members[rendezvous_choose(members, 5, host(i))];
        const char *after = left[rendezvous_choose(left, 4, host(i))];
        if (strcmp(before, "collect-3.example") != 0)
            CHECK_STR(before, after);
        moved += strcmp(before, after) != 0;
    }
    CHECK(moved > 3700 && moved < 4300);
}

TEST(one_member_has_everything) {
    for (int i = 0; i < 100; i++)
        CHECK_INT(rendezvous_choose(members, 1, host(i)), ==, 0);
}
