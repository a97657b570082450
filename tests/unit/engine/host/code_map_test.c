/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/host/stream/code_map.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <stdlib.h>

static void add(struct code_map **map, uint64_t start, uint64_t end, const char *path) {
    struct host_mmap from = {
        .start = start, .end = end, .offset = start - 0x1000, .inode = 7, .path = path};
    struct mapping *mapping = code_map_mapping(&from);
    CHECK(mapping);
    CHECK(code_map_add(map, mapping));
    mapping_release(mapping);
}

static void check_range(const struct code_map *map, uint32_t i, uint64_t start, uint64_t end,
                        const char *path) {
    CHECK_INT(i, <, map->generation->count);
    const struct mapping *mapping = map->generation->mappings[i];
    CHECK_INT(mapping->start, ==, start);
    CHECK_INT(mapping->end, ==, end);
    CHECK_INT(mapping->offset, ==, start - 0x1000);
    CHECK_STR(mapping->path, path);
}

TEST(a_file_with_the_inode_number_of_a_deleted_one_has_a_mapping_of_its_own) {
    struct host_mmap from = {
        .start = 0x1000, .end = 0x2000, .inode = 7, .inode_generation = 1, .path = "query.so"};
    struct code_map *map = code_map_create();
    const struct mapping *seen[4];
    static const uint64_t generations[4] = {1, 1, 2, 0};
    for (int i = 0; i < 4; i++) {
        from.inode_generation = generations[i];
        struct mapping *mapping = code_map_mapping(&from);
        CHECK(mapping && code_map_add(&map, mapping));
        mapping_release(mapping);
        CHECK_INT(map->generation->count, ==, 1);
        seen[i] = map->generation->mappings[0];
    }
    CHECK(seen[0] == seen[1]);
    CHECK_INT(seen[2]->inode_generation, ==, 2);
    CHECK(seen[3] == seen[2]); /* not known, as in /proc/PID/maps */
    code_map_release(map);
}

TEST(mappings_are_sorted_and_a_new_one_replaces_what_it_overlaps) {
    struct code_map *map = code_map_create();
    add(&map, 0x5000, 0x6000, "c");
    add(&map, 0x1000, 0x2000, "a");
    add(&map, 0x3000, 0x4000, "b");
    add(&map, 0x1800, 0x3800, "new");
    CHECK_INT(map->generation->count, ==, 4);
    check_range(map, 0, 0x1000, 0x1800, "a");
    check_range(map, 1, 0x1800, 0x3800, "new");
    check_range(map, 2, 0x3800, 0x4000, "b");
    check_range(map, 3, 0x5000, 0x6000, "c");
    add(&map, 0x1000, 0x7000, "all");
    CHECK_INT(map->generation->count, ==, 1);
    code_map_release(map);
}

TEST(a_mapping_inside_another_one_divides_it) {
    struct code_map *map = code_map_create();
    add(&map, 0x1000, 0x9000, "big");
    add(&map, 0x4000, 0x5000, "small");
    CHECK_INT(map->generation->count, ==, 3);
    check_range(map, 0, 0x1000, 0x4000, "big");
    check_range(map, 1, 0x4000, 0x5000, "small");
    check_range(map, 2, 0x5000, 0x9000, "big");
    code_map_release(map);
}

TEST(an_equal_mapping_changes_nothing) {
    struct code_map *map = code_map_create();
    add(&map, 0x1000, 0x2000, "a");
    uint64_t serial = map->serial;
    const struct mapping *mapping = map->generation->mappings[0];
    add(&map, 0x1000, 0x2000, "a");
    CHECK_INT(map->serial, ==, serial);
    CHECK(map->generation->mappings[0] == mapping);
    code_map_release(map);
}

TEST(a_shared_map_is_copied_before_it_changes) {
    struct code_map *parent = code_map_create();
    add(&parent, 0x1000, 0x2000, "a");
    struct code_map *child = code_map_retain(parent);
    add(&child, 0x3000, 0x4000, "b");
    CHECK(child != parent);
    CHECK_INT(child->serial, !=, parent->serial);
    CHECK_INT(parent->generation->count, ==, 1);
    CHECK_INT(child->generation->count, ==, 2);
    CHECK(child->generation->mappings[0] == parent->generation->mappings[0]);
    code_map_release(parent);
    code_map_release(child);
}

TEST(memory_without_a_file_has_no_offset) {
    struct host_mmap from = {
        .start = 0x7f0000001000, .end = 0x7f0000003000, .offset = 0x7f0000001000, .path = "//anon"};
    struct mapping *mapping = code_map_mapping(&from);
    CHECK_INT(mapping->offset, ==, 0);
    CHECK_STR(mapping->path, "");
    mapping_release(mapping);
}

TEST(addresses_of_the_kernel_are_no_code_of_a_process) {
    struct host_mmap vsyscall = {
        .start = 0xffffffffff600000, .end = 0xffffffffff601000, .path = "[vsyscall]"};
    struct host_mmap empty = {.start = 0x1000, .end = 0x1000, .path = "x"};
    CHECK(!code_map_mapping(&vsyscall));
    CHECK(!code_map_mapping(&empty));
}

TEST(mappings_beyond_the_limit_are_ignored_and_counted) {
    struct code_map *map = code_map_create();
    for (uint64_t i = 1; i <= SPACE_MAX_MAPPINGS + 5; i++)
        add(&map, i << 16, (i << 16) + 0x1000, "x");
    CHECK_INT(map->generation->count, <=, SPACE_MAX_MAPPINGS);
    CHECK_INT(map->generation->count + map->generation->ignored, ==, SPACE_MAX_MAPPINGS + 5);
    code_map_release(map);
}

TEST(maps_that_are_read_again_keep_the_mappings_that_have_not_changed) {
    struct generation *first = code_map_read(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    CHECK(first);
    struct code_map *old = code_map_from(first, NULL);
    struct code_map *map =
        code_map_from(code_map_read(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)), old);
    struct mapping *here = generation_find(map->generation, (uint64_t)(uintptr_t)&code_map_read);
    CHECK(here);
    CHECK(here == generation_find(old->generation, (uint64_t)(uintptr_t)&code_map_read));
    CHECK_INT(map->serial, !=, old->serial);
    code_map_release(old);
    code_map_release(map);
}
