/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/record/heap_delta.h"

#include "tests/unit/check.h"

#include <string.h>

#define S 1000000000ll

static const struct sonde_value_type types[] = {{"alloc_objects", "count"},
                                                {"alloc_space", "bytes"},
                                                {"inuse_objects", "count"},
                                                {"inuse_space", "bytes"}};
static _Atomic uint32_t room = 2 * HEAP_DELTA_STACKS;
static struct heap_delta delta = {.room = &room};

static void add(struct sonde_profile *profile, uint64_t address, int64_t alloc, int64_t inuse) {
    struct sonde_location location = {.address = address};
    uint32_t id;
    CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
    int64_t values[] = {alloc / 10, alloc, inuse / 10, inuse};
    struct sonde_sample sample = {.locations = &id, .location_count = 1, .values = values};
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
}

/* What the date is ahead of the monotonic clock. */
static int64_t date_ns;

/* Stack a has allocated so much, of which inuse is left; b has allocated so much. */
static struct sonde_profile *snapshot(int64_t a, int64_t b, int64_t inuse) {
    struct sonde_profile *profile = sonde_profile_create(types, 4, 0);
    add(profile, 0x400010, a, inuse);
    add(profile, 0x400020, b, 0);
    return profile;
}

static struct sonde_profile *allocated(struct sonde_profile *profile, uint64_t epoch, int64_t at_s,
                                       int64_t *since_ns) {
    struct sonde_profile *made;
    CHECK_INT(
        heap_delta_allocated(&delta, profile, epoch, at_s * S + date_ns, at_s * S, since_ns, &made),
        ==, SONDE_OK);
    sonde_profile_destroy(profile);
    return made;
}

/* Bytes since the last snapshot; -1 = there was none. */
static int64_t bytes(struct sonde_profile *profile, uint64_t epoch, int64_t at_s) {
    int64_t since_ns, total;
    struct sonde_profile *made = allocated(profile, epoch, at_s, &since_ns);
    if (!made)
        return -1;
    total = sonde_profile_total(made, 1);
    sonde_profile_destroy(made);
    return total;
}

TEST(what_is_live_has_its_own_types_and_the_time_of_the_snapshot) {
    struct sonde_profile *profile = snapshot(1000, 500, 300), *live;
    CHECK_INT(heap_delta_live(profile, 60 * S, &live), ==, SONDE_OK);
    CHECK_INT(sonde_profile_type_count(live), ==, 2);
    CHECK_STR(sonde_profile_type(live, 1).type, "inuse_space");
    CHECK_INT(sonde_profile_info(live)->default_type, ==, 1);
    CHECK_INT(sonde_profile_info(live)->time_unix_ns, ==, 60 * S);
    CHECK_INT(sonde_profile_sample_count(live), ==, 1);
    CHECK_INT(sonde_profile_total(live, 0), ==, 30);
    CHECK_INT(sonde_profile_total(live, 1), ==, 300);
    sonde_profile_destroy(live);
    sonde_profile_destroy(profile);
}

TEST(allocations_are_what_was_added_since_the_last_snapshot_of_the_epoch) {
    int64_t since_ns;
    CHECK(!allocated(snapshot(1000, 500, 300), 1, 60, &since_ns)); /* nothing to compare with */
    struct sonde_profile *made = allocated(snapshot(1700, 500, 200), 1, 120, &since_ns);
    CHECK_INT(since_ns, ==, 60 * S);
    CHECK_STR(sonde_profile_type(made, 1).type, "alloc_space");
    CHECK_INT(sonde_profile_sample_count(made), ==, 1); /* b has allocated nothing */
    CHECK_INT(sonde_profile_total(made, 0), ==, 70);
    CHECK_INT(sonde_profile_total(made, 1), ==, 700);
    CHECK_INT(sonde_profile_info(made)->time_unix_ns, ==, 60 * S);
    CHECK_INT(sonde_profile_info(made)->duration_ns, ==, 60 * S);
    sonde_profile_destroy(made);
    CHECK_INT(bytes(snapshot(1700, 500, 0), 1, 180), ==, 0);
    CHECK_INT(bytes(snapshot(100, 0, 100), 2, 240), ==, -1); /* profiling was reset */
    CHECK_INT(bytes(snapshot(90, 5, 100), 2, 300), ==, 5);   /* an estimate may shrink */
    heap_delta_finish(&delta);
}

