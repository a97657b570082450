/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/select/idle.h"

#include "tests/unit/check.h"

#include <string.h>

static const struct sonde_value_type waits[] = {{"samples", "count"}, {"off_cpu", "nanoseconds"}};

static uint32_t add_text(struct sonde_profile *profile, const char *text) {
    uint32_t id;
    CHECK(sonde_profile_string(profile, text, strlen(text), &id) == SONDE_OK);
    return id;
}

static uint32_t add_location(struct sonde_profile *profile, const char *name) {
    struct sonde_function function = {.name = add_text(profile, name)};
    struct sonde_line line = {0};
    struct sonde_location location = {.line_count = 1, .lines = &line};
    uint32_t id;
    CHECK(sonde_profile_add_function(profile, &function, &line.function) == SONDE_OK);
    CHECK(sonde_profile_add_location(profile, &location, &id) == SONDE_OK);
    return id;
}

/* A sample of main, which calls `name`. Without a thread if `thread` is NULL; `request` is a label
 * of the program's own. */
static void add(struct sonde_profile *profile, const char *thread, int64_t tid, int64_t request,
                const char *name, int64_t ns) {
    const uint32_t locations[] = {add_location(profile, name), add_location(profile, "main")};
    const int64_t values[] = {1, ns};
    struct sonde_label labels[3] = {{.key = add_text(profile, "request"), .num = request}};
    struct sonde_sample sample = {
        .locations = locations, .location_count = 2, .values = values, .labels = labels};
    sample.label_count = 1;
    if (thread) {
        labels[1] = (struct sonde_label){.key = add_text(profile, "thread"),
                                         .str = add_text(profile, thread)};
        labels[2] = (struct sonde_label){.key = add_text(profile, "tid"), .num = tid};
        sample.label_count = 3;
    }
    CHECK(sonde_profile_add_sample(profile, &sample) == SONDE_OK);
}

static struct sonde_profile *without_idle(struct sonde_profile *profile) {
    struct sonde_profile *copy;
    CHECK(sonde_profile_without_idle(profile, &copy, NULL) == SONDE_OK);
    sonde_profile_destroy(profile);
    return copy;
}

/* The time below a function of main's. */
static int64_t time_of(const struct sonde_profile *profile, const char *name) {
    int64_t ns = 0;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        const struct sonde_location *leaf = sonde_profile_location(profile, sample.locations[0]);
        uint32_t text = sonde_profile_function(profile, leaf->lines[0].function)->name;
        ns += strcmp(sonde_profile_text(profile, text), name) == 0 ? sample.values[1] : 0;
    }
    return ns;
}

TEST(a_thread_that_waits_at_one_place_is_left_out_and_counted) {
    struct sonde_profile *profile = sonde_profile_create(waits, 2, 0);
    add(profile, "bio", 1, 0, "wait_for_jobs", 2000000000);
    add(profile, "main", 2, 0, "read_file", 800000000);
    add(profile, "main", 2, 0, "lock", 200000000);
    profile = without_idle(profile);
    CHECK_INT(time_of(profile, "wait_for_jobs"), ==, 0);
    CHECK_INT(sonde_profile_total(profile, 1), ==, 1000000000);
    CHECK_STR(sonde_profile_comment(profile, 0),
              "idle: 1 thread that only waits, 2.00 s, left out");
    sonde_profile_destroy(profile);
}

TEST(what_an_idle_thread_does_besides_stays) {
    struct sonde_profile *profile = sonde_profile_create(waits, 2, 0);
    add(profile, "worker", 1, 0, "epoll_wait", 90);
    add(profile, "worker", 1, 0, "write", 10);
    add(profile, "worker", 2, 0, "epoll_wait", 89); /* not enough */
    add(profile, "worker", 2, 0, "write", 11);
    profile = without_idle(profile);
    CHECK_INT(time_of(profile, "epoll_wait"), ==, 89);
    CHECK_INT(time_of(profile, "write"), ==, 21);
    sonde_profile_destroy(profile);
}

TEST(samples_of_one_place_count_together_whatever_their_labels) {
    struct sonde_profile *profile = sonde_profile_create(waits, 2, 0);
    for (int64_t request = 0; request < 10; request++)
        add(profile, "worker", 1, request, "epoll_wait", 10);
    add(profile, "worker", 1, 3, "write", 5);
    profile = without_idle(profile);
    CHECK_INT(time_of(profile, "epoll_wait"), ==, 0);
    CHECK_INT(time_of(profile, "write"), ==, 5);
    sonde_profile_destroy(profile);
}

TEST(samples_without_a_thread_stay) {
    struct sonde_profile *profile = sonde_profile_create(waits, 2, 0);
    add(profile, NULL, 0, 0, "epoll_wait", 100);
    profile = without_idle(profile);
    CHECK_INT(time_of(profile, "epoll_wait"), ==, 100);
    CHECK_STR(sonde_profile_comment(profile, 0),
              "idle: 0 threads that only wait, 0.00 s, left out");
    sonde_profile_destroy(profile);
}

/* As when sonded leaves idle threads out of a capture, and the client draws it. */
TEST(what_is_left_does_not_become_idle_if_the_copy_is_copied) {
    struct sonde_profile *profile = sonde_profile_create(waits, 2, 0);
    add(profile, "worker", 1, 0, "epoll_wait", 95);
    add(profile, "worker", 1, 0, "write", 5);
    profile = without_idle(without_idle(profile));
    CHECK_INT(time_of(profile, "write"), ==, 5);
    CHECK_INT(sonde_profile_comment_count(profile), ==, 1);
    sonde_profile_destroy(profile);
}

TEST(cpu_time_has_no_idle_threads) {
    static const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0), *copy;
    struct sonde_diag diag = {0};
    CHECK_INT(sonde_profile_without_idle(profile, &copy, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "only profiles of wall-clock and off-CPU time have idle threads; this one "
                         "measures cpu");
    CHECK(copy == NULL);
    sonde_profile_destroy(profile);
}
