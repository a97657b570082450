/* SPDX-License-Identifier: Apache-2.0
 *
 * A client can rebuild the engine's profiles from a stream of windows. */
#include "service/rpc/captures/window.h"

#include "proto/sonde/v1/profiler.pb-c.h"
#include "tests/unit/check.h"
#include "tests/unit/rpc/fake_parts.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST 200000

/* Everything that a client has received so far. */
static struct {
    char *strings[MOST];
    Sonde__V1__StreamFrame frames[MOST];
    Sonde__V1__StreamStack *stacks[MOST];
    size_t string_count, frame_count, stack_count;
    uint64_t count, cpu_ns;
    Sonde__V1__CpuWindow *saved[64]; /* messages that the fields above point into */
    size_t saved_count;
} reader;

static void forget(void) {
    for (size_t i = 0; i < reader.saved_count; i++)
        sonde__v1__cpu_window__free_unpacked(reader.saved[i], NULL);
    memset(&reader, 0, sizeof reader);
}

static const Sonde__V1__CpuWindow *take(grpc_slice slice) {
    Sonde__V1__CpuWindow *window =
        sonde__v1__cpu_window__unpack(NULL, GRPC_SLICE_LENGTH(slice), GRPC_SLICE_START_PTR(slice));
    CHECK(window != NULL);
    reader.saved[reader.saved_count++] = window;
    for (size_t i = 0; i < window->n_strings; i++)
        reader.strings[reader.string_count++] = window->strings[i];
    for (size_t i = 0; i < window->n_frames; i++) {
        CHECK_INT(window->frames[i]->function, <, reader.string_count);
        CHECK_INT(window->frames[i]->module, <=, reader.string_count);
        CHECK_INT(window->frames[i]->file, <=, reader.string_count);
        reader.frames[reader.frame_count++] = *window->frames[i];
    }
    for (size_t i = 0; i < window->n_stacks; i++) {
        for (size_t j = 0; j < window->stacks[i]->n_frames; j++)
            CHECK_INT(window->stacks[i]->frames[j], <, reader.frame_count);
        reader.stacks[reader.stack_count++] = window->stacks[i];
    }
    for (size_t i = 0; i < window->n_counts; i++) {
        CHECK_INT(window->counts[i]->stack, <, reader.stack_count);
        reader.count += window->counts[i]->count;
        reader.cpu_ns += window->counts[i]->cpu_ns;
    }
    return window;
}

static const char *function_of(uint32_t stack, size_t frame) {
    return reader.strings[reader.frames[reader.stacks[stack]->frames[frame]].function];
}

static struct rpc_result *make(uint32_t first, uint32_t stacks, uint32_t name_len) {
    struct engine_metadata metadata = {.sequence = 5,
                                       .period_ns = 10,
                                       .samples = stacks * 10u,
                                       .dropped = 3,
                                       .drops = {{"ring_full", 3}, {"contended", 0}},
                                       .drop_count = 2,
                                       .truncated = 4,
                                       .clock = "fake"};
    return rpc_result_create(NULL, fake_profile(first, stacks, name_len), &metadata);
}

/* Encodes a window and reads it as a client would. Returns the last message. */
static const Sonde__V1__CpuWindow *pass(struct window_dictionary *dictionary,
                                        struct rpc_result *window, const char *end_reason,
                                        size_t *part_count) {
    struct window_parts parts = {0};
    const Sonde__V1__CpuWindow *last = NULL;
    CHECK_INT(window_encode(dictionary, window, end_reason, &parts), ==, SONDE_OK);
    for (size_t i = 0; i < parts.count; i++) {
        CHECK_INT(GRPC_SLICE_LENGTH(parts.items[i]), <, 2u << 20);
        last = take(parts.items[i]);
        CHECK_INT(last->more, ==, i + 1 < parts.count);
        grpc_slice_unref(parts.items[i]);
    }
    if (part_count)
        *part_count = parts.count;
    free(parts.items);
    rpc_result_destroy(window);
    return last;
}