TEST(a_new_stack_counts_in_full) {
    CHECK_INT(bytes(snapshot(100, 100, 0), 1, 60), ==, -1);
    struct sonde_profile *later = snapshot(100, 100, 0);
    add(later, 0x400030, 70, 0);
    CHECK_INT(bytes(later, 1, 120), ==, 70);
    heap_delta_finish(&delta);
}

TEST(stacks_of_frames_without_addresses_are_told_apart_by_name) {
    for (int round = 0; round < 2; round++) {
        struct sonde_profile *profile = sonde_profile_create(types, 4, 0);
        static const char *const names[] = {"[truncated]", "[jit]"};
        for (int i = 0; i < 2; i++) {
            struct sonde_function function = {0};
            struct sonde_line line = {0};
            uint32_t id;
            CHECK(!sonde_profile_string(profile, names[i], strlen(names[i]), &function.name));
            CHECK(!sonde_profile_add_function(profile, &function, &line.function));
            struct sonde_location location = {.lines = &line, .line_count = 1};
            CHECK(!sonde_profile_add_location(profile, &location, &id));
            int64_t values[] = {1, 100 + round * (i + 1), 0, 0};
            struct sonde_sample sample = {.locations = &id, .location_count = 1, .values = values};
            CHECK(!sonde_profile_add_sample(profile, &sample));
        }
        CHECK_INT(bytes(profile, 1, 60 * (round + 1)), ==, round ? 3 : -1);
    }
    heap_delta_finish(&delta);
}

TEST(a_date_that_is_set_leaves_the_time_between_snapshots_as_long_as_it_was) {
    int64_t since_ns;
    CHECK_INT(bytes(snapshot(100, 0, 0), 1, 60), ==, -1);
    date_ns = -3600 * S;
    struct sonde_profile *made = allocated(snapshot(200, 0, 0), 1, 120, &since_ns);
    CHECK_INT(since_ns, ==, 60 * S + date_ns);
    CHECK_INT(sonde_profile_info(made)->duration_ns, ==, 60 * S);
    sonde_profile_destroy(made);
    date_ns = 0;
    heap_delta_finish(&delta);
}

TEST(a_profile_of_time_has_no_heap) {
    static const struct sonde_value_type time[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    struct sonde_profile *profile = sonde_profile_create(time, 2, 0), *live;
    int64_t since_ns;
    CHECK_INT(heap_delta_live(profile, 0, &live), ==, SONDE_OK);
    CHECK(!live);
    CHECK(!allocated(profile, 1, 60, &since_ns));
}

TEST(a_heap_of_too_many_stacks_has_no_differences) {
    for (int round = 0; round < 2; round++) {
        struct sonde_profile *profile = sonde_profile_create(types, 4, 0);
        for (uint64_t i = 0; i <= HEAP_DELTA_STACKS; i++)
            add(profile, 0x400000 + i, 100, 100);
        CHECK_INT(bytes(profile, 1, 60 * (round + 1)), ==, -1);
        CHECK_INT(delta.sums.count, ==, 0);
    }
    heap_delta_finish(&delta);
}

TEST(without_room_there_are_no_differences_until_another_heap_gives_its_room_back) {
    struct heap_delta other = {.room = &room};
    struct sonde_profile *profile = snapshot(1, 1, 1), *made;
    int64_t since_ns;
    room = 3;
    CHECK_INT(heap_delta_allocated(&other, profile, 1, 60 * S, 60 * S, &since_ns, &made), ==,
              SONDE_OK);
    CHECK_INT(room, ==, 1);
    sonde_profile_destroy(profile);
    CHECK_INT(bytes(snapshot(100, 0, 0), 1, 60), ==, -1);
    CHECK_INT(bytes(snapshot(200, 0, 0), 1, 120), ==, -1);
    heap_delta_finish(&other);
    CHECK_INT(room, ==, 3);
    CHECK_INT(bytes(snapshot(300, 0, 0), 1, 180), ==, -1);
    CHECK_INT(bytes(snapshot(400, 0, 0), 1, 240), ==, 100);
    heap_delta_finish(&delta);
    CHECK_INT(room, ==, 3);
}
