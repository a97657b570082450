/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/report/mapping_lives.h"
#include "tests/unit/check.h"

#define SETTLED ALLOC_PLACE_SETTLED

/* A generation with libc and, unless inode is 0, a library at 0x5000. */
static void update(const struct mapping_lives **lives, uint64_t number, uint32_t closes,
                   uint64_t inode) {
    struct generation *generation = generation_create(number);
    struct symbol_mapping libc = {.start = 0x1000, .end = 0x2000, .inode = 1, .path = "/libc"};
    struct symbol_mapping plugin = {.start = 0x5000, .end = 0x6000, .inode = inode, .path = "/p"};
    CHECK_INT(generation_add(generation, &libc), ==, SONDE_OK);
    if (inode)
        CHECK_INT(generation_add(generation, &plugin), ==, SONDE_OK);
    generation_sort(generation, NULL);
    mapping_lives_update(lives, generation, closes, true);
    generation_destroy(generation);
}

/* The inode of the file; 0 = no file, -1 = unknown, -2 = newer. */
static int64_t file_at(const struct mapping_lives *lives, uint32_t generation, uint32_t closes,
                       uint64_t address) {
    const struct mapping_life *life = NULL;
    struct alloc_place place = {.generation = generation, .closes = closes};
    switch (mapping_lives_find(lives, &place, address, &life)) {
    case LIVES_FOUND:
        return (int64_t)life->mapping->inode;
    case LIVES_NO_FILE:
        return 0;
    case LIVES_UNKNOWN:
        return -1;
    default:
        return -2;
    }
}

TEST(h19_a_settled_stack_finds_what_was_mapped_in_its_generation) {
    const struct mapping_lives *lives = NULL;
    update(&lives, 1, 0, 0);
    update(&lives, 2, 0, 7);
    update(&lives, 3, 2, 0);
    update(&lives, 4, 2, 8);
    CHECK_INT(file_at(lives, 1, SETTLED, 0x5100), ==, 0);
    CHECK_INT(file_at(lives, 2, SETTLED, 0x5100), ==, 7);
    CHECK_INT(file_at(lives, 3, SETTLED, 0x5100), ==, 0);
    CHECK_INT(file_at(lives, 4, SETTLED, 0x5100), ==, 8);
    CHECK_INT(file_at(lives, 2, SETTLED, 0x1100), ==, 1);
    CHECK_INT(file_at(lives, 4, SETTLED, 0x6000), ==, 0);
    CHECK_INT(file_at(lives, 5, SETTLED, 0x5100), ==, 8); /* its message has not arrived */
    mapping_lives_release(lives);
}

TEST(h19_a_library_that_no_reading_saw_is_found_only_without_a_dlclose_in_between) {
    const struct mapping_lives *lives = NULL;
    update(&lives, 1, 0, 0);
    CHECK_INT(file_at(lives, 1, 0, 0x5100), ==, -2);
    update(&lives, 2, 0, 7);
    CHECK_INT(file_at(lives, 1, 0, 0x5100), ==, 7); /* loaded after the reading of 1 */
    update(&lives, 3, 4, 8);
    CHECK_INT(file_at(lives, 2, 2, 0x5100), ==, -1); /* 7 was closed, and perhaps another one */
    CHECK_INT(file_at(lives, 2, 4, 0x5100), ==, 8);
    CHECK_INT(file_at(lives, 2, 2, 0x1100), ==, 1); /* there before and after */
    mapping_lives_release(lives);
}

TEST(h19_without_a_time_only_the_only_file_is_found) {
    const struct mapping_lives *lives = NULL;
    update(&lives, 1, 0, 7);
    update(&lives, 2, 2, 0);
    CHECK_INT(file_at(lives, 0, 0, 0x5100), ==, 7);
    CHECK_INT(file_at(lives, 0, 0, 0x9000), ==, 0);
    update(&lives, 3, 2, 8);
    CHECK_INT(file_at(lives, 0, 0, 0x5100), ==, -1);
    mapping_lives_release(lives);
}

TEST(h19_what_was_forgotten_is_unknown) {
    const struct mapping_lives *lives = NULL;
    for (uint32_t i = 0; i < LIVES_MAX_GONE + 10; i++)
        update(&lives, i + 1, 2 * i, i + 10);
    CHECK_INT(lives->gone_count, ==, LIVES_MAX_GONE);
    CHECK_INT(file_at(lives, 1, SETTLED, 0x5100), ==, -1);
    CHECK_INT(file_at(lives, 9, SETTLED, 0x5100), ==, -1);
    CHECK_INT(file_at(lives, 10, SETTLED, 0x5100), ==, 19);
    CHECK_INT(file_at(lives, 1, SETTLED, 0x1100), ==, 1);
    mapping_lives_release(lives);
}

TEST(h19_a_service_that_started_later_knows_what_is_still_mapped) {
    const struct mapping_lives *lives = NULL;
    struct generation *generation = generation_create(9);
    struct symbol_mapping plugin = {.start = 0x5000, .end = 0x6000, .inode = 7, .path = "/p"};
    CHECK_INT(generation_add(generation, &plugin), ==, SONDE_OK);
    generation->mappings[0]->born = 5;
    mapping_lives_update(&lives, generation, 8, true);
    generation_destroy(generation);
    CHECK_INT(file_at(lives, 6, SETTLED, 0x5100), ==, 7);
    CHECK_INT(file_at(lives, 4, SETTLED, 0x5100), ==, -1);
    mapping_lives_release(lives);
}
