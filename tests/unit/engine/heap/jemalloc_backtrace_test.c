/* SPDX-License-Identifier: Apache-2.0
 *
 * E30: Sonde's backtrace hook returns the same stacks as jemalloc's own. Stacks are compared by
 * function names, between a program that profiles itself and one whose profiling Sonde switched
 * on. */
#include "tests/unit/engine/heap/stage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_STACKS 256

struct stacks {
    char *texts[MOST_STACKS];
    size_t count;
};

static void append_names(const struct sonde_profile *profile, uint32_t id, struct sonde_buf *text) {
    const struct sonde_location *location = sonde_profile_location(profile, id);
    for (uint32_t at = 0; at < location->line_count; at++) {
        uint32_t function = location->lines[at].function;
        sonde_buf_printf(
            text, "%s;",
            sonde_profile_text(profile, sonde_profile_function(profile, function)->name));
    }
    if (location->line_count == 0)
        sonde_buf_puts(text, "?;");
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The stacks of the holder's functions, sorted. */
static struct stacks collect(const struct sonde_profile *profile) {
    struct stacks stacks = {0};
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        struct sonde_buf text = {0};
        for (uint32_t at = 0; at < sample.location_count; at++)
            append_names(profile, sample.locations[at], &text);
        size_t len;
        if (strstr(text.data, "hold_") && stacks.count < MOST_STACKS)
            stacks.texts[stacks.count++] = sonde_buf_take(&text, &len);
        sonde_buf_finish(&text);
    }
    qsort(stacks.texts, stacks.count, sizeof *stacks.texts, by_text);
    return stacks;
}

static void stacks_finish(struct stacks *stacks) {
    while (stacks->count > 0)
        free(stacks->texts[--stacks->count]);
}

/* The leading pcs in libjemalloc of the raw stack that holds most. */
static uint32_t leaf_frames(struct stage *stage) {
    struct got got = stage_get(stage, (struct engine_heap_query){.raw = true});
    CHECK_INT(got.err, ==, SONDE_OK);
    uint64_t low = UINT64_MAX, high = 0;
    for (const char *at = got.result.text.data; (at = strstr(at, "libjemalloc")); at++) {
        unsigned long long start, end;
        const char *line = at;
        while (line > got.result.text.data && line[-1] != '\n')
            line--;
        CHECK_INT(sscanf(line, "%llx-%llx", &start, &end), ==, 2);
        low = start < low ? start : low;
        high = end > high ? end : high;
    }
    const char *at = strstr(got.result.text.data, "\n@ ");
    uint32_t frames = 0;
    for (char *next = (char *)at + 2;; frames++) {
        uint64_t pc = strtoull(next, &next, 16);
        if (pc < low || pc >= high)
            break;
    }
    got_finish(&got);
    return frames;
}

static void hold_everything(struct stage *stage) {
    stage_tell(stage, 's');
    stage_tell(stage, 'd');
    stage_tell(stage, 't');
}

static struct stacks stacks_of(struct stage *stage) {
    struct got got = stage_get(stage, (struct engine_heap_query){0});
    CHECK_INT(got.err, ==, SONDE_OK);
    struct stacks stacks = collect(got.result.profile);
    got_finish(&got);
    return stacks;
}

/* The unwind tables arrive after the activation. Until then jemalloc's own backtrace walks, with
 * one more frame. */
static void wait_for_hook(struct stage *stage, uint32_t own_frames) {
    for (int i = 0; i < 200; i++) {
        CHECK_INT(stage_ask_verb(stage, ENGINE_HEAP_RESET).err, ==, SONDE_OK);
        stage_tell(stage, 'd');
        if (leaf_frames(stage) == own_frames - 1)
            break;
        stage_tell(stage, 'f');
        usleep(50000);
    }
    CHECK_INT(leaf_frames(stage), ==, own_frames - 1);
    stage_tell(stage, 'f');
    CHECK_INT(stage_ask_verb(stage, ENGINE_HEAP_RESET).err, ==, SONDE_OK);
}

