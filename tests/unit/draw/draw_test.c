/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/timeline.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

#include <stdio.h>
#include <stdlib.h>

static char *drawn(const char *output, const char *name, bool split) {
    const struct sonde_format_info *info = sonde_format_from_output(sonde_slice_of(output));
    struct sonde_profile *profile = fixture(name);
    struct sonde_draw_options options = fixture_options(name);
    struct sonde_buf out = {0};
    options.split_threads = split;
    CHECK(info && profile);
    CHECK_INT(sonde_draw(profile, info->format, &options, &out, NULL), ==, SONDE_OK);
    sonde_profile_destroy(profile);
    size_t len;
    return sonde_buf_take(&out, &len);
}

TEST(draw_table_has_one_row_for_each_format_and_finds_it_by_each_name) {
    size_t count;
    const struct sonde_format_info *rows = sonde_format_table(&count);
    CHECK_INT(count, ==, sonde__v1__format__descriptor.n_values - 1); /* without UNSPECIFIED */
    for (size_t i = 0; i < count; i++) {
        CHECK(protobuf_c_enum_descriptor_get_value(&sonde__v1__format__descriptor, rows[i].format));
        char name[64];
        snprintf(name, sizeof name, "capture-7%s", rows[i].extension);
        CHECK(sonde_format_info(rows[i].format) == &rows[i]);
        enum sonde_subject subject = rows[i].offered & SONDE_OF_CPU          ? SONDE_OF_CPU
                                     : rows[i].offered & SONDE_OF_DIFFERENCE ? SONDE_OF_DIFFERENCE
                                                                             : SONDE_OF_HEAP;
        CHECK(sonde_format_from_output_of(sonde_slice_of(rows[i].output), subject) == &rows[i]);
        CHECK(sonde_format_from_output_of(sonde_slice_of(rows[i].output), 0) == NULL);
        CHECK(sonde_format_from_name(name) == &rows[i]);
        CHECK_INT(rows[i].is_drawn, ==, rows[i].format != SONDE_FORMAT_JEMALLOC);
    }
}

TEST(draw_table_has_one_legacy_format_per_subject) {
    struct sonde_slice legacy = sonde_slice_of("legacy");
    CHECK_INT(sonde_format_from_output(legacy)->format, ==, SONDE_FORMAT_LEGACY_CPU);
    CHECK_INT(sonde_format_from_output_of(legacy, SONDE_OF_HEAP)->format, ==,
              SONDE_FORMAT_LEGACY_HEAP);
    CHECK(sonde_format_from_output_of(legacy, SONDE_OF_ALLOCATIONS) == NULL);
    CHECK(sonde_format_from_output_of(sonde_slice_of("heapsnapshot"), SONDE_OF_CPU) == NULL);
}

TEST(draw_table_returns_null_for_unknown_formats) {
    CHECK(sonde_format_info(SONDE_FORMAT_UNSPECIFIED) == NULL);
    CHECK(sonde_format_info((enum sonde_format)99) == NULL);
    CHECK(sonde_format_from_output(sonde_slice_of("Proto")) == NULL);
    CHECK(sonde_format_from_output(sonde_slice_of("")) == NULL);
    CHECK(sonde_format_from_name("profile") == NULL);
    CHECK(sonde_format_from_name(".svg") == NULL);
}

TEST(draw_refuses_an_unknown_format_or_sample_type) {
    struct sonde_profile *profile = fixture("server");
    struct sonde_draw_options options = {.type_index = 2};
    struct sonde_buf out = {0};
    struct sonde_diag diag = {0};
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_JEMALLOC, NULL, &out, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "jeprof also reads \"legacy\"") != NULL);
    CHECK_INT(sonde_draw(profile, (enum sonde_format)99, NULL, &out, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "format 99") != NULL);
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_HEAPSNAPSHOT, NULL, &out, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "this profile measures samples") != NULL);
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_COLLAPSED, &options, &out, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK_INT(out.len, ==, 0);
    sonde_profile_destroy(profile);
}

