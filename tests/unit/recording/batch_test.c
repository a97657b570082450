/* SPDX-License-Identifier: Apache-2.0
 *
 * From profiles to batches, and through a store back to sums. */
#include "service/recording/batch.h"

#include "service/store/ids.h"
#include "tests/unit/check.h"
#include "tests/unit/store/fake_store.h"

#include <stdio.h>
#include <stdlib.h>

#define MS 1000000ll

static struct batch batch;
static struct engine_target target = {
    .name = "redis", .uuid = "00112233445566778899aabbccddeeff", .pid = 7, .start_unix_ns = 42};

static uint32_t text(struct sonde_profile *profile, const char *string) {
    uint32_t id;
    CHECK_INT(sonde_profile_string(profile, string, strlen(string), &id), ==, SONDE_OK);
    return id;
}

static struct sonde_profile *cpu_profile(void) {
    static const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    return sonde_profile_create(types, 2, 0);
}

static uint32_t add_mapping(struct sonde_profile *profile, const char *path, const char *build_id) {
    uint32_t id;
    struct sonde_mapping mapping = {.start = 0x400000,
                                    .limit = 0x500000,
                                    .offset = 0x1000,
                                    .filename = text(profile, path),
                                    .build_id = text(profile, build_id)};
    CHECK_INT(sonde_profile_add_mapping(profile, &mapping, &id), ==, SONDE_OK);
    return id;
}

/* function NULL: no names. file "": no lines. */
static uint32_t add_location(struct sonde_profile *profile, uint32_t mapping, uint64_t address,
                             const char *function, const char *file) {
    uint32_t id;
    struct sonde_line line = {.line = function && file[0] ? 12 : 0};
    struct sonde_location location = {
        .mapping = mapping, .address = address, .kind = SONDE_FRAME_APPLICATION, .lines = &line};
    if (function) {
        struct sonde_function named = {.name = text(profile, function),
                                       .system_name = text(profile, function),
                                       .filename = text(profile, file)};
        location.line_count = 1;
        CHECK_INT(sonde_profile_add_function(profile, &named, &line.function), ==, SONDE_OK);
    }
    CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
    return id;
}

static void add_sample(struct sonde_profile *profile, const uint32_t *locations, uint32_t count,
                       const char *thread, int64_t tid, int64_t ns) {
    int64_t values[] = {1, ns};
    struct sonde_label labels[] = {
        {.key = text(profile, "thread"), .str = text(profile, thread)},
        {.key = text(profile, "tid"), .num = tid},
    };
    struct sonde_sample sample = {.locations = locations,
                                  .location_count = count,
                                  .label_count = 2,
                                  .values = values,
                                  .labels = labels};
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
}

static struct record record_of(struct sonde_profile *profile) {
    return (struct record){.event = SONDE_ON_CPU,
                           .target = &target,
                           .cgroup = "/docker/x",
                           .profile = profile,
                           .begin_unix_ns = 1000 * 1000 * MS + 300000,
                           .end_unix_ns = 1010 * 1000 * MS - 200000,
                           .period_ns = 52631579,
                           .samples = 3,
                           .dropped = 1,
                           .truncated = 2,
                           .cpu_from_ns = 700,
                           .cpu_until_ns = 900,
                           .clock = "perf-sigtrap"};
}

/* main -> work, 30 ms in two threads of one name, and 5 ms in main. */
static struct sonde_profile *simple_profile(const char *file) {
    struct sonde_profile *profile = cpu_profile();
    uint32_t mapping = add_mapping(profile, "/usr/bin/redis", "abcd");
    uint32_t stack[] = {add_location(profile, mapping, 0x400010, "work", file),
                        add_location(profile, mapping, 0x400020, "main", file)};
    add_sample(profile, stack, 2, "io", 8, 10 * MS);
    add_sample(profile, stack, 2, "io", 9, 20 * MS);
    add_sample(profile, stack + 1, 1, "redis", 7, 5 * MS);
    return profile;
}

static struct store_batch add(struct sonde_profile *profile) {
    struct record record = record_of(profile);
    CHECK_INT(batch_add(&batch, &record, 0, NULL), ==, SONDE_OK);
    return batch_get(&batch);
}

static void clear(struct sonde_profile *profile) {
    batch_clear(&batch);
    sonde_profile_destroy(profile);
}

static void restart(void) {
    batch_finish(&batch);
    batch_init(&batch, 77, 3, "web-1");
}

