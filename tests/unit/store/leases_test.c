/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/leases.h"

#include "tests/unit/check.h"

#include <stdio.h>

static struct sonde_arena arena;
static struct store_lease *live;
static size_t count;

static sonde_err renew(struct leases *leases, const char *group, const char *holder,
                       uint32_t duration_s, int64_t now_ms) {
    const struct store_lease_request wanted = {group, holder, duration_s, NULL};
    return leases_renew(leases, &wanted, now_ms, &arena, &live, &count, NULL);
}

TEST(a_lease_lives_until_its_time_is_over_or_it_is_given_up) {
    struct leases *leases = leases_create();
    CHECK_INT(renew(leases, "g", "b", 10, 0), ==, SONDE_OK);
    CHECK_INT(renew(leases, "g", "a", 20, 1000), ==, SONDE_OK);
    CHECK_INT(count, ==, 2);
    CHECK_STR(live[0].holder, "a");
    CHECK_INT(live[0].left_s, ==, 20);
    CHECK_INT(live[1].left_s, ==, 9);
    CHECK_INT(renew(leases, "other", "a", 10, 1000), ==, SONDE_OK);
    CHECK_INT(count, ==, 1);
    CHECK_INT(renew(leases, "g", "c", 0, 9999), ==, SONDE_OK); /* only asks */
    CHECK_INT(count, ==, 2);
    CHECK_INT(live[1].left_s, ==, 1);
    CHECK_INT(renew(leases, "g", "c", 0, 10000), ==, SONDE_OK);
    CHECK_INT(count, ==, 1);
    CHECK_INT(renew(leases, "g", "a", 0, 10000), ==, SONDE_OK);
    CHECK_INT(count, ==, 0);
    sonde_arena_finish(&arena);
    leases_destroy(leases);
}

TEST(a_full_group_takes_nobody_else_but_renews) {
    struct leases *leases = leases_create();
    char name[16];
    for (int i = 0; i < STORE_MAX_HOLDERS; i++) {
        snprintf(name, sizeof name, "h%d", i);
        CHECK_INT(renew(leases, "g", name, 10, 0), ==, SONDE_OK);
    }
    CHECK_INT(renew(leases, "g", "more", 10, 0), ==, SONDE_TOO_MANY_CAPTURES);
    CHECK_INT(renew(leases, "g", "h7", 10, 5000), ==, SONDE_OK);
    CHECK_INT(count, ==, STORE_MAX_HOLDERS);
    CHECK_INT(renew(leases, "g", "more", 10, 10000), ==, SONDE_OK);
    CHECK_INT(count, ==, 2);
    sonde_arena_finish(&arena);
    leases_destroy(leases);
}

TEST(all_groups_together_are_bounded) {
    struct leases *leases = leases_create();
    char group[16];
    for (int i = 0; i < LEASES_MAX; i++) {
        snprintf(group, sizeof group, "g%d", i);
        CHECK_INT(renew(leases, group, "h", 10, 0), ==, SONDE_OK);
    }
    CHECK_INT(renew(leases, "more", "h", 10, 0), ==, SONDE_TOO_MANY_CAPTURES);
    CHECK_INT(renew(leases, "more", "h", 10, 10000), ==, SONDE_OK);
    sonde_arena_finish(&arena);
    leases_destroy(leases);
}