TEST(draw_beyond_the_buffers_limit_is_too_large_in_every_format) {
    size_t count;
    const struct sonde_format_info *rows = sonde_format_table(&count);
    struct sonde_profile *profile = fixture("heap");
    for (size_t i = 0; i < count; i++) {
        struct sonde_buf out = {.limit = 100};
        if (rows[i].is_drawn && rows[i].format != SONDE_FORMAT_CHANGES)
            CHECK_INT(sonde_draw(profile, rows[i].format, NULL, &out, NULL), ==, SONDE_TOO_LARGE);
        sonde_buf_finish(&out);
    }
    sonde_profile_destroy(profile);
}

TEST(draw_of_an_empty_profile_is_never_empty) {
    size_t count;
    const struct sonde_format_info *rows = sonde_format_table(&count);
    for (size_t i = 0; i < count; i++) {
        struct sonde_profile *profile =
            fixture(rows[i].offered & SONDE_OF_CPU ? "empty" : "empty_heap");
        struct sonde_buf out = {0};
        if (!rows[i].is_drawn || rows[i].format == SONDE_FORMAT_CHANGES) {
            sonde_profile_destroy(profile);
            continue;
        }
        CHECK_INT(sonde_draw(profile, rows[i].format, NULL, &out, NULL), ==, SONDE_OK);
        CHECK_INT(out.len, >=, strlen("[]")); /* DeepFlow's array of no nodes */
        sonde_buf_finish(&out);
        sonde_profile_destroy(profile);
    }
}

TEST(draw_collapsed_of_nothing_is_one_line) {
    char *text = drawn("collapsed", "empty", false);
    CHECK_STR(text, "[no samples] 0\n");
    free(text);
}

TEST(draw_collapsed_split_has_thread_root_first_stack_and_count) {
    char *text = drawn("collapsed", "server", true);
    CHECK(strstr(text, "server;main;event_loop;process_events;read_query;parse_header;run_command "
                       "60\n") != NULL);
    free(text);
}

TEST(draw_collapsed_writes_a_semicolon_in_a_name_as_a_colon) {
    char *text = drawn("collapsed", "server", true);
    CHECK(strstr(text, "io:1;[truncated];copy_bytes 9\n") != NULL);
    free(text);
}

TEST(draw_collapsed_has_no_threads_unless_split) {
    char *text = drawn("collapsed", "server", false);
    CHECK(strstr(text, "\njobs;") == NULL && strncmp(text, "jobs;", 5) != 0);
    CHECK(strstr(text, "\nmain;event_loop;") != NULL || strncmp(text, "main;event_loop;", 16) == 0);
    free(text);
}

TEST(draw_collapsed_names_an_unnamed_frame_by_module_and_offset) {
    char *text = drawn("collapsed", "server", false);
    CHECK(strstr(text, ";[libfixture.so.1]+0x3222;do_syscall_64 30\n") != NULL);
    free(text);
}

TEST(draw_top_of_nothing_says_no_samples) {
    char *text = drawn("top", "empty", false);
    CHECK(strstr(text, "no samples\n") != NULL);
    free(text);
}

TEST(draw_top_counts_recursion_once) {
    char *text = drawn("top", "server", false);
    const char *line = strstr(text, "  get_key\n");
    CHECK(line != NULL);
    while (line > text && line[-1] != '\n')
        line--;
    long long flat, cum;
    double flat_percent, sum_percent, cum_percent;
    CHECK_INT(sscanf(line, "%lld %lf%% %lf%% %lld %lf%%", &flat, &flat_percent, &sum_percent, &cum,
                     &cum_percent),
              ==, 5);
    CHECK_INT(flat, ==, 123);
    CHECK_INT(cum, ==, 523); /* 400 + 120 + 3, not + 3 again */
    CHECK_NEAR(cum_percent, 100.0 * 523 / 972, 0.01);
    free(text);
}

TEST(draw_top_has_the_wanted_rows_order_and_width) {
    struct sonde_profile *profile = fixture("server");
    struct sonde_draw_options options = {.max_rows = 3, .max_columns = 69};
    struct sonde_buf out = {0};
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_TEXT_TOP, &options, &out, NULL), ==, SONDE_OK);
    const char *table = strstr(out.data, "Showing 3 of 14 functions\n");
    CHECK(table && strstr(table, "copy_bytes\n") && !strstr(table, "event_loop"));
    sonde_buf_finish(&out);
    options.by_total = true;
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_TEXT_TOP, &options, &out, NULL), ==, SONDE_OK);
    CHECK(strstr(out.data, "event_loop\n") && !strstr(out.data, "copy_bytes\n"));
    for (const char *at = strstr(out.data, "Showing"); *at; at += strcspn(at, "\n") + 1)
        CHECK_INT(strcspn(at, "\n"), <=, 69);
    sonde_buf_finish(&out);
    options.max_rows = 14;
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_TEXT_TOP, &options, &out, NULL), ==, SONDE_OK);
    CHECK(strstr(out.data, "Showing") == NULL);
    sonde_buf_finish(&out);
    sonde_profile_destroy(profile);
}

