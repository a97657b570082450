/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/timeline.h"

#include "api/gzip.h"
#include "tests/unit/check.h"

#include <stdlib.h>
#include <string.h>

/* Two samples of 3 and 2 counts, 10 ns each, in a capture of 100 ms. */
static struct sonde_profile *make(void) {
    const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct sonde_location location = {.address = 16 + i};
        uint32_t id, index;
        const int64_t values[] = {3 - i, 10 * (3 - i)};
        CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
        struct sonde_sample sample = {.locations = &id, .location_count = 1, .values = values};
        CHECK_INT(sonde_profile_add_sample_at(profile, &sample, &index), ==, SONDE_OK);
        CHECK_INT(index, ==, i);
    }
    sonde_profile_set_info(profile, &(struct sonde_profile_info){.time_unix_ns = 5000000000,
                                                                 .duration_ns = 100000000,
                                                                 .default_type = 1});
    return profile;
}

static struct sonde_timeline *timeline_of(const struct sonde_timeline_entry *entries,
                                          size_t count) {
    struct sonde_timeline *timeline = calloc(1, sizeof *timeline);
    timeline->entries = malloc(count * sizeof *entries + 1);
    memcpy(timeline->entries, entries, count * sizeof *entries);
    timeline->count = count;
    return timeline;
}

/* Sample 0 in bins 0, 0, 4; sample 1 in bins 3, 4; unsorted. */
static const struct sonde_timeline_entry unsorted[] = {
    {1, 4, 1}, {0, 0, 1}, {0, 4, 1}, {1, 3, 1}, {0, 0, 1}};

static struct sonde_profile *with_timeline(void) {
    struct sonde_profile *profile = make();
    struct sonde_timeline *timeline = timeline_of(unsorted, 5);
    sonde_timeline_sort(timeline);
    sonde_profile_set_timeline(profile, timeline);
    return profile;
}

TEST(sorting_joins_equal_entries) {
    struct sonde_profile *profile = with_timeline();
    const struct sonde_timeline *timeline = sonde_profile_timeline(profile);
    CHECK_INT(timeline->count, ==, 4);
    CHECK_INT(timeline->entries[0].count, ==, 2);
    CHECK_INT(timeline->entries[3].bin, ==, 4);
    sonde_profile_destroy(profile);
}

TEST(the_sums_of_the_bins_equal_the_total) {
    struct sonde_profile *profile = with_timeline();
    int64_t values[5] = {0}, wide[2] = {0}, late[1] = {0};
    sonde_timeline_sum(profile, 1, 20, (struct sonde_timeline_range){0, 0}, values, 5);
    static const int64_t expected[] = {20, 0, 0, 10, 20};
    CHECK(memcmp(values, expected, sizeof values) == 0);
    sonde_timeline_sum(profile, 1, 60, (struct sonde_timeline_range){0, 0}, wide, 2);
    CHECK_INT(wide[0], ==, 20);
    CHECK_INT(wide[0] + wide[1], ==, sonde_profile_total(profile, 1));
    sonde_timeline_sum(profile, 1, 20, (struct sonde_timeline_range){60, 70}, late, 1);
    CHECK_INT(late[0], ==, 10);
    sonde_profile_destroy(profile);
}

TEST(cutting_keeps_what_is_in_the_range) {
    struct sonde_profile *profile = with_timeline(), *first, *second;
    CHECK_INT(sonde_timeline_cut(profile, (struct sonde_timeline_range){0, 41}, &first, NULL), ==,
              SONDE_OK);
    CHECK_INT(sonde_timeline_cut(profile, (struct sonde_timeline_range){79, 0}, &second, NULL), ==,
              SONDE_OK);
    CHECK_INT(sonde_profile_sample_count(first), ==, 1);
    CHECK_INT(sonde_profile_total(first, 0), ==, 2);
    CHECK_INT(sonde_profile_total(first, 1), ==, 20);
    CHECK_INT(sonde_profile_info(first)->duration_ns, ==, 60000000);
    CHECK_INT(sonde_profile_sample_count(second), ==, 2);
    CHECK_INT(sonde_profile_total(second, 1), ==, 30);
    CHECK_INT(sonde_profile_info(second)->time_unix_ns, ==, 5060000000);
    CHECK_INT(sonde_profile_info(second)->duration_ns, ==, 40000000);
    CHECK_STR(sonde_profile_comment(second, 0), "range: 0.06 s to 0.10 s of 0.10 s");
    sonde_profile_destroy(first);
    sonde_profile_destroy(second);
    sonde_profile_destroy(profile);
}

