/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/profile.h"

#include "service/store/selector/selector.h"
#include "tests/unit/check.h"
#include "tests/unit/store/fake_store.h"

#include <stdio.h>
#include <string.h>

#define BEGIN  1700000000
#define PERIOD 10000000 /* 100 Hz */

/* Two services with the same stacks, main -> work (with `twice` inlined in it) -> memcpy. */
static const struct store_line main_lines[] = {{"main", "main.c", 10}};
static const struct store_line work_lines[] = {{"twice", "twice.h", 3}, {"work", "main.c", 20}};
static const struct store_frame frames[] = {
    {1, "aa", "/bin/x", 0x10, SONDE_FRAME_APPLICATION, 1, main_lines, 1},
    {2, "aa", "/bin/x", 0x20, SONDE_FRAME_APPLICATION, 1, work_lines, 2},
    {3, "bb", "/lib/libc.so.6", 0x30, SONDE_FRAME_LIBRARY, 0, NULL, 0},
    {4, "", "", 0x7f0000000040, SONDE_FRAME_JIT, 0, NULL, 0},
};
static const uint64_t path[] = {3, 2, 1}, short_path[] = {4, 2, 1};
static const struct store_stack stacks[] = {
    {"redis", 100, path, 3}, {"redis", 101, short_path, 3}, {"mysql", 100, path, 3}};
static const char *const thread_names[] = {"main", "io"};
static const uint64_t row_stacks[] = {100, 101, 100};
static const uint8_t row_threads[] = {0, 0, 1};
static const int64_t row_values[] = {3 * PERIOD, 2 * PERIOD, 5 * PERIOD};

static struct store_window window(const char *service, const char *event, uint64_t seq) {
    return (struct store_window){
        .source = 1,
        .seq = seq,
        .event = event,
        .service = service,
        .host = "a",
        .instance = service,
        .clock = "perf",
        .begin_unix_s = BEGIN + 10 * (int64_t)seq,
        .length_s = 10,
        .period_ns = PERIOD,
        .weight = 1,
        .samples = 10,
        .dropped = 2,
        .threads = thread_names,
        .thread_count = 2,
        .stack = row_stacks,
        .thread = row_threads,
        .value = row_values,
        .row_count = 3,
    };
}

static void put(struct store *store, const struct store_window *windows, size_t count) {
    struct store_batch batch = {windows, count, stacks, 3, frames, 4, NULL, 0, NULL};
    struct store_put_result result;
    CHECK_INT(store_put(store, &batch, &result, NULL), ==, SONDE_OK);
    CHECK_INT(result.stored, ==, count);
}

static struct store *filled(void) {
    struct store *store = fake_store_create();
    struct store_window windows[] = {window("redis", "on-cpu", 0),
                                     window("redis", "on-cpu", 2), /* one is missing */
                                     window("mysql", "on-cpu", 3)};
    windows[2].row_count = 1;
    put(store, windows, 3);
    return store;
}

static struct store_query query_of(const char *service, const char *event) {
    return (struct store_query){service, event, BEGIN, BEGIN + 3600, NULL, NULL};
}