TEST(a_window_has_everything_that_identifies_it) {
    restart();
    struct sonde_profile *profile = simple_profile("");
    snprintf(target.labels, sizeof target.labels, "team=search");
    struct record record = record_of(profile);
    CHECK_INT(batch_add(&batch, &record, 100, NULL), ==, SONDE_OK);
    struct store_batch got = batch_get(&batch);
    CHECK_INT(got.window_count, ==, 1);
    const struct store_window *window = &got.windows[0];
    CHECK(window->source == 77 && window->epoch == 3 && window->seq == 1);
    CHECK_STR(window->event, "on-cpu");
    CHECK_STR(window->service, "redis");
    CHECK_STR(window->host, "web-1");
    CHECK_STR(window->instance, target.uuid);
    CHECK_INT(window->pid, ==, 7);
    CHECK_INT(window->start_unix_ns, ==, 42);
    CHECK_INT(window->begin_unix_s, ==, 1000);
    CHECK_INT(window->length_s, ==, 10);
    CHECK_INT(window->period_ns, ==, 52631579);
    CHECK(window->weight == 1);
    CHECK_STR(window->clock, "perf-sigtrap");
    CHECK_INT(window->samples, ==, 3);
    CHECK_INT(window->dropped, ==, 101); /* with what was lost before */
    CHECK_INT(window->truncated, ==, 2);
    CHECK_INT(window->cpu_from_ns, ==, 700);
    CHECK_INT(window->cpu_until_ns, ==, 900);
    CHECK_INT(window->label_count, ==, 2);
    CHECK_STR(window->labels[1].key, "team");
    CHECK_INT(store_check(&got, NULL), ==, SONDE_OK);
    target.labels[0] = 0;
    clear(profile);
}

TEST(rows_are_summed_by_stack_and_thread_name) {
    restart();
    struct sonde_profile *profile = simple_profile("");
    struct store_batch got = add(profile);
    const struct store_window *window = &got.windows[0];
    CHECK_INT(window->row_count, ==, 2);
    CHECK_INT(window->thread_count, ==, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const char *thread = window->threads[window->thread[i]];
        bool is_io = strcmp(thread, "io") == 0;
        CHECK_INT(window->value[i], ==, is_io ? 30 * MS : 5 * MS);
    }
    CHECK_INT(got.stack_count, ==, 2);
    CHECK_INT(got.frame_count, ==, 2);
    uint64_t work = store_frame_id("abcd", "/usr/bin/redis", 0x1010, "work");
    uint64_t frames[] = {work, store_frame_id("abcd", "/usr/bin/redis", 0x1020, "main")};
    CHECK(got.stacks[0].frame_count == 2 && got.stacks[0].frames[0] == work);
    CHECK(got.stacks[0].id == store_stack_id("redis", frames, 2));
    CHECK_INT(got.frames[0].address, ==, 0x1010); /* of the file */
    CHECK_STR(got.frames[0].build_id, "abcd");
    CHECK_STR(got.frames[0].lines[0].function, "work");
    clear(profile);
}

TEST(the_main_thread_has_no_name) {
    struct sonde_profile *profile = cpu_profile();
    uint32_t stack =
        add_location(profile, add_mapping(profile, "/usr/bin/redis", "abcd"), 0x400010, "main", "");
    add_sample(profile, &stack, 1, "redis-server", target.pid, 5 * MS);
    add_sample(profile, &stack, 1, "redis-server", target.pid + 1, 5 * MS);
    struct store_batch sent = add(profile);
    CHECK_INT(sent.windows[0].thread_count, ==, 2);
    CHECK_STR(sent.windows[0].threads[0], "");
    CHECK_STR(sent.windows[0].threads[1], "redis-server");
    clear(profile);
}

TEST(stacks_and_frames_are_sent_once_and_better_names_again) {
    restart();
    struct sonde_profile *profile = simple_profile("");
    CHECK_INT(add(profile).frames[0].version, ==, 1);
    clear(profile);
    profile = simple_profile("");
    struct store_batch got = add(profile);
    CHECK(got.window_count == 1 && got.stack_count == 0 && got.frame_count == 0);
    CHECK_INT(got.windows[0].seq, ==, 2);
    clear(profile);
    profile = simple_profile("redis.c");
    got = add(profile);
    CHECK(got.stack_count == 0 && got.frame_count == 2);
    CHECK_INT(got.frames[0].version, ==, 2);
    CHECK_STR(got.frames[0].lines[0].file, "redis.c");
    clear(profile);
    profile = simple_profile(""); /* worse again */
    CHECK_INT(add(profile).frame_count, ==, 0);
    clear(profile);
    batch_forget(&batch);
    profile = simple_profile("");
    got = add(profile);
    CHECK(got.stack_count == 2 && got.frame_count == 2);
    clear(profile);
}

