/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/base/dictionary.h"

#include "tests/unit/check.h"

#include <stdio.h>

static uint32_t add(struct dictionary *intern, const char *text, bool expect_new) {
    bool is_new;
    uint32_t number = dictionary_add(intern, text, strlen(text), &is_new);
    CHECK_INT(is_new, ==, expect_new);
    return number;
}

TEST(intern_numbers_by_first_appearance) {
    struct dictionary intern;
    dictionary_init(&intern, 1 << 20);
    CHECK_INT(add(&intern, "a", true), ==, 0);
    CHECK_INT(add(&intern, "b", true), ==, 1);
    CHECK_INT(add(&intern, "a", false), ==, 0);
    CHECK_INT(add(&intern, "", true), ==, 2);
    CHECK_INT(add(&intern, "", false), ==, 2);
    dictionary_finish(&intern);
}

TEST(intern_finds_each_of_many_strings_again) {
    struct dictionary intern;
    dictionary_init(&intern, 64 << 20);
    char text[32];
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 20000; i++) {
            snprintf(text, sizeof text, "name %u", i);
            CHECK_INT(add(&intern, text, round == 0), ==, i);
        }
    }
    dictionary_finish(&intern);
}

TEST(intern_beyond_its_limit_adds_nothing_and_still_finds) {
    struct dictionary intern;
    dictionary_init(&intern, 4096);
    char text[32];
    bool is_new;
    uint32_t added = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        snprintf(text, sizeof text, "name %u", i);
        added += dictionary_add(&intern, text, strlen(text), &is_new) != DICTIONARY_NONE;
    }
    CHECK_INT(added, >, 10);
    CHECK_INT(added, <, 300);
    CHECK_INT(add(&intern, "name 3", false), ==, 3);
    dictionary_finish(&intern);
}
