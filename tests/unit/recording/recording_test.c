/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine with a guest that the test drives, a recording, and a store in memory. */
#include "service/recording/recording.h"

#include "tests/unit/engine/scene.h"
#include "tests/unit/store/fake_store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What somebody has set the date ahead by. This definition takes the place of the C library's. */
static _Atomic int64_t date_ahead_s;

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_REALTIME)
        now->tv_sec += date_ahead_s;
    return result;
}

static struct scene scene;
static struct recording *recording;
static struct store *store;
static char logged[1024];

static void log_line(const char *line) {
    snprintf(logged, sizeof logged, "%s", line);
}

/* The second receiver: nanoseconds that it saw. */
static _Atomic int64_t received_ns;

static void receive(void *context, const struct record *record) {
    atomic_fetch_add(&received_ns, sonde_profile_total(record->profile, 1));
}

static void start_with(uint32_t window_ms, bool stores, bool sends) {
    logged[0] = 0;
    scene_init(&scene);
    store = fake_store_create();
    struct recording_options options = {.engine = scene.engine,
                                        .store = stores ? store : NULL,
                                        .window_ms = window_ms,
                                        .log = log_line,
                                        .on_record = sends ? receive : NULL};
    received_ns = 0;
    struct sonde_diag diag = {0};
    sonde_err err = recording_start(&options, &recording, &diag);
    if (err)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    start_clock(&scene);
}

static void start(uint32_t window_ms) {
    start_with(window_ms, true, false);
}

static void *confirm_stop(void *guest) {
    fake_stop(guest);
    return NULL;
}

static void finish(void) {
    pthread_t guest;
    CHECK_INT(pthread_create(&guest, NULL, confirm_stop, &scene.guest), ==, 0);
    recording_finish(recording);
    pthread_join(guest, NULL);
}

static void end(void) {
    scene_finish(&scene);
    recording_destroy(recording);
    store_close(store);
}

static int64_t stored_ns(void) {
    struct store_query query = {.service = "burner", .event = "on-cpu", .until_unix_s = 4000000000};
    struct store_merge merge = {0};
    struct sonde_arena arena = {0};
    int64_t sum = 0;
    CHECK_INT(store->ops->merge(store, &query, &arena, &merge, NULL), ==, SONDE_OK);
    for (size_t i = 0; i < merge.row_count; i++)
        sum += merge.rows[i].value;
    sonde_arena_finish(&arena);
    return sum;
}

/* Intervals of totals from a date on, within the next half an hour. */
static uint64_t totals_after(int64_t from_unix_s) {
    struct store_query query = {.from_unix_s = from_unix_s, .until_unix_s = from_unix_s + 1800};
    struct store_total_row *rows;
    struct store_merge result = {0};
    struct sonde_arena arena = {0};
    size_t count, filled = 0;
    CHECK_INT(store->ops->totals(store, &query, &arena, &rows, &count, &result, NULL), ==,
              SONDE_OK);
    for (size_t i = 0; i < count; i++)
        filled += rows[i].cpu_ns > 0;
    sonde_arena_finish(&arena);
    return filled;
}

