/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/capture/samples.h"
#include "tests/unit/check.h"

#include <stdlib.h>

/* A capture with one open window, without a target. */
static struct cpu_capture *make_capture(struct engine *engine, uint64_t limit_samples) {
    struct cpu_capture *capture = calloc(1, sizeof *capture);
    capture->base.engine = engine;
    capture->limit_samples = limit_samples;
    capture->window.part_count = 1;
    return capture;
}

TEST(a_sample_without_room_drops_all_samples_that_it_stands_for) {
    struct engine *engine = calloc(1, sizeof *engine);
    struct cpu_capture *capture = make_capture(engine, 1000);
    capture->pending = 30;
    cpu_capture_count(capture, NULL, NULL);
    CHECK_INT(capture->dropped, ==, 30);
    CHECK_INT(capture->window.stacks_full, ==, 30);
    CHECK_INT(atomic_load(&engine->drops[DROP_STACKS_FULL]), ==, 30);
    CHECK_INT(capture->samples, ==, 0);
    CHECK_INT(atomic_load(&engine->samples_total), ==, 0);
    free(capture);
    free(engine);
}

TEST(a_sample_beyond_max_samples_counts_or_drops_only_the_rest) {
    struct engine *engine = calloc(1, sizeof *engine);
    struct cpu_capture *capture = make_capture(engine, 10);
    const struct count_key key = {.stack = 1};
    const struct spent note = {0};
    capture->pending = 7;
    cpu_capture_count(capture, &key, &note);
    CHECK_INT(capture->samples, ==, 7);
    cpu_capture_count(capture, NULL, NULL);
    CHECK_INT(capture->dropped, ==, 3);
    cpu_capture_count(capture, &key, &note);
    CHECK_INT(capture->samples, ==, 10);
    cpu_capture_count(capture, &key, &note);
    CHECK_INT(capture->samples, ==, 10);
    CHECK_INT(capture->window.parts[0].counts.total, ==, 10);
    counts_finish(&capture->window.parts[0].counts);
    free(capture);
    free(engine);
}

TEST(a_sample_for_which_the_user_has_no_memory_is_a_drop_of_its_own_cause) {
    struct engine *engine = calloc(1, sizeof *engine);
    struct cpu_capture *capture = make_capture(engine, 1000);
    capture->window.parts[0].stacks = stacks_create(0, 0);
    capture->window.parts[0].stacks->lacks_memory = true;
    capture->pending = 30;
    cpu_capture_count(capture, NULL, NULL);
    CHECK_INT(capture->window.lacking_memory, ==, 30);
    CHECK_INT(capture->window.stacks_full, ==, 0);
    CHECK_INT(atomic_load(&engine->drops[DROP_MEMORY]), ==, 30);
    CHECK_STR(drop_cause_name(DROP_MEMORY), "memory_of_user");
    stacks_release(capture->window.parts[0].stacks);
    free(capture);
    free(engine);
}
