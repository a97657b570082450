/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/report/address_space.h"
#include "tests/unit/check.h"

#include <stdlib.h>

static struct symbol_mapping mapping_at(uint64_t start, uint64_t end, const char *path) {
    return (struct symbol_mapping){.start = start, .end = end, .inode = 1, .path = path};
}

static struct generation *add(struct space *space, uint64_t number, bool last,
                              const struct symbol_mapping *mappings, size_t count) {
    struct space_part part = {
        .generation = number, .last = last, .mappings = mappings, .count = count};
    struct generation *complete;
    CHECK_INT(space_add_part(space, &part, &complete), ==, SONDE_OK);
    return complete;
}

TEST(a_pc_is_found_in_its_mapping_and_at_no_edge_outside) {
    struct space space = {0};
    const struct symbol_mapping all[] = {mapping_at(0x3000, 0x4000, "b"),
                                         mapping_at(0x1000, 0x2000, "a")};
    CHECK(add(&space, 1, true, all, 2) != NULL);
    CHECK(space_find(&space, 1, 0xfff) == NULL);
    CHECK_STR(space_find(&space, 1, 0x1000)->path, "a");
    CHECK_STR(space_find(&space, 1, 0x1fff)->path, "a");
    CHECK(space_find(&space, 1, 0x2000) == NULL);
    CHECK_STR(space_find(&space, 1, 0x3000)->path, "b");
    CHECK(space_find(&space, 1, UINT64_MAX) == NULL);
    CHECK(space_find(&space, 2, 0x1000) == NULL);
    space_finish(&space);
}

TEST(a_mapping_has_the_same_path_after_its_file_was_replaced) {
    struct symbol_mapping from = mapping_at(0x1000, 0x2000, "/opt/my prog (deleted)");
    struct mapping *mapping = mapping_create(&from);
    CHECK_STR(mapping->path, "/opt/my prog");
    CHECK_STR(mapping_shown_path(mapping), "/opt/my prog");
    from = mapping_as_symbol(mapping);
    CHECK(from.is_deleted);
    struct mapping *copy = mapping_create(&from);
    CHECK(copy->is_deleted && mapping_is_same(mapping, copy));
    mapping_release(copy);
    mapping_release(mapping);
    from = mapping_at(0x1000, 0x2000, "/opt/my prog");
    mapping = mapping_create(&from);
    CHECK(!mapping->is_deleted);
    mapping_release(mapping);
}

TEST(parts_make_a_generation_and_another_number_drops_half_of_one) {
    struct space space = {0};
    const struct symbol_mapping a = mapping_at(0x1000, 0x2000, "a"),
                                b = mapping_at(0x3000, 0x4000, "b");
    CHECK(add(&space, 1, false, &a, 1) == NULL);
    CHECK(space_find(&space, 1, 0x1000) == NULL);
    CHECK(add(&space, 2, false, &b, 1) == NULL);
    struct generation *complete = add(&space, 2, true, NULL, 0);
    CHECK_INT(complete->count, ==, 1);
    CHECK(space_find(&space, 1, 0x1000) == NULL);
    CHECK_STR(space_find(&space, 2, 0x3000)->path, "b");
    space_finish(&space);
}

/* dlclose, then another library at the same place: samples of the old generation keep the old file.
 */
TEST(an_address_used_again_is_resolved_by_generation) {
    struct space space = {0};
    const struct symbol_mapping before[] = {mapping_at(0x1000, 0x2000, "a"),
                                            mapping_at(0x5000, 0x6000, "old")};
    const struct symbol_mapping after[] = {mapping_at(0x1000, 0x2000, "a"),
                                           mapping_at(0x5000, 0x6000, "new")};
    add(&space, 1, true, before, 2);
    add(&space, 2, true, after, 2);
    CHECK_STR(space_find(&space, 1, 0x5800)->path, "old");
    CHECK_STR(space_find(&space, 2, 0x5800)->path, "new");
    CHECK(space_find(&space, 1, 0x1000) == space_find(&space, 2, 0x1000));
    CHECK_STR(space_find(&space, 1, 0x5800)->path, "old");
    space_finish(&space);
}

/* A guest that starts its count again: the cache must not return the mapping of the earlier one. */
TEST(a_generation_number_used_again_means_the_newer_mappings) {
    struct space space = {0};
    const struct symbol_mapping before = mapping_at(0x1000, 0x2000, "old"),
                                after = mapping_at(0x1000, 0x2000, "new");
    add(&space, 1, true, &before, 1);
    CHECK_STR(space_find(&space, 1, 0x1800)->path, "old");
    add(&space, 1, true, &after, 1);
    CHECK_STR(space_find(&space, 1, 0x1800)->path, "new");
    space_finish(&space);
}

