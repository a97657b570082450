/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/ids.h"
#include "service/store/store.h"
#include "tests/unit/check.h"

#include <math.h>
#include <string.h>

static const char *const thread_names[] = {"main"};
static const uint64_t stacks[] = {7};
static const uint8_t threads[] = {0};
static const int64_t values[] = {52631578};

static struct store_window good_window(void) {
    return (struct store_window){
        .event = "on-cpu",
        .service = "redis",
        .host = "a",
        .instance = "00112233445566778899aabbccddeeff",
        .clock = "perf",
        .begin_unix_s = 1700000000,
        .length_s = 10,
        .weight = 1,
        .threads = thread_names,
        .thread_count = 1,
        .stack = stacks,
        .thread = threads,
        .value = values,
        .row_count = 1,
    };
}

static sonde_err check(const struct store_window *window, struct sonde_diag *diag) {
    struct store_batch batch = {.windows = window, .window_count = 1};
    return store_check(&batch, diag);
}

TEST(check_accepts_a_window_within_the_bounds) {
    struct store_window window = good_window();
    CHECK_INT(check(&window, NULL), ==, SONDE_OK);
}

TEST(check_refuses_each_value_out_of_bounds) {
    char long_text[STORE_MAX_TEXT + 2];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    struct store_window windows[8];
    for (int i = 0; i < 8; i++)
        windows[i] = good_window();
    windows[0].length_s = 0;
    windows[1].length_s = 3601;
    windows[2].begin_unix_s = -1;
    windows[3].weight = NAN;
    windows[4].weight = 0;
    windows[5].service = long_text;
    windows[6].thread_count = 0; /* the row's thread is then out of range */
    windows[7].service = "";
    for (int i = 0; i < 8; i++) {
        struct sonde_diag diag = {0};
        CHECK_INT(check(&windows[i], &diag), ==, SONDE_INVALID_ARGUMENT);
        CHECK(strstr(diag.text, "must have") != NULL);
    }
}

TEST(check_refuses_a_stack_and_a_frame_that_are_too_deep) {
    struct store_stack stack = {.service = "s", .frame_count = STORE_MAX_DEPTH + 1};
    struct store_batch batch = {.stacks = &stack, .stack_count = 1};
    CHECK_INT(store_check(&batch, NULL), ==, SONDE_INVALID_ARGUMENT);
    struct store_frame frame = {.build_id = "", .module = "", .line_count = STORE_MAX_LINES + 1};
    batch = (struct store_batch){.frames = &frame, .frame_count = 1};
    CHECK_INT(store_check(&batch, NULL), ==, SONDE_INVALID_ARGUMENT);
}

TEST(ids_depend_on_contents_alone) {
    uint64_t frames[] = {store_frame_id("ab12", "/bin/x", 16, "main"),
                         store_frame_id("ab12", "/bin/y", 16, "other")};
    CHECK(frames[0] == frames[1]); /* the build-id decides, not path or name */
    CHECK(store_frame_id("", "/bin/x", 16, "") != store_frame_id("", "/bin/y", 16, ""));
    CHECK(store_frame_id("", "", 0, "a") != store_frame_id("", "", 0, "b"));
    CHECK(store_stack_id("a", frames, 2) != store_stack_id("b", frames, 2));
    CHECK(store_stack_id("a", frames, 2) != store_stack_id("a", frames, 1));
    /* Other programs compute ids, too: printf 'frame\0ab12\0\0\0\0\0\0\0\0\20' | sha256sum */
    CHECK(frames[0] == 0x2d93fac1d8519004);
}

TEST(a_query_ends_when_it_is_stopped_or_its_deadline_has_passed) {
    struct store_stop stop = {.deadline_ns = 0};
    struct sonde_diag diag = {0};
    CHECK_INT(store_stop_check(NULL, &diag), ==, SONDE_OK);
    CHECK_INT(store_stop_check(&stop, &diag), ==, SONDE_OK);
    stop.deadline_ns = UINT64_MAX;
    CHECK_INT(store_stop_check(&stop, &diag), ==, SONDE_OK);
    stop.deadline_ns = 1;
    CHECK_INT(store_stop_check(&stop, &diag), ==, SONDE_DEADLINE_EXCEEDED);
    stop.is_stopped = true;
    CHECK_INT(store_stop_check(&stop, &diag), ==, SONDE_CANCELLED);
}