static struct store_profile profile_of(struct store *store, struct store_query query,
                                       struct sonde_arena *arena) {
    struct store_profile result;
    struct sonde_diag diag = {0};
    if (store_profile_query(store, &query, arena, 0, &result, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    return result;
}

static void finish(struct store *store, struct store_profile *result, struct sonde_arena *arena) {
    sonde_profile_destroy(result->profile);
    sonde_arena_finish(arena);
    store_close(store);
}

/* "thread=io;main;work;twice;libc.so.6+0x30" of each sample and its values, in order of adding. */
static void describe(const struct sonde_profile *profile, struct sonde_buf *text) {
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        sonde_buf_printf(text, "%s/%s", sonde_sample_label(profile, &sample, "service"),
                         sonde_sample_label(profile, &sample, "thread"));
        for (uint32_t k = sample.location_count; k > 0; k--) {
            const struct sonde_location *location =
                sonde_profile_location(profile, sample.locations[k - 1]);
            if (!location->line_count)
                sonde_buf_printf(text, ";0x%llx", (unsigned long long)location->address);
            for (uint32_t l = location->line_count; l > 0; l--) {
                uint32_t function = location->lines[l - 1].function;
                uint32_t name = sonde_profile_function(profile, function)->name;
                sonde_buf_printf(text, ";%s", sonde_profile_text(profile, name));
            }
        }
        for (size_t k = 0; k < sonde_profile_type_count(profile); k++)
            sonde_buf_printf(text, " %lld", (long long)sample.values[k]);
        sonde_buf_puts(text, "\n");
    }
}

static void check_samples(const struct sonde_profile *profile, const char *expected) {
    struct sonde_buf text = {0};
    describe(profile, &text);
    CHECK_STR(text.data, expected);
    sonde_buf_finish(&text);
}

static void check_comment(const struct sonde_profile *profile, const char *wanted) {
    for (size_t i = 0; i < sonde_profile_comment_count(profile); i++)
        if (strcmp(sonde_profile_comment(profile, i), wanted) == 0)
            return;
    check_fail(__FILE__, __LINE__, "no comment is \"%s\"", wanted);
}

TEST(a_query_becomes_a_profile_with_names_and_sums) {
    struct sonde_arena arena = {0};
    struct store *store = filled();
    struct store_profile result = profile_of(store, query_of("redis", "on-cpu"), &arena);
    const struct sonde_profile *profile = result.profile;
    check_samples(profile, "/main;main;work;twice;0x30 6 60000000\n"
                           "/main;main;work;twice;0x7f0000000040 4 40000000\n"
                           "/io;main;work;twice;0x30 10 100000000\n");
    CHECK_STR(sonde_profile_type(profile, 0).type, "samples");
    CHECK_STR(sonde_profile_type(profile, 1).unit, "nanoseconds");
    const struct sonde_profile_info *info = sonde_profile_info(profile);
    CHECK_INT(info->period, ==, PERIOD);
    CHECK_STR(info->period_type.type, "cpu");
    CHECK_INT(info->duration_ns, ==, 20000000000);
    CHECK_INT(info->time_unix_ns, ==, BEGIN * 1000000000LL);
    CHECK_INT(info->default_type, ==, 1);
    check_comment(profile, "service: redis");
    check_comment(profile, "windows: 2");
    check_comment(profile, "missing windows: 1");
    check_comment(profile, "dropped: 4");
    check_comment(profile, "unknown stacks: none");
    CHECK(result.merge.rows == NULL && result.merge.row_count == 0);
    finish(store, &result, &arena);
}

TEST(locations_have_their_module_kind_and_lines) {
    struct sonde_arena arena = {0};
    struct store *store = filled();
    struct store_profile result = profile_of(store, query_of("redis", "on-cpu"), &arena);
    const struct sonde_profile *profile = result.profile;
    struct sonde_sample sample = sonde_profile_sample(profile, 0);
    const struct sonde_location *leaf = sonde_profile_location(profile, sample.locations[0]);
    const struct sonde_location *work = sonde_profile_location(profile, sample.locations[1]);
    const struct sonde_mapping *libc = sonde_profile_mapping(profile, leaf->mapping);
    CHECK_INT(leaf->kind, ==, SONDE_FRAME_LIBRARY);
    CHECK_STR(sonde_profile_text(profile, libc->filename), "/lib/libc.so.6");
    CHECK_STR(sonde_profile_text(profile, libc->build_id), "bb");
    CHECK(!libc->has_functions);
    CHECK_INT(work->mapping, ==, 1); /* the program's comes first */
    CHECK_INT(work->kind, ==, SONDE_FRAME_APPLICATION);
    CHECK_INT(work->address, ==, 0x20);
    CHECK_INT(work->lines[0].line, ==, 3);
    const struct sonde_mapping *program = sonde_profile_mapping(profile, 1);
    CHECK(program->has_functions && program->has_filenames && program->has_line_numbers &&
          program->has_inline_frames);
    sample = sonde_profile_sample(profile, 1);
    leaf = sonde_profile_location(profile, sample.locations[0]);
    CHECK_INT(leaf->mapping, ==, 0);
    CHECK_INT(leaf->kind, ==, SONDE_FRAME_JIT);
    finish(store, &result, &arena);
}

TEST(samples_have_the_label_service_if_the_query_names_none) {
    struct sonde_arena arena = {0};
    struct store *store = filled();
    struct store_profile result = profile_of(store, query_of(NULL, "on-cpu"), &arena);
    check_samples(result.profile, "redis/main;main;work;twice;0x30 6 60000000\n"
                                  "redis/main;main;work;twice;0x7f0000000040 4 40000000\n"
                                  "redis/io;main;work;twice;0x30 10 100000000\n"
                                  "mysql/main;main;work;twice;0x30 3 30000000\n");
    check_comment(result.profile, "service: all");
    finish(store, &result, &arena);
}

TEST(a_selector_chooses_windows_and_threads) {
    struct sonde_arena arena = {0};
    struct store *store = filled();
    struct selector *selector;
    struct store_query query = query_of(NULL, "on-cpu");
    CHECK_INT(selector_parse("thread='main' AND service<>'redis'", NULL, NULL, &selector, NULL), ==,
              SONDE_OK);
    query.selector = selector;
    struct store_profile result = profile_of(store, query, &arena);
    check_samples(result.profile, "mysql/main;main;work;twice;0x30 3 30000000\n");
    selector_destroy(selector);
    finish(store, &result, &arena);
}

TEST(unknown_stacks_and_frames_become_notes_and_are_counted) {
    struct sonde_arena arena = {0};
    struct store *store = filled();
    fake_store_forget_stack(store, "redis", 100);
    fake_store_forget_frame(store, 4);
    struct store_profile result = profile_of(store, query_of("redis", "on-cpu"), &arena);
    check_samples(result.profile, "/main;[unknown stack] 6 60000000\n"
                                  "/main;main;work;twice;[unknown frame] 4 40000000\n"
                                  "/io;[unknown stack] 10 100000000\n");
    CHECK_INT(result.unknown_stacks, ==, 2);
    check_comment(result.profile, "unknown stacks: 2");
    finish(store, &result, &arena);
}

TEST(memory_in_use_is_that_of_the_last_window) {
    struct sonde_arena arena = {0};
    struct store *store = fake_store_create();
    struct store_window windows[] = {window("redis", "mem-inuse", 0),
                                     window("redis", "mem-inuse", 1)};
    static const int64_t bytes[] = {4096};
    windows[1].value = bytes;
    windows[1].row_count = 1;
    windows[1].weight = 1.5;
    put(store, windows, 2);
    struct store_profile result = profile_of(store, query_of("redis", "mem-inuse"), &arena);
    check_samples(result.profile, "/main;main;work;twice;0x30 6144\n");
    CHECK_STR(sonde_profile_type(result.profile, 0).type, "inuse_space");
    CHECK_STR(sonde_profile_type(result.profile, 0).unit, "bytes");
    finish(store, &result, &arena);
}

TEST(each_event_has_its_type) {
    static const char *const rows[][3] = {{"off-cpu", "off_cpu", "nanoseconds"},
                                          {"mem-alloc", "alloc_space", "bytes"},
                                          {"gpu", "gpu", "nanoseconds"}};
    for (size_t i = 0; i < 3; i++) {
        struct sonde_arena arena = {0};
        struct store *store = fake_store_create();
        struct store_window one = window("redis", rows[i][0], 0);
        put(store, &one, 1);
        struct store_profile result = profile_of(store, query_of("redis", rows[i][0]), &arena);
        CHECK_INT(sonde_profile_type_count(result.profile), ==, 1);
        CHECK_STR(sonde_profile_type(result.profile, 0).type, rows[i][1]);
        CHECK_STR(sonde_profile_type(result.profile, 0).unit, rows[i][2]);
        CHECK_INT(sonde_profile_total(result.profile, 0), ==, 10 * PERIOD);
        finish(store, &result, &arena);
    }
}

TEST(a_range_without_windows_is_an_empty_profile) {
    struct sonde_arena arena = {0};
    struct store *store = filled();
    struct store_query query = query_of("redis", "on-cpu");
    query.from_unix_s = query.until_unix_s;
    struct store_profile result = profile_of(store, query, &arena);
    CHECK_INT(sonde_profile_sample_count(result.profile), ==, 0);
    check_comment(result.profile, "windows: none");
    finish(store, &result, &arena);
}

TEST(failures_leave_no_profile) {
    struct sonde_arena arena = {0};
    struct store *store = filled();
    struct store_query query = query_of("redis", "on-cpu");
    struct store_profile result;
    struct sonde_diag diag = {0};
    CHECK_INT(store_profile_query(store, &query, &arena, 8000, &result, &diag), ==,
              SONDE_TOO_LARGE);
    CHECK(result.profile == NULL);
    CHECK(strstr(diag.text, "query a shorter range") != NULL);
    fake_store_fail_next(store, SONDE_UNAVAILABLE);
    CHECK_INT(store_profile_query(store, &query, &arena, 0, &result, &diag), ==, SONDE_UNAVAILABLE);
    CHECK(result.profile == NULL);
    CHECK_STR(diag.text, "the fake store fails");
    struct store_stop stop = {.is_stopped = true};
    query.stop = &stop;
    CHECK_INT(store_profile_query(store, &query, &arena, 0, &result, NULL), ==, SONDE_CANCELLED);
    finish(store, &result, &arena);
}

TEST(host_totals_are_processes_with_their_threads) {
    struct sonde_arena arena = {0};
    struct store *store = fake_store_create();
    struct store_total totals[] = {{1, 0, 0, "a", BEGIN, 10, "redis", "", 700},
                                   {1, 0, 0, "a", BEGIN, 10, "redis", "io", 200},
                                   {1, 1, 0, "a", BEGIN + 10, 10, "redis", "io", 100},
                                   {1, 0, 0, "a", BEGIN, 10, "init", "", 1}};
    struct store_batch batch = {.totals = totals, .total_count = 4};
    struct store_put_result put_result;
    CHECK_INT(store_put(store, &batch, &put_result, NULL), ==, SONDE_OK);
    struct store_query query = query_of(NULL, "on-cpu");
    struct store_profile result;
    struct sonde_diag diag = {0};
    CHECK_INT(store_profile_totals(store, &query, &arena, &result, &diag), ==, SONDE_OK);
    check_samples(result.profile, "/;redis 700\n/io;redis 300\n/;init 1\n");
    CHECK_STR(sonde_profile_type(result.profile, 0).type, "cpu");
    sonde_profile_destroy(result.profile);

    struct store_total other = {2, 0, 0, "b", BEGIN, 10, "redis", "", 1};
    batch = (struct store_batch){.totals = &other, .total_count = 1};
    CHECK_INT(store_put(store, &batch, &put_result, NULL), ==, SONDE_OK);
    CHECK_INT(store_profile_totals(store, &query, &arena, &result, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK(result.profile == NULL);
    finish(store, &result, &arena);
}

TEST(the_main_thread_is_named_after_its_service_and_memory_has_no_threads) {
    static const char *const main_thread[] = {"", "io"};
    static const char *const events[] = {"on-cpu", "mem-alloc"};
    for (int i = 0; i < 2; i++) {
        struct sonde_arena arena = {0};
        struct store *store = fake_store_create();
        struct store_window stored = window("redis", events[i], 0);
        stored.threads = main_thread;
        put(store, &stored, 1);
        struct store_profile result = profile_of(store, query_of("redis", events[i]), &arena);
        struct sonde_sample sample = sonde_profile_sample(result.profile, 0);
        CHECK_STR(sonde_sample_label(result.profile, &sample, "thread"), i == 0 ? "redis" : "");
        finish(store, &result, &arena);
    }
}