TEST(draw_top_of_several_processes_names_none_of_their_files) {
    struct sonde_profile *profile = fixture("empty");
    struct sonde_draw_options options = {0};
    struct sonde_buf out = {0};
    CHECK_INT(sonde_profile_add_comment(profile, "target: @all:redis-server"), ==, SONDE_OK);
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_TEXT_TOP, &options, &out, NULL), ==, SONDE_OK);
    CHECK(strstr(out.data, "File: all processes named redis-server\n") == out.data);
    sonde_buf_finish(&out);
    sonde_profile_destroy(profile);
    profile = fixture("empty");
    CHECK_INT(sonde_profile_add_comment(profile, "service: all"), ==, SONDE_OK);
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_TEXT_TOP, &options, &out, NULL), ==, SONDE_OK);
    CHECK(strstr(out.data, "File: all\n") == out.data);
    sonde_buf_finish(&out);
    sonde_profile_destroy(profile);
}

/* A stack of a process that calls "read". */
static void add_process(struct sonde_profile *profile, const char *process) {
    const char *const names[] = {"read", process};
    const int64_t value = 5;
    uint32_t ids[2];
    for (uint32_t i = 0; i < 2; i++) {
        struct sonde_function function = {0};
        struct sonde_line line = {0};
        const struct sonde_location location = {.line_count = 1, .lines = &line};
        CHECK_INT(sonde_profile_string(profile, names[i], strlen(names[i]), &function.name), ==, 0);
        CHECK_INT(sonde_profile_add_function(profile, &function, &line.function), ==, 0);
        CHECK_INT(sonde_profile_add_location(profile, &location, &ids[i]), ==, 0);
    }
    const struct sonde_sample sample = {.locations = ids, .location_count = 2, .values = &value};
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, 0);
}

TEST(draw_top_cuts_the_name_of_a_process_and_not_the_number_of_others) {
    const struct sonde_value_type type = {"cpu", "nanoseconds"};
    const struct sonde_draw_options options = {.has_processes = true};
    struct sonde_profile *profile = sonde_profile_create(&type, 1, 0);
    struct sonde_buf out = {0};
    add_process(profile, "clickhouse-server (pid 7)");
    add_process(profile, "clickhouse-server (pid 8)");
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_TEXT_TOP, &options, &out, NULL), ==, SONDE_OK);
    CHECK(strstr(out.data, "  clickhouse-… +1  ") != NULL);
    sonde_buf_finish(&out);
    sonde_profile_destroy(profile);
}

TEST(draw_pprof_is_compressed_unless_raw) {
    struct sonde_profile *profile = fixture("server");
    struct sonde_draw_options options = {.gzip_level = -1};
    struct sonde_buf raw = {0}, packed = {0};
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_PPROF, &options, &raw, NULL), ==, SONDE_OK);
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_PPROF, NULL, &packed, NULL), ==, SONDE_OK);
    CHECK_INT(raw.data[0], ==, 0x0a);
    CHECK_INT((unsigned char)packed.data[0], ==, 0x1f);
    CHECK_INT(packed.len, <, raw.len);
    sonde_buf_finish(&raw);
    sonde_buf_finish(&packed);
    sonde_profile_destroy(profile);
}

static uint64_t word(const struct sonde_buf *out, size_t index) {
    uint64_t value;
    CHECK_INT(8 * index + 8, <=, out->len);
    memcpy(&value, out->data + 8 * index, 8);
    return value;
}