TEST(e30_stacks_are_those_of_jemallocs_own_backtrace) {
    struct stage own, ours;
    stage_init(&own, "prof:true,lg_prof_sample:16", NULL);
    hold_everything(&own);
    struct stacks expected = stacks_of(&own);
    uint32_t own_frames = leaf_frames(&own);
    stage_finish(&own);
    stage_init(&ours, STAGE_PROF, NULL);
    CHECK_INT(stage_ask_verb(&ours, ENGINE_HEAP_ACTIVATE).err, ==, SONDE_OK);
    wait_for_hook(&ours, own_frames);
    hold_everything(&ours);
    struct stacks found = stacks_of(&ours);
    CHECK(expected.count >= 5);
    for (size_t i = 0; i < expected.count && i < found.count; i++)
        CHECK_STR(found.texts[i], expected.texts[i]);
    CHECK_INT(found.count, ==, expected.count);
    stacks_finish(&expected);
    stacks_finish(&found);
    stage_finish(&ours);
}

/* Each switch replaces the backtrace while threads are inside the allocator. */
TEST(e30_switching_in_a_storm_of_allocations_is_safe_and_changes_no_estimate) {
    struct stage stage;
    stage_init(&stage, STAGE_PROF, NULL);
    stage_tell(&stage, 'w');
    for (int i = 0; i < 20; i++) {
        CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE).err, ==, SONDE_OK);
        if (i % 5 == 0) {
            struct got got = stage_get(&stage, (struct engine_heap_query){.require_active = true});
            CHECK_INT(got.err, ==, SONDE_OK);
            got_finish(&got);
        }
        CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_DEACTIVATE).err, ==, SONDE_OK);
    }
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE).err, ==, SONDE_OK);
    stage_tell(&stage, 's');
    stage_tell(&stage, 'W'); /* every thread still makes progress */
    struct got got = stage_get(&stage, (struct engine_heap_query){0});
    CHECK_INT(got.err, ==, SONDE_OK);
    int64_t small = profile_bytes(got.result.profile, "hold_small");
    CHECK(small > 55700000 && small < 75400000); /* 65.5 MB in 1,000 samples: 4.7 sigma */
    CHECK(profile_bytes(got.result.profile, "hold_large") >= 50 << 20);
    got_finish(&got);
    stage_finish(&stage);
}

/* Of a stack deeper than jemalloc's limit of 128, two of which are for tags, both ends are kept. 3
 * frames are jemalloc's, and one is the note. */
TEST(a_deep_stack_keeps_its_leaf_and_its_root_and_says_so) {
    struct stage stage;
    stage_init(&stage, STAGE_PROF, NULL);
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE).err, ==, SONDE_OK);
    stage_tell(&stage, 'd');
    wait_for_hook(&stage, 4);
    stage_tell(&stage, 'D');
    struct got got = stage_get(&stage, (struct engine_heap_query){0});
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK(profile_bytes(got.result.profile, "hold_deep") >= 20 << 20);
    CHECK(profile_bytes(got.result.profile, "main") >= 20 << 20);
    CHECK(profile_bytes(got.result.profile, "[truncated]") >= 20 << 20);
    CHECK_INT(sonde_profile_sample(got.result.profile, 0).location_count, ==, 124);
    got_finish(&got);
    stage_finish(&stage);
}

TEST(the_original_backtrace_is_back_after_deactivation_and_when_sonded_is_away) {
    struct stage stage;
    stage_init(&stage, STAGE_PROF, NULL);
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE).err, ==, SONDE_OK);
    stage_tell(&stage, 'd');
    wait_for_hook(&stage, 4);
    engine_destroy(stage.engine);
    stage_tell(&stage, 's');
    stage.engine = place_engine(&stage.place);
    stage_wait_attached(&stage);
    struct stacks stacks = stacks_of(&stage);
    CHECK_INT(stacks.count, ==, 3);
    stacks_finish(&stacks);
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_DEACTIVATE).err, ==, SONDE_OK);
    stage_tell(&stage, 'f');
    stage_tell(&stage, 's'); /* not sampled, and not affected */
    stage_finish(&stage);
}

TEST(h15_a_thousand_deactivations_and_activations_leak_nothing) {
    struct stage stage;
    stage_init(&stage, STAGE_PROF, NULL);
    struct engine_heap_request off = {.verb = ENGINE_HEAP_DEACTIVATE};
    for (int i = 0; i < 1000; i++) {
        CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE).err, ==, SONDE_OK);
        CHECK_INT(stage_ask(&stage, off).err, ==, SONDE_OK);
        if (i % 250 == 0)
            stage_tell(&stage, 't');
    }
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE).err, ==, SONDE_OK);
    stage_tell(&stage, 'd');
    struct got got = stage_get(&stage, (struct engine_heap_query){0});
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK(profile_bytes(got.result.profile, "hold_deep") >= 20 << 20);
    got_finish(&got);
    stage_finish(&stage);
}