static struct recording_state state(void) {
    struct recording_state now;
    recording_state(recording, &now);
    return now;
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

TEST(what_a_target_does_is_stored_also_the_open_window_at_the_end) {
    start(3600000);
    CHECK_INT(state().targets, ==, 1);
    push_many(&scene, 100, burn_leaf, 7);
    settle(&scene);
    CHECK_INT(stored_ns(), ==, 0);
    finish();
    CHECK_NEAR((double)stored_ns(), 1000.0 * MS, 60.0 * MS);
    CHECK_INT(state().lost_windows, ==, 0);
    CHECK_INT(state().targets, ==, 0);
    CHECK_STR(state().trouble, "");
    CHECK_STR(logged, "");
    end();
}

/* The window is an hour long. It can be ended as soon as it is a second old. */
static void refresh_until(int64_t ns) {
    for (int i = 0; i < 3000 && stored_ns() < ns; i++) {
        recording_refresh(recording);
        pause_ms(10);
    }
}

TEST(an_open_window_is_stored_for_a_query_and_counts_once) {
    start(3600000);
    push_many(&scene, 100, burn_leaf, 7);
    settle(&scene);
    refresh_until(1);
    CHECK_NEAR((double)stored_ns(), 1000.0 * MS, 60.0 * MS);
    push_many(&scene, 100, burn_leaf, 7);
    settle(&scene);
    refresh_until(1100 * MS);
    CHECK_NEAR((double)stored_ns(), 2000.0 * MS, 120.0 * MS);
    recording_refresh(recording);
    finish();
    CHECK_NEAR((double)stored_ns(), 2000.0 * MS, 120.0 * MS);
    recording_refresh(recording); /* a query while the service ends */
    end();
}

TEST(the_clocks_of_all_processes_are_stored_for_a_query) {
    int64_t begin_s = time(NULL);
    start(3600000);
    for (int i = 0; i < 3000 && totals_after(begin_s) == 0; i++) {
        recording_refresh(recording);
        pause_ms(10);
    }
    CHECK_INT(totals_after(begin_s), >, 0);
    finish();
    end();
}

TEST(a_second_receiver_sees_what_is_stored) {
    start_with(3600000, true, true);
    push_many(&scene, 100, burn_leaf, 7);
    settle(&scene);
    finish();
    CHECK_INT(stored_ns(), >, 0);
    CHECK_INT(received_ns, ==, stored_ns());
    end();
}

TEST(a_second_receiver_needs_no_store) {
    start_with(3600000, false, true);
    CHECK_INT(state().targets, ==, 1);
    push_many(&scene, 100, burn_leaf, 7);
    settle(&scene);
    finish();
    CHECK_NEAR((double)received_ns, 1000.0 * MS, 60.0 * MS);
    CHECK_INT(stored_ns(), ==, 0);
    CHECK_INT(state().lost_windows, ==, 0);
    end();
}

TEST(a_store_that_fails_for_good_does_not_end_the_second_receiver) {
    start_with(200, true, true);
    fake_store_fail_next(store, SONDE_IO);
    push_many(&scene, 10, burn_leaf, 7);
    settle(&scene);
    for (int i = 0; i < 3000 && !logged[0]; i++)
        pause_ms(10);
    CHECK_INT(state().targets, ==, 1);
    int64_t before = received_ns;
    push_many(&scene, 100, burn_leaf, 7);
    settle(&scene);
    finish();
    CHECK_INT(received_ns - before, >=, 940 * MS);
    end();
}

TEST(a_store_that_is_away_for_a_moment_loses_and_doubles_nothing) {
    start(200);
    fake_store_fail_next(store, SONDE_UNAVAILABLE);
    push_many(&scene, 100, burn_leaf, 7);
    settle(&scene);
    for (int i = 0; i < 3000 && !state().trouble[0]; i++)
        pause_ms(10);
    CHECK_STR(state().trouble, "the fake store fails");
    CHECK_STR(logged, "history: windows wait in memory: the fake store fails");
    for (int i = 0; i < 3000 && state().trouble[0]; i++)
        pause_ms(10);
    CHECK_STR(state().trouble, "");
    CHECK_STR(logged, "history: windows are stored again");
    finish();
    CHECK_NEAR((double)stored_ns(), 1000.0 * MS, 60.0 * MS);
    CHECK_INT(state().lost_windows, ==, 0);
    end();
}

TEST(a_store_that_fails_for_good_ends_the_recording_with_one_message) {
    start(200);
    fake_store_fail_next(store, SONDE_IO);
    push_many(&scene, 10, burn_leaf, 7);
    fake_stop(&scene.guest); /* the target is not sampled in vain */
    for (int i = 0; i < 3000 && !logged[0]; i++)
        pause_ms(10);
    CHECK_STR(logged, "history has ended, the service goes on without it: the fake store fails");
    CHECK_STR(state().trouble, "the fake store fails");
    CHECK_INT(state().lost_windows, >=, 1);
    CHECK_INT(state().targets, ==, 0);
    size_t count;
    struct engine_target *targets = engine_targets(scene.engine, &count);
    CHECK_INT(count, ==, 1); /* the service itself goes on */
    free(targets);
    recording_finish(recording);
    end();
}

TEST(a_batch_that_is_refused_is_counted_and_the_next_is_whole) {
    start(200);
    fake_store_fail_next(store, SONDE_INVALID_ARGUMENT);
    push_many(&scene, 10, burn_leaf, 7);
    settle(&scene);
    for (int i = 0; i < 3000 && !logged[0]; i++)
        pause_ms(10);
    CHECK_INT(state().lost_windows, >=, 1);
    CHECK_STR(logged, "history: windows were not stored: the fake store fails");
    push_many(&scene, 100, burn_leaf, 7);
    settle(&scene);
    finish();
    CHECK_INT(stored_ns(), >=, 940 * MS);
    struct store_info info = {0};
    CHECK_INT(store->ops->info(store, NULL, &info, NULL), ==, SONDE_OK);
    CHECK_INT(info.stacks, >=, 1); /* sent again, though the first batch had them */
    end();
}

static void await_totals(int64_t from_unix_s) {
    for (int i = 0; i < 3000 && totals_after(from_unix_s) == 0; i++)
        pause_ms(10);
    CHECK_INT(totals_after(from_unix_s), >, 0);
}

TEST(a_date_that_is_set_delays_nothing_in_either_direction) {
    int64_t begin_s = time(NULL);
    start(1000);
    await_totals(begin_s);
    date_ahead_s = -3600;
    await_totals(begin_s - 3600);
    CHECK_STR(logged, "history: the clock was set back by 3600 s; windows go on at their new time, "
                      "and a range that the step touches holds the time before and after it");
    date_ahead_s = 3600;
    await_totals(begin_s + 3600);
    finish();
    CHECK_INT(state().lost_windows, ==, 0);
    end();
    date_ahead_s = 0;
}