TEST(draw_legacy_has_return_addresses_and_no_notes) {
    struct sonde_profile *profile = fixture("server");
    struct sonde_buf out = {0};
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_LEGACY_CPU, NULL, &out, NULL), ==, SONDE_OK);
    const uint64_t header[] = {0, 3, 0, 10101, 0};
    for (size_t i = 0; i < 5; i++)
        CHECK_INT(word(&out, i), ==, header[i]);
    CHECK_INT(word(&out, 5), ==, 400);
    CHECK_INT(word(&out, 6), ==, 7);
    CHECK_INT(word(&out, 7), ==, 0x7f0000001000);
    CHECK_INT(word(&out, 11), ==, 0x403010 + 1);
    size_t at = 5, ones = 0;
    for (; word(&out, at) != 0; at += 2 + word(&out, at + 1))
        ones += word(&out, at + 1) == 1; /* "[truncated]" below copy_bytes is omitted */
    CHECK_INT(ones, ==, 1);
    CHECK_INT(word(&out, at + 1), ==, 1);
    CHECK_INT(word(&out, at + 2), ==, 0);
    static const char maps[] = "00400000-00500000 r-xp 00000000 00:00 0 /opt/fixture/bin/server\n";
    CHECK(strncmp(out.data + 8 * (at + 3), maps, sizeof maps - 1) == 0);
    sonde_buf_finish(&out);
    sonde_profile_destroy(profile);
}

/* A sample of depth frames f1 to fN, root first. The caller destroys the profile. */
static struct sonde_profile *deep(int depth) {
    const struct sonde_value_type type = {"cpu", "nanoseconds"};
    struct sonde_profile *profile = sonde_profile_create(&type, 1, 0);
    uint32_t locations[64];
    for (int i = 1; i <= depth; i++) {
        char name[200];
        struct sonde_function function = {0};
        struct sonde_line line = {0};
        struct sonde_location location = {
            .address = (uint64_t)i, .line_count = 1, .lines = &line, .kind = SONDE_FRAME_JIT};
        snprintf(name, sizeof name, "f%d|`", i);
        if (i == 2)
            memset(name + 4, 'x', sizeof name - 4 - 1), name[sizeof name - 1] = 0;
        CHECK_INT(sonde_profile_string(profile, name, strlen(name), &function.name), ==, SONDE_OK);
        CHECK_INT(sonde_profile_add_function(profile, &function, &line.function), ==, SONDE_OK);
        CHECK_INT(sonde_profile_add_location(profile, &location, &locations[depth - i]), ==,
                  SONDE_OK);
    }
    const int64_t value = 5;
    const struct sonde_sample sample = {
        .locations = locations, .location_count = (uint32_t)depth, .values = &value};
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    return profile;
}

TEST(draw_markdown_leaves_out_the_middle_of_deep_stacks) {
    struct sonde_profile *profile = deep(60);
    struct sonde_buf out = {0};
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_MARKDOWN, NULL, &out, NULL), ==, SONDE_OK);
    CHECK(strstr(out.data, " → `f6|'` → (36 frames) → `f43|'` → `f44|'` → ") != NULL);
    CHECK(strstr(out.data, " → `f60|'`\n") != NULL);
    CHECK(strstr(out.data, "`f1\\|'`") != NULL); /* a bar in a cell is escaped */
    CHECK(strstr(out.data, "xx…` |") != NULL);
    sonde_buf_finish(&out);
    sonde_profile_destroy(profile);
}

TEST(draw_markdown_has_whole_comments_of_ordinary_length) {
    struct sonde_profile *profile = deep(3);
    struct sonde_buf out = {0};
    char comment[701];
    memset(comment, 'x', 700);
    memcpy(comment + 400, " use a smaller interval", 23);
    comment[700] = 0;
    CHECK_INT(sonde_profile_add_comment(profile, comment), ==, SONDE_OK);
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_MARKDOWN, NULL, &out, NULL), ==, SONDE_OK);
    CHECK(strstr(out.data, " use a smaller interval") && strstr(out.data, "xxx…`\n"));
    sonde_buf_finish(&out);
    sonde_profile_destroy(profile);
}

TEST(draw_markdown_shows_a_stack_of_the_limit_whole) {
    struct sonde_profile *profile = deep(24);
    struct sonde_buf out = {0};
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_MARKDOWN, NULL, &out, NULL), ==, SONDE_OK);
    CHECK(strstr(out.data, " frames) → ") == NULL);
    CHECK(strstr(out.data, " → `f7|'` → ") != NULL);
    sonde_buf_finish(&out);
    sonde_profile_destroy(profile);
}