TEST(a_frame_without_names_has_version_0_and_is_sent_again_when_it_has_some) {
    restart();
    for (int named = 0; named < 2; named++) {
        struct sonde_profile *profile = cpu_profile();
        uint32_t mapping = add_mapping(profile, "/lib/x.so", "");
        uint32_t leaf = add_location(profile, mapping, 0x400010, named ? "f" : NULL, "");
        add_sample(profile, &leaf, 1, "t", 1, MS);
        struct store_batch got = add(profile);
        CHECK_INT(got.frame_count, ==, 1);
        CHECK_INT(got.frames[0].version, ==, named);
        CHECK_INT(got.frames[0].line_count, ==, named);
        CHECK_STR(got.frames[0].module, "/lib/x.so");
        clear(profile);
    }
}

TEST(generated_code_is_identified_by_its_function) {
    uint64_t ids[2];
    restart();
    for (int i = 0; i < 2; i++) {
        struct sonde_profile *profile = cpu_profile();
        uint32_t mapping = add_mapping(profile, "[anon]", "");
        uint32_t leaf = add_location(profile, mapping, 0x400010 + (uint64_t)i * 64, "Js.run", "");
        add_sample(profile, &leaf, 1, "t", 1, MS);
        struct store_batch got = add(profile);
        ids[i] = got.windows[0].stack[0];
        if (i == 0) {
            CHECK_STR(got.frames[0].module, "");
            CHECK_INT(got.frames[0].address, ==, 0);
        }
        clear(profile);
    }
    CHECK(ids[0] == ids[1]);
}

TEST(threads_beyond_the_limit_share_a_name) {
    restart();
    struct sonde_profile *profile = cpu_profile();
    uint32_t leaf = add_location(profile, 0, 0, "f", "");
    for (int i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        add_sample(profile, &leaf, 1, name, i, MS);
    }
    struct store_batch got = add(profile);
    CHECK_INT(got.windows[0].thread_count, ==, STORE_MAX_THREADS);
    CHECK_STR(got.windows[0].threads[254], "(other threads)");
    int64_t sum = 0;
    for (uint32_t i = 0; i < got.windows[0].row_count; i++)
        sum += got.windows[0].value[i];
    CHECK_INT(sum, ==, 300 * MS);
    CHECK_INT(store_check(&got, NULL), ==, SONDE_OK);
    clear(profile);
}

TEST(texts_are_cut_to_the_stores_bounds_between_characters) {
    restart();
    char *name = malloc(20001);
    for (int i = 0; i < 10000; i++)
        memcpy(name + 2 * i, "\xc3\xa9", 3);
    struct sonde_profile *profile = cpu_profile();
    name[STORE_MAX_TEXT + 1] = 'x'; /* so that the cut would be inside a character */
    uint32_t mapping = add_mapping(profile, "/x", "ab");
    uint32_t leaf = add_location(profile, mapping, 0x400010, name + 1 + 1, "");
    add_sample(profile, &leaf, 1, "t", 1, MS);
    struct store_batch got = add(profile);
    CHECK_INT(strlen(got.frames[0].lines[0].function), <=, STORE_MAX_SYMBOL);
    CHECK_INT(store_check(&got, NULL), ==, SONDE_OK);
    free(name);
    clear(profile);
}

TEST(an_idle_process_has_an_empty_window) {
    restart();
    struct sonde_profile *profile = cpu_profile();
    struct store_batch got = add(profile);
    CHECK_INT(got.window_count, ==, 1);
    CHECK_INT(got.windows[0].row_count, ==, 0);
    CHECK_INT(store_check(&got, NULL), ==, SONDE_OK);
    clear(profile);
}

