/* SPDX-License-Identifier: Apache-2.0 */
#include "service/process/memory_share.h"
#include "tests/unit/check.h"

#include <unistd.h>

/* Users that are neither root nor the one who runs the test. */
#define FIRST_USER 400000u

TEST(a_user_gets_at_most_a_share_and_leaves_the_rest_to_others) {
    struct memory_share first = {.uid = FIRST_USER}, again = {.uid = FIRST_USER};
    struct memory_share second = {.uid = FIRST_USER + 1};
    CHECK(memory_share_take(&first, MEMORY_USER - 10));
    CHECK(!memory_share_take(&again, 11));
    CHECK_INT(again.bytes, ==, 0);
    CHECK(memory_share_take(&again, 10));
    CHECK_INT(memory_share_used_by(FIRST_USER), ==, MEMORY_USER);
    CHECK(memory_share_take(&second, MEMORY_USER));
    memory_share_finish(&first);
    CHECK(memory_share_take(&again, MEMORY_USER - 10));
    memory_share_finish(&again);
    memory_share_finish(&second);
    CHECK_INT(memory_share_used(), ==, 0);
}

TEST(all_other_users_together_have_a_limit_and_each_keeps_a_little) {
    struct memory_share shares[MEMORY_OTHERS / MEMORY_USER];
    size_t count = sizeof shares / sizeof *shares;
    for (size_t i = 0; i < count; i++) {
        shares[i] = (struct memory_share){.uid = FIRST_USER + (uid_t)i};
        CHECK(memory_share_take(&shares[i], MEMORY_USER));
    }
    struct memory_share late = {.uid = FIRST_USER + 1000};
    CHECK(!memory_share_take(&late, MEMORY_LEAST + 1));
    CHECK(memory_share_take(&late, MEMORY_LEAST));
    CHECK(!memory_share_take(&late, 1));
    struct memory_share own = {.uid = getuid()}, root = {.uid = 0};
    CHECK(memory_share_take(&own, 100 << 20));
    CHECK(memory_share_take(&root, 100 << 20));
    memory_share_finish(&own);
    memory_share_finish(&root);
    memory_share_finish(&late);
    for (size_t i = 0; i < count; i++)
        memory_share_finish(&shares[i]);
    CHECK_INT(memory_share_used(), ==, 0);
}

TEST(sondeds_own_user_has_a_limit) {
    struct memory_share own = {.uid = getuid()};
    CHECK(memory_share_take(&own, MEMORY_OWN));
    CHECK(!memory_share_take(&own, 1));
    CHECK_INT(own.bytes, ==, MEMORY_OWN);
    memory_share_finish(&own);
}

/* With the table full and emptied in another order, every row is found again. */
TEST(the_table_of_users_is_bounded_and_keeps_its_rows_apart) {
    static struct memory_share shares[MEMORY_USERS];
    for (uint32_t i = 0; i < MEMORY_USERS; i++) {
        shares[i].uid = FIRST_USER + 7 * i;
        CHECK(memory_share_take(&shares[i], 1 + i));
    }
    struct memory_share late = {.uid = FIRST_USER + 1};
    CHECK(!memory_share_take(&late, 1));
    for (uint32_t step = 0; step < 5; step++) {
        for (uint32_t i = step; i < MEMORY_USERS; i += 5) {
            CHECK_INT(memory_share_used_by(shares[i].uid), ==, 1 + i);
            memory_share_finish(&shares[i]);
            CHECK_INT(memory_share_used_by(shares[i].uid), ==, 0);
        }
        CHECK(memory_share_take(&late, 1));
        memory_share_finish(&late);
    }
    CHECK_INT(memory_share_used(), ==, 0);
}
