/* SPDX-License-Identifier: Apache-2.0 */
#include "service/recording/known.h"

#include "tests/unit/check.h"

TEST(an_id_is_sent_once_and_again_with_a_higher_version) {
    struct known known;
    known_init(&known, 100);
    CHECK(known_add(&known, 7, 1));
    CHECK(!known_add(&known, 7, 1));
    CHECK(!known_add(&known, 7, 0));
    CHECK(known_add(&known, 7, 2));
    CHECK(!known_add(&known, 7, 1));
    CHECK(known_add(&known, 0, 0));
    CHECK(!known_add(&known, 0, 0));
    known_finish(&known);
}

TEST(a_full_set_forgets_and_stays_bounded) {
    struct known known;
    known_init(&known, 5000);
    for (uint64_t id = 1; id <= 5000; id++)
        CHECK(known_add(&known, id, 1));
    CHECK_INT(known.count, ==, 5000);
    CHECK(!known_add(&known, 1, 1));
    CHECK(known_add(&known, 5001, 1));
    CHECK_INT(known.count, ==, 1);
    CHECK(known_add(&known, 1, 1));
    known_finish(&known);
}

TEST(after_a_clear_everything_is_sent_again) {
    struct known known;
    known_init(&known, 100);
    CHECK(known_add(&known, 7, 1));
    known_clear(&known);
    CHECK(known_add(&known, 7, 1));
    known_finish(&known);
}