TEST(window_has_stacks_leaf_first_with_inlined_frames) {
    struct window_dictionary dictionary;
    window_dictionary_init(&dictionary, WINDOW_DICTIONARY_BYTES);
    const Sonde__V1__CpuWindow *window = pass(&dictionary, make(0, 2, 0), NULL, NULL);
    CHECK_INT(window->sequence, ==, 5);
    CHECK_INT(reader.stack_count, ==, 2);
    CHECK_INT(reader.stacks[0]->n_frames, ==, 3);
    CHECK_STR(function_of(0, 0), "inlined");
    CHECK_STR(function_of(0, 1), "f0");
    CHECK_STR(function_of(0, 2), "main");
    CHECK(reader.frames[reader.stacks[0]->frames[0]].inlined);
    CHECK(!reader.frames[reader.stacks[0]->frames[1]].inlined);
    CHECK_STR(reader.strings[reader.frames[0].module - 1], "demo");
    CHECK_STR(reader.strings[reader.frames[0].file - 1], "demo.c");
    CHECK_INT(reader.frames[0].line, ==, 10);
    CHECK_INT(reader.frames[0].address, ==, 0x5000);
    CHECK_STR(reader.strings[reader.stacks[0]->thread - 1], "worker");
    CHECK_INT(reader.stacks[0]->tid, ==, 7);
    CHECK_INT(reader.count, ==, 20);
    CHECK_INT(reader.cpu_ns, ==, 20000000);
    CHECK_INT(window->n_drops, ==, 1);
    CHECK_STR(window->drops[0]->cause, "ring_full");
    CHECK_INT(window->truncated, ==, 4);
    CHECK(!window->last);
    window_dictionary_finish(&dictionary);
    forget();
}

static const struct {
    const char *path, *module;
    enum sonde_frame_kind kind;
} places[] = {
    {"/usr/bin/demo", "demo", SONDE_FRAME_APPLICATION},
    {"/usr/lib/libc.so.6", "libc.so.6", SONDE_FRAME_LIBRARY},
    {"[kernel]", "[kernel]", SONDE_FRAME_KERNEL},
    {"[anon]", "[anon]", SONDE_FRAME_JIT},
    {NULL, NULL, SONDE_FRAME_UNKNOWN},
};
#define PLACES (sizeof places / sizeof *places)

/* A profile with one stack through frames of every kind, none of which has a name. */
static struct sonde_profile *place_all(void) {
    static const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    uint32_t locations[PLACES];
    CHECK(profile);
    for (uint32_t i = 0; i < PLACES; i++) {
        struct sonde_location location = {.address = 0x1000 * (i + 1), .kind = places[i].kind};
        struct sonde_mapping mapping = {.start = location.address, .limit = location.address + 1};
        if (places[i].path) {
            CHECK_INT(sonde_profile_string(profile, places[i].path, strlen(places[i].path),
                                           &mapping.filename),
                      ==, SONDE_OK);
            CHECK_INT(sonde_profile_add_mapping(profile, &mapping, &location.mapping), ==,
                      SONDE_OK);
        }
        CHECK_INT(sonde_profile_add_location(profile, &location, &locations[i]), ==, SONDE_OK);
    }
    int64_t values[2] = {1, 10};
    struct sonde_sample sample = {
        .locations = locations, .location_count = PLACES, .values = values};
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    return profile;
}

TEST(window_has_the_kind_and_the_module_offset_of_each_frame) {
    struct engine_metadata metadata = {.period_ns = 10, .samples = 1, .clock = "fake"};
    struct window_dictionary dictionary;
    window_dictionary_init(&dictionary, WINDOW_DICTIONARY_BYTES);
    pass(&dictionary, rpc_result_create(NULL, place_all(), &metadata), NULL, NULL);
    CHECK_INT(reader.stacks[0]->n_frames, ==, PLACES);
    for (uint32_t i = 0; i < PLACES; i++) {
        const Sonde__V1__StreamFrame *frame = &reader.frames[reader.stacks[0]->frames[i]];
        CHECK_INT(frame->kind, ==, places[i].kind);
        CHECK_INT(frame->address, ==, 0x1000 * (i + 1));
        CHECK_INT(frame->module != 0, ==, places[i].path != NULL);
        if (frame->module)
            CHECK_STR(reader.strings[frame->module - 1], places[i].module);
    }
    window_dictionary_finish(&dictionary);
    forget();
}

TEST(window_sends_each_name_frame_and_stack_only_once) {
    struct window_dictionary dictionary;
    window_dictionary_init(&dictionary, WINDOW_DICTIONARY_BYTES);
    pass(&dictionary, make(0, 3, 0), NULL, NULL);
    size_t strings = reader.string_count;
    const Sonde__V1__CpuWindow *second = pass(&dictionary, make(0, 3, 0), NULL, NULL);
    CHECK_INT(second->n_strings, ==, 0);
    CHECK_INT(second->n_frames, ==, 0);
    CHECK_INT(second->n_stacks, ==, 0);
    CHECK_INT(second->n_counts, ==, 3);
    const Sonde__V1__CpuWindow *third = pass(&dictionary, make(2, 2, 0), NULL, NULL);
    CHECK_INT(third->n_strings, ==, 1);
    CHECK_INT(third->n_stacks, ==, 1);
    CHECK_INT(reader.string_count, ==, strings + 1);
    CHECK_STR(function_of(3, 0), "f3");
    CHECK_INT(reader.count, ==, 80);
    window_dictionary_finish(&dictionary);
    forget();
}

