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

static struct sonde_profile *snapshot_of(int64_t period_ns, int64_t at_ns) {
    static const struct sonde_value_type types[] = {{"off_cpu", "nanoseconds"}};
    struct sonde_profile *waits = sonde_profile_create(types, 1, 0), *copy;
    add(waits, "poll", (const int64_t[]){500});
    CHECK(sonde_profile_add_comment(waits, "dropped: none") == SONDE_OK);
    CHECK(sonde_profile_contentions(waits, period_ns, at_ns, &copy) == SONDE_OK);
    sonde_profile_destroy(waits);
    return copy;
}

TEST(recorded_waits_are_a_snapshot_with_the_types_of_go) {
    struct sonde_profile *copy = snapshot_of(0, 77);
    CHECK_STR(sonde_profile_type(copy, 0).type, "contentions");
    CHECK_STR(sonde_profile_type(copy, 1).type, "delay");
    CHECK_STR(sonde_profile_comment(copy, 0), "dropped: none");
    CHECK(sonde_profile_info(copy)->duration_ns == 0);
    CHECK(sonde_profile_info(copy)->time_unix_ns == 77);
    sonde_profile_destroy(copy);
}

TEST(a_comment_says_that_recorded_waits_are_estimated) {
    struct sonde_profile *copy = snapshot_of(20000000, 0);
    CHECK_STR(sonde_profile_comment(copy, 0), "contentions: estimated, one per 20 ms of waiting");
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

/* A stack of two functions, leaf first. */
static void add_call(struct sonde_profile *profile, const char *leaf, const char *caller) {
    const uint32_t locations[] = {add_location(profile, leaf), add_location(profile, caller)};
    const int64_t values[] = {1, 1000};
    const struct sonde_sample sample = {
        .locations = locations, .location_count = 2, .values = values};
    CHECK(sonde_profile_add_sample(profile, &sample) == SONDE_OK);
}

TEST(waits_for_locks_are_those_in_functions_of_locks) {
    static const struct sonde_value_type types[] = {{"contentions", "count"},
                                                    {"delay", "nanoseconds"}};
    static const struct {
        const char *leaf, *caller;
        bool is_lock;
    } rows[] = {
        {"futex_wait", "pthread_mutex_lock", true},
        {"__lll_lock_wait_private", "malloc", true},
        {"__futex_abstimed_wait_common", "___pthread_rwlock_wrlock", true},
        {"syscall", "std::sys::sync::mutex::futex::Mutex::lock_contended", true},
        {"runtime.futex", "runtime.lock2", true},
        {"pthread_cond_wait", "WTF::Lock::lockSlow()", true},
        {"syscall", "parking_lot::raw_rwlock::RawRwLock::lock_shared_slow", true},
        {"syscall", "block_slow", false},
        {"clock_nanosleep", "nanosleep", false},
        {"poll", "serve", false},
        {"read", "block_cache_read", false},
        {"futex_wait", "pthread_cond_wait", false},
        {"futex_wait", "sem_wait", false},
        {"futex_wait", "pthread_join", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sonde_profile *waits = sonde_profile_create(types, 2, 0), *locks;
        add_call(waits, rows[i].leaf, rows[i].caller);
        CHECK_INT(sonde_profile_only_locks(waits, &locks), ==, SONDE_OK);
        if (sonde_profile_total(locks, 0) != rows[i].is_lock)
            check_fail(__FILE__, __LINE__, "%s;%s", rows[i].caller, rows[i].leaf);
        sonde_profile_destroy(locks);
        sonde_profile_destroy(waits);
    }
}

TEST(a_lock_far_from_the_leaf_is_not_waited_for) {
    static const struct sonde_value_type types[] = {{"contentions", "count"}};
    struct sonde_profile *waits = sonde_profile_create(types, 1, 0), *locks;
    uint32_t locations[10];
    for (size_t i = 0; i < 9; i++)
        locations[i] = add_location(waits, "work");
    locations[9] = add_location(waits, "with_lock_slow_path");
    const int64_t one = 1;
    const struct sonde_sample sample = {
        .locations = locations, .location_count = 10, .values = &one};
    CHECK_INT(sonde_profile_add_sample(waits, &sample), ==, SONDE_OK);
    CHECK_INT(sonde_profile_only_locks(waits, &locks), ==, SONDE_OK);
    CHECK_INT(sonde_profile_total(locks, 0), ==, 0);
    sonde_profile_destroy(locks);
    sonde_profile_destroy(waits);
}