TEST(only_the_newest_generations_are_kept) {
    struct space space = {0};
    const struct symbol_mapping a = mapping_at(0x1000, 0x2000, "a");
    for (uint64_t number = 1; number <= SPACE_GENERATIONS + 10; number++)
        add(&space, number, true, &a, 1);
    CHECK(space_find(&space, 10, 0x1000) == NULL);
    CHECK(space_find(&space, 11, 0x1000) != NULL);
    CHECK(space_find(&space, SPACE_GENERATIONS + 10, 0x1000) != NULL);
    space_finish(&space);
}

TEST(overlaps_and_empty_mappings_of_a_hostile_guest_are_left_out) {
    struct space space = {0};
    const struct symbol_mapping all[] = {
        mapping_at(0x1000, 0x3000, "a"), mapping_at(0x2000, 0x4000, "b"),
        mapping_at(0x5000, 0x5000, "c"), mapping_at(0x9000, 0x8000, "d"),
        mapping_at(0, UINT64_MAX, "e"),
    };
    struct generation *generation = add(&space, 1, true, all, 5);
    CHECK_INT(generation->count, ==, 1);
    CHECK_STR(generation->mappings[0]->path, "e");
    for (uint64_t i = 0; i < 600; i++) {
        struct symbol_mapping many[16];
        for (uint64_t k = 0; k < 16; k++)
            many[k] = mapping_at((i * 16 + k) * 0x1000, (i * 16 + k + 1) * 0x1000, "x");
        generation = add(&space, 2, i == 599, many, 16);
    }
    CHECK_INT(generation->count, ==, SPACE_MAX_MAPPINGS);
    CHECK_INT(generation->ignored, ==, 600 * 16 - SPACE_MAX_MAPPINGS);
    space_finish(&space);
}

/* Adds a generation whose mappings are at addresses of its own. */
static struct generation *add_fresh(struct space *space, uint64_t number, uint32_t count) {
    struct generation *generation = NULL;
    for (uint32_t i = 0; i < count; i += 16) {
        struct symbol_mapping some[16];
        for (uint32_t k = 0; k < 16; k++) {
            uint64_t start = number << 32 | (uint64_t)(i + k) << 12;
            some[k] = mapping_at(start, start + 0x1000, "x");
        }
        generation = add(space, number, i + 16 >= count, some, 16);
    }
    return generation;
}

TEST(mappings_that_change_all_the_time_push_out_old_generations_early) {
    struct space space = {0};
    for (uint64_t number = 1; number <= 3; number++)
        CHECK_INT(add_fresh(&space, number, SPACE_MAX_MAPPINGS)->count, ==, SPACE_MAX_MAPPINGS);
    CHECK(!space_knows(&space, 1));
    CHECK(space_knows(&space, 2));
    CHECK(space_knows(&space, 3));
    CHECK(space_find(&space, 1, 1ull << 32) == NULL);
    CHECK(space_find(&space, 2, 2ull << 32) != NULL);
    space_finish(&space);
}

TEST(generations_with_the_same_mappings_are_all_kept) {
    struct space space = {0};
    struct symbol_mapping many[4096];
    for (uint64_t i = 0; i < 4096; i++)
        many[i] = mapping_at(i << 12, (i + 1) << 12, "x");
    for (uint64_t number = 1; number <= SPACE_GENERATIONS; number++)
        add(&space, number, true, many, 4096);
    CHECK(space_knows(&space, 1));
    space_finish(&space);
}

TEST(the_next_mapping_is_the_first_above_an_address_and_begins_again) {
    struct space space = {0};
    const struct symbol_mapping all[] = {mapping_at(0x1000, 0x2000, "a"),
                                         mapping_at(0x3000, 0x4000, "b")};
    struct generation *generation = add(&space, 1, true, all, 2);
    CHECK_STR(generation_next(generation, 0)->path, "a");
    CHECK_STR(generation_next(generation, 0x1000)->path, "b");
    CHECK_STR(generation_next(generation, 0x3000)->path, "a");
    generation = add(&space, 2, true, NULL, 0);
    CHECK(generation_next(generation, 0) == NULL);
    space_finish(&space);
}