TEST(ranges_that_are_empty_or_too_late_are_refused) {
    static const struct sonde_timeline_range ranges[] = {{50, 50}, {60, 40}, {100, 0}, {200, 300}};
    struct sonde_profile *profile = with_timeline(), *cut;
    for (size_t i = 0; i < 4; i++) {
        struct sonde_diag diag = {0};
        CHECK_INT(sonde_timeline_cut(profile, ranges[i], &cut, &diag), ==, SONDE_INVALID_ARGUMENT);
        CHECK(cut == NULL);
        CHECK_STR(diag.text, "a range must begin before it ends and before the end of the capture "
                             "(0.10 s)");
    }
    sonde_profile_destroy(profile);
}

TEST(a_file_is_read_back_unchanged) {
    struct sonde_profile *profile = with_timeline();
    const struct sonde_timeline *timeline = sonde_profile_timeline(profile);
    struct sonde_timeline *copy;
    struct sonde_buf file = {0};
    CHECK_INT(sonde_timeline_write(timeline, &file), ==, SONDE_OK);
    CHECK_INT(sonde_timeline_read(sonde_buf_slice(&file), profile, &copy, NULL), ==, SONDE_OK);
    CHECK_INT(copy->count, ==, timeline->count);
    CHECK(memcmp(copy->entries, timeline->entries, copy->count * sizeof *copy->entries) == 0);
    sonde_timeline_destroy(copy);
    sonde_buf_finish(&file);
    sonde_profile_destroy(profile);
}

static sonde_err read_raw(const struct sonde_profile *profile, const char *bytes, size_t len) {
    struct sonde_buf file = {0};
    struct sonde_timeline *timeline;
    struct sonde_gzip_writer *writer = sonde_gzip_writer_create(1, &file);
    sonde_gzip_writer_add(writer, (struct sonde_slice){bytes, len});
    CHECK_INT(sonde_gzip_writer_end(writer), ==, SONDE_OK);
    sonde_gzip_writer_destroy(writer);
    sonde_err err = sonde_timeline_read(sonde_buf_slice(&file), profile, &timeline, NULL);
    sonde_timeline_destroy(timeline);
    sonde_buf_finish(&file);
    return err;
}

/* Each is one change of a good file. */
TEST(damaged_files_are_refused) {
    static const char good[] = "\xc2\x3e\x0e\1\0\0\0\2\0\4\1\1\3\1\0\1\1";
    static const struct {
        size_t at;
        char byte;
    } damages[] = {{0, 'x'}, {2, 13}, {2, 15}, {3, 2},  {7, 0},  {7, 3}, {9, 0},
                   {11, 2},  {13, 0}, {13, 2}, {15, 0}, {16, 2}, {4, 1}};
    struct sonde_profile *profile = make();
    CHECK_INT(read_raw(profile, good, 17), ==, SONDE_OK);
    CHECK_INT(read_raw(profile, good, 16), ==, SONDE_CORRUPT);
    CHECK_INT(read_raw(profile, good, 0), ==, SONDE_CORRUPT);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        char bytes[sizeof good];
        memcpy(bytes, good, sizeof good);
        bytes[damages[i].at] = damages[i].byte;
        if (read_raw(profile, bytes, 17) != SONDE_CORRUPT)
            check_fail(__FILE__, __LINE__, "damage at byte %zu is not seen", damages[i].at);
    }
    struct sonde_timeline *timeline;
    CHECK_INT(sonde_timeline_read((struct sonde_slice){"no gzip", 7}, profile, &timeline, NULL), ==,
              SONDE_CORRUPT);
    sonde_profile_destroy(profile);
}

TEST(a_dropped_timeline_stays_dropped) {
    struct sonde_profile *profile = make();
    struct sonde_timeline *copy, dropped = {.is_dropped = true};
    struct sonde_buf file = {0};
    CHECK_INT(sonde_timeline_write(&dropped, &file), ==, SONDE_OK);
    CHECK_INT(sonde_timeline_read(sonde_buf_slice(&file), profile, &copy, NULL), ==, SONDE_OK);
    CHECK(copy->is_dropped && copy->count == 0);
    sonde_timeline_destroy(copy);
    sonde_buf_finish(&file);
    sonde_profile_destroy(profile);
}