/* Two stacks: 3 samples of 30,000,001 ns in all in the bins 2, 4 and 4, one of 5 ms in bin 4. */
static struct sonde_profile *timed(void) {
    const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    static const struct sonde_timeline_entry entries[] = {{0, 2, 1}, {0, 4, 2}, {1, 4, 1}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    for (uint32_t i = 0; i < 2; i++) {
        const int64_t values[] = {i ? 1 : 3, i ? 5000000 : 30000001};
        struct sonde_location location = {.address = 16 + i};
        uint32_t id;
        CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
        struct sonde_sample sample = {.locations = &id, .location_count = 1, .values = values};
        CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    }
    struct sonde_timeline *timeline = calloc(1, sizeof *timeline);
    timeline->entries = malloc(sizeof entries);
    memcpy(timeline->entries, entries, sizeof entries);
    timeline->count = 3;
    sonde_profile_set_timeline(profile, timeline);
    return profile;
}

TEST(draw_firefox_places_samples_in_their_bins) {
    struct sonde_profile *profile = timed();
    struct sonde_buf out = {0};
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_FIREFOX, NULL, &out, NULL), ==, SONDE_OK);
    CHECK(strstr(out.data, "\"samples\":{\"length\":3,\"weightType\":\"tracing-ms\","
                           "\"stack\":[0,0,1],\n\"time\":[40.000000,80.000000,90.000000],\n"
                           "\"weight\":[10.000000,20.000001,5.000000]}") != NULL);
    CHECK(strstr(out.data, "Each sample is in the 20 ms in which it was taken.") != NULL);
    sonde_buf_finish(&out);
    sonde_profile_destroy(profile);
}

/* As `go tool pprof -base` writes it: nothing says that it is a difference. */
static char *drawn_with_negatives(enum sonde_format format) {
    const int64_t grown[] = {300, 3000}, shrunk[] = {-600, -6000};
    struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    struct sonde_profile *both = sonde_profile_create(types, 2, 0);
    const struct sonde_sample none = {.values = grown};
    CHECK_INT(sonde_profile_add_sample(both, &none), ==, SONDE_OK);
    struct sonde_location place = {.address = 16};
    uint32_t location;
    CHECK_INT(sonde_profile_add_location(both, &place, &location), ==, SONDE_OK);
    const struct sonde_sample less = {
        .locations = &location, .location_count = 1, .values = shrunk};
    CHECK_INT(sonde_profile_add_sample(both, &less), ==, SONDE_OK);
    struct sonde_buf out = {0};
    CHECK_INT(sonde_draw(both, format, NULL, &out, NULL), ==, SONDE_OK);
    sonde_profile_destroy(both);
    size_t len;
    return sonde_buf_take(&out, &len);
}

TEST(draw_says_what_negative_values_count_as) {
    char *text = drawn_with_negatives(SONDE_FORMAT_SVG_FLAMEGRAPH);
    CHECK(strstr(text, "300 samples · 1 stack has a negative value, counted as 0") != NULL);
    free(text);
    text = drawn_with_negatives(SONDE_FORMAT_SVG_CALLGRAPH);
    CHECK(strstr(text, "1 stack has a negative value, counted as 0") != NULL);
    free(text);
    text = drawn_with_negatives(SONDE_FORMAT_TEXT_TOP);
    CHECK(strstr(text, "# 1 stack has a negative value; percentages are shares of the sum without "
                       "signs\n") != NULL);
    CHECK(strstr(text, "      -600 -66.67% -66.67%       -600 -66.67%  0x10\n") != NULL);
    free(text);
    text = drawn_with_negatives(SONDE_FORMAT_MARKDOWN);
    CHECK(strstr(text, "\n- 1 stack has a negative value; percentages") != NULL);
    CHECK(strstr(text, "(-66.7 %)") != NULL);
    free(text);
    text = drawn_with_negatives(SONDE_FORMAT_COLLAPSED);
    CHECK_STR(text, "[no stack] 300\n0x10 -600\n"
                    "[1 stack has a negative value, left out by many readers] 0\n");
    free(text);
}
