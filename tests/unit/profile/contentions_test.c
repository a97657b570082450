/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/select/contentions.h"

#include "tests/unit/check.h"

#include <string.h>

static uint32_t add_location(struct sonde_profile *profile, const char *name) {
    struct sonde_function function = {0};
    struct sonde_line line = {0};
    struct sonde_location location = {.line_count = 1, .lines = &line};
    uint32_t id;
    CHECK(sonde_profile_string(profile, name, strlen(name), &function.name) == SONDE_OK);
    CHECK(sonde_profile_add_function(profile, &function, &line.function) == SONDE_OK);
    CHECK(sonde_profile_add_location(profile, &location, &id) == SONDE_OK);
    return id;
}

static void add(struct sonde_profile *profile, const char *name, const int64_t *values) {
    uint32_t location = add_location(profile, name);
    const struct sonde_sample sample = {
        .locations = &location, .location_count = 1, .values = values};
    CHECK(sonde_profile_add_sample(profile, &sample) == SONDE_OK);
}

static int64_t value(const struct sonde_profile *profile, size_t sample, size_t type) {
    return sonde_profile_sample(profile, sample).values[type];
}

TEST(waits_of_a_capture_keep_their_number) {
    static const struct sonde_value_type types[] = {{"samples", "count"},
                                                    {"off_cpu", "nanoseconds"}};
    struct sonde_profile *waits = sonde_profile_create(types, 2, 0), *copy;
    add(waits, "poll", (const int64_t[]){3, 500});
    CHECK(sonde_profile_add_comment(waits, "dropped: none") == SONDE_OK);
    CHECK(sonde_profile_contentions(waits, 10, 77, &copy) == SONDE_OK);
    CHECK_STR(sonde_profile_type(copy, 0).type, "contentions");
    CHECK_STR(sonde_profile_type(copy, 1).type, "delay");
    CHECK(value(copy, 0, 0) == 3 && value(copy, 0, 1) == 500);
    CHECK_STR(sonde_profile_comment(copy, 0), "dropped: none");
    CHECK(sonde_profile_info(copy)->duration_ns == 0);
    CHECK(sonde_profile_info(copy)->time_unix_ns == 77);
    sonde_profile_destroy(waits);
    sonde_profile_destroy(copy);
}

TEST(recorded_waits_count_once_per_period_and_at_least_once) {
    static const struct sonde_value_type types[] = {{"off_cpu", "nanoseconds"}};
    struct sonde_profile *waits = sonde_profile_create(types, 1, 0), *copy;
    add(waits, "poll", (const int64_t[]){96});
    add(waits, "lock", (const int64_t[]){1});
    CHECK(sonde_profile_contentions(waits, 10, 0, &copy) == SONDE_OK);
    CHECK(value(copy, 0, 0) == 10 && value(copy, 0, 1) == 96);
    CHECK(value(copy, 1, 0) == 1 && value(copy, 1, 1) == 1);
    sonde_profile_destroy(copy);
    CHECK(sonde_profile_contentions(waits, 0, 0, &copy) == SONDE_OK);
    CHECK(value(copy, 0, 0) == 1);
    sonde_profile_destroy(copy);
    sonde_profile_destroy(waits);
}

TEST(other_profiles_are_refused) {
    static const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    struct sonde_profile *cpu = sonde_profile_create(types, 2, 0), *copy;
    CHECK(sonde_profile_contentions(cpu, 10, 0, &copy) == SONDE_INVALID_ARGUMENT && !copy);
    sonde_profile_destroy(cpu);
}
