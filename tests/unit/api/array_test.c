/* SPDX-License-Identifier: Apache-2.0 */
#include "api/base/array.h"
#include "tests/unit/check.h"

#include <stdlib.h>
#include <string.h>

static bool is_out_of_memory;

/* Takes the place of libc's function, so that a test can make it fail under sanitizers also. */
void *reallocarray(void *block, size_t count, size_t size) {
    return is_out_of_memory ? NULL : realloc(block, count * size);
}

TEST(array_keeps_its_items_while_it_grows) {
    uint64_t *items = NULL;
    uint32_t capacity = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        CHECK(array_room(&items, &capacity, i, 1));
        items[i] = i;
    }
    for (uint32_t i = 0; i < 10000; i++)
        CHECK(items[i] == i);
    free(items);
}

TEST(array_at_least_doubles_and_only_when_it_is_full) {
    char *items = NULL;
    size_t capacity = 0;
    CHECK(array_room(&items, &capacity, 0, 1));
    size_t first = capacity;
    CHECK(array_room(&items, &capacity, 0, first));
    CHECK(capacity == first);
    CHECK(array_room(&items, &capacity, first, 1));
    CHECK(capacity == 2 * first);
    free(items);
}

TEST(array_grows_at_once_to_what_is_needed) {
    char *items = NULL;
    size_t capacity = 0;
    CHECK(array_room(&items, &capacity, 10, 100000));
    CHECK(capacity >= 100010);
    memset(items, 1, 100010);
    free(items);
}

TEST(array_of_a_size_known_at_run_time_grows_by_items) {
    char *items = NULL;
    size_t capacity = 0;
    CHECK(array_room_sized(&items, 24, &capacity, 0, 1000));
    memset(items, 1, 24000);
    free(items);
}

TEST(array_whose_count_would_overflow_is_unchanged) {
    uint64_t *items = NULL;
    size_t capacity = 0;
    CHECK(array_room(&items, &capacity, 0, 1));
    uint64_t *items_before = items;
    size_t before = capacity;
    CHECK(!array_room(&items, &capacity, SIZE_MAX, 1));
    CHECK(!array_room(&items, &capacity, 1, SIZE_MAX));
    CHECK(!array_room(&items, &capacity, 0, SIZE_MAX / sizeof *items + 1));
    CHECK(items == items_before && capacity == before);
    free(items);
}

TEST(array_with_a_32_bit_capacity_refuses_more) {
    char *items = NULL;
    uint32_t capacity = 0;
    CHECK(!array_room(&items, &capacity, UINT32_MAX, 1));
    CHECK(!items && capacity == 0);
}

TEST(array_without_memory_is_unchanged) {
    char *items = NULL;
    size_t capacity = 0;
    CHECK(array_room(&items, &capacity, 0, 1));
    char *items_before = items;
    size_t before = capacity;
    is_out_of_memory = true;
    CHECK(!array_room(&items, &capacity, before, 1));
    is_out_of_memory = false;
    CHECK(items == items_before && capacity == before);
    free(items);
}
