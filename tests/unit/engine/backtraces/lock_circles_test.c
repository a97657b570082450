/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/backtraces/lock_circles.h"

#include "api/base/clock.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>

#define END   LOCK_CIRCLE_END
#define CROWD 10000u

/* The circles of `next`, as text: "0 1 2" for each, separated by "; ". */
static const char *circles_of(const uint32_t *next, uint32_t count) {
    static char text[4096];
    struct sonde_arena arena = {0};
    struct lock_circles found;
    size_t len = 0;
    CHECK(lock_circles_find(next, count, &arena, &found));
    text[0] = 0;
    for (uint32_t i = 0; i < found.count; i++)
        for (uint32_t k = 0; k < found.circles[i].count; k++)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%u",
                                    k   ? " "
                                    : i ? "; "
                                        : "",
                                    found.circles[i].threads[k]);
    sonde_arena_finish(&arena);
    return text;
}

TEST(threads_that_wait_for_nothing_or_for_a_running_thread_are_no_circle) {
    CHECK_STR(circles_of(NULL, 0), "");
    CHECK_STR(circles_of((const uint32_t[]){END}, 1), "");
    CHECK_STR(circles_of((const uint32_t[]){1, 2, 3, END}, 4), "");
    CHECK_STR(circles_of((const uint32_t[]){END, 0, 1, 2}, 4), "");
}

TEST(a_circle_begins_with_its_lowest_thread) {
    CHECK_STR(circles_of((const uint32_t[]){0}, 1), "0");
    CHECK_STR(circles_of((const uint32_t[]){1, 0}, 2), "0 1");
    CHECK_STR(circles_of((const uint32_t[]){2, 0, 1}, 3), "0 2 1");
    CHECK_STR(circles_of((const uint32_t[]){END, 3, 1, 2}, 4), "1 3 2");
}

TEST(threads_that_wait_for_a_circle_are_not_in_it) {
    CHECK_STR(circles_of((const uint32_t[]){2, 0, 3, 2}, 4), "2 3");
    CHECK_STR(circles_of((const uint32_t[]){1, 1, 1}, 3), "1");
}

TEST(each_of_several_circles_is_found_once) {
    CHECK_STR(circles_of((const uint32_t[]){1, 0, 3, 2, 4, 5, 0}, 7), "0 1; 2 3; 4; 5");
}

TEST(a_circle_of_a_hundred_threads_is_complete) {
    uint32_t next[100];
    struct sonde_arena arena = {0};
    struct lock_circles found;
    for (uint32_t i = 0; i < 100; i++)
        next[i] = (i + 37) % 100;
    CHECK(lock_circles_find(next, 100, &arena, &found));
    CHECK_INT(found.count, ==, 1);
    CHECK_INT(found.circles[0].count, ==, 100);
    for (uint32_t i = 0; i < 100; i++)
        CHECK_INT(found.circles[0].threads[i], ==, i * 37 % 100);
    sonde_arena_finish(&arena);
}

static int64_t time_of(const uint32_t *next, uint32_t count) {
    int64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    struct sonde_arena arena = {0};
    struct lock_circles found;
    CHECK(lock_circles_find(next, count, &arena, &found));
    CHECK_INT(found.count, ==, 0);
    sonde_arena_finish(&arena);
    return clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
}

/* A quadratic search would take a hundred times as long for ten times as many. */
TEST(ten_thousand_threads_take_linear_time) {
    uint32_t *next = calloc(10 * CROWD, sizeof *next);
    static const bool is_chain[] = {false, true};
    for (size_t row = 0; row < 2; row++) {
        int64_t few = INT64_MAX, many = INT64_MAX;
        for (uint32_t i = 0; i < 10 * CROWD; i++)
            next[i] = i == 0 ? END : is_chain[row] ? i - 1 : 0;
        for (int i = 0; i < 5; i++) {
            int64_t one = time_of(next, CROWD), ten = time_of(next, 10 * CROWD);
            few = one < few ? one : few;
            many = ten < many ? ten : many;
        }
        CHECK_INT(many, <, 50 * few);
    }
    free(next);
}