TEST(window_larger_than_a_message_is_sent_in_parts) {
    struct window_dictionary dictionary;
    size_t parts = 0;
    window_dictionary_init(&dictionary, WINDOW_DICTIONARY_BYTES);
    const Sonde__V1__CpuWindow *last = pass(&dictionary, make(1, 3000, 1000), NULL, &parts);
    CHECK_INT(parts, >=, 3);
    CHECK_INT(reader.stack_count, ==, 3000);
    CHECK_INT(reader.count, ==, 30000);
    CHECK_INT(last->n_drops, ==, 1);
    CHECK_INT(reader.saved[0]->n_drops, ==, 0);
    CHECK_INT(reader.saved[0]->sequence, ==, last->sequence);
    window_dictionary_finish(&dictionary);
    forget();
}

TEST(a_window_that_overflows_the_dictionary_is_the_last_and_counts_its_drops) {
    struct window_dictionary dictionary;
    window_dictionary_init(&dictionary, 60000);
    const Sonde__V1__CpuWindow *last = pass(&dictionary, make(1, 1000, 10), NULL, NULL);
    CHECK(last->last);
    CHECK_STR(last->end_reason, "dictionary full");
    CHECK_INT(last->n_drops, ==, 2);
    CHECK_STR(last->drops[1]->cause, "dictionary_full");
    CHECK_INT(reader.count + last->drops[1]->count, ==, 10000);
    window_dictionary_finish(&dictionary);
    forget();
}

TEST(window_without_samples_is_a_valid_message) {
    struct window_dictionary dictionary;
    window_dictionary_init(&dictionary, WINDOW_DICTIONARY_BYTES);
    const Sonde__V1__CpuWindow *window = pass(&dictionary, make(0, 0, 0), "max_windows", NULL);
    CHECK_INT(window->n_counts, ==, 0);
    CHECK(window->last);
    CHECK_STR(window->end_reason, "max_windows");
    window_dictionary_finish(&dictionary);
    forget();
}

TEST(merging_windows_adds_their_values_and_counts_them) {
    struct window_dictionary dictionary;
    struct rpc_result *into = make(0, 2, 0), *from = make(1, 2, 0);
    from->metadata.sequence = 6;
    from->metadata.end_unix_ns = 77;
    rpc_result_merge(into, from);
    rpc_result_merge(into, make(0, 1, 0));
    CHECK_INT(into->merged, ==, 2);
    CHECK_INT(into->metadata.samples, ==, 50);
    CHECK_INT(into->metadata.dropped, ==, 9);
    CHECK_INT(into->metadata.drops[0].count, ==, 9);
    window_dictionary_init(&dictionary, WINDOW_DICTIONARY_BYTES);
    const Sonde__V1__CpuWindow *window = pass(&dictionary, into, NULL, NULL);
    CHECK_INT(window->merged, ==, 2);
    CHECK_INT(window->n_counts, ==, 3);
    CHECK_INT(reader.count, ==, 50);
    window_dictionary_finish(&dictionary);
    forget();
}

TEST(merging_into_a_full_profile_counts_the_lost_samples) {
    static const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    struct engine_metadata metadata = {.clock = ""};
    struct rpc_result *into =
        rpc_result_create(NULL, sonde_profile_create(types, 2, 600000), &metadata);
    rpc_result_merge(into, make(1, 100, 50));
    CHECK_INT(sonde_profile_total(into->profile, 0), ==, 1000);
    rpc_result_merge(into, make(101, 5000, 50));
    uint64_t held = (uint64_t)sonde_profile_total(into->profile, 0);
    CHECK_INT(held, <, 51000);
    CHECK_INT(into->metadata.samples, ==, held);
    CHECK_STR(into->metadata.drops[into->metadata.drop_count - 1].cause, "merge_full");
    CHECK_INT(into->metadata.drops[into->metadata.drop_count - 1].count + held, ==, 51000);
    rpc_result_destroy(into);
}