TEST(lengths_are_whole_seconds_within_bounds) {
    static const struct {
        int64_t begin_ms, end_ms;
        int64_t begin_s, length_s;
    } cases[] = {
        {3400, 10000, 3, 7}, {10000, 20000, 10, 10}, {10001, 10002, 10, 1}, {0, 7200000, 0, 3600}};
    restart();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sonde_profile *profile = cpu_profile();
        struct record record = record_of(profile);
        record.begin_unix_ns = cases[i].begin_ms * MS;
        record.end_unix_ns = cases[i].end_ms * MS;
        CHECK_INT(batch_add(&batch, &record, 0, NULL), ==, SONDE_OK);
        const struct store_window *window = &batch_get(&batch).windows[0];
        CHECK_INT(window->begin_unix_s, ==, cases[i].begin_s);
        CHECK_INT(window->length_s, ==, cases[i].length_s);
        clear(profile);
    }
}

TEST(a_record_becomes_a_window_of_its_event) {
    static const enum sonde_event_id events[] = {SONDE_MEM_INUSE, SONDE_MEM_ALLOC, SONDE_OFF_CPU};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        const struct sonde_event *event = &sonde_events[events[i]];
        const struct sonde_value_type types[] = {{"objects", "count"}, event->amount.type};
        struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
        uint32_t mapping = add_mapping(profile, "/usr/bin/redis", "abcd");
        uint32_t leaf = add_location(profile, mapping, 0x400010, "a", "");
        struct sonde_sample sample = {
            .locations = &leaf, .location_count = 1, .values = (int64_t[]){1, 300}};
        CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
        restart();
        struct record record = record_of(profile);
        record.event = events[i];
        CHECK_INT(batch_add(&batch, &record, 0, NULL), ==, SONDE_OK);
        struct store_batch got = batch_get(&batch);
        CHECK_INT(got.window_count, ==, 1);
        CHECK_STR(got.windows[0].event, event->name);
        CHECK_INT(got.windows[0].row_count, ==, 1);
        CHECK_INT(got.windows[0].value[0], ==, 300);
        CHECK_INT(store_check(&got, NULL), ==, SONDE_OK);
        clear(profile);
    }
}

TEST(a_profile_without_the_events_amount_makes_no_window) {
    restart();
    struct sonde_profile *profile = simple_profile("redis.c");
    struct record record = record_of(profile);
    record.event = SONDE_MEM_INUSE;
    CHECK_INT(batch_add(&batch, &record, 0, NULL), ==, SONDE_OK);
    CHECK_INT(batch_get(&batch).window_count, ==, 0);
    clear(profile);
}

/* ---- Through a store ---- */

TEST(a_batch_that_is_written_twice_counts_once) {
    restart();
    struct store *store = fake_store_create();
    struct store_put_result result;
    struct sonde_profile *profile = simple_profile("redis.c");
    struct store_batch got = add(profile);
    CHECK_INT(store_put(store, &got, &result, NULL), ==, SONDE_OK);
    CHECK_INT(result.stored, ==, 1);
    CHECK_INT(store_put(store, &got, &result, NULL), ==, SONDE_OK);
    CHECK_INT(result.duplicates, ==, 1);
    struct store_query query = {
        .service = "redis", .event = "on-cpu", .from_unix_s = 0, .until_unix_s = 2000};
    struct store_merge merge = {0};
    struct sonde_arena arena = {0};
    CHECK_INT(store->ops->merge(store, &query, &arena, &merge, NULL), ==, SONDE_OK);
    int64_t sum = 0;
    for (size_t i = 0; i < merge.row_count; i++)
        sum += merge.rows[i].value;
    CHECK_INT(sum, ==, 35 * MS);
    sonde_arena_finish(&arena);
    clear(profile);
    store_close(store);
}

TEST(totals_of_an_interval_share_its_identity) {
    restart();
    const struct totals_row rows[] = {{"redis", "", 5}, {"redis", "io", 7}};
    CHECK_INT(batch_add_totals(&batch, rows, 2, 10000 * MS, 20000 * MS), ==, SONDE_OK);
    struct store_batch got = batch_get(&batch);
    CHECK_INT(got.total_count, ==, 2);
    CHECK(got.totals[0].seq == 1 && got.totals[1].seq == 1);
    CHECK_STR(got.totals[1].thread, "io");
    CHECK_INT(got.totals[1].cpu_ns, ==, 7);
    CHECK_INT(got.totals[1].begin_unix_s, ==, 10);
    CHECK_INT(got.totals[1].length_s, ==, 10);
    CHECK_STR(got.totals[1].host, "web-1");
    CHECK_INT(batch.seq, ==, 2);
    CHECK_INT(store_check(&got, NULL), ==, SONDE_OK);
    batch_clear(&batch);
}
