/* SPDX-License-Identifier: Apache-2.0
 *
 * Live streams: their dictionary, slow readers, and the ways in which a stream ends. */
#include "tests/rpc/setup.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <unistd.h>

/* AddressSanitizer's quarantine makes the resident size meaningless. */
#if defined(__SANITIZE_ADDRESS__)
#define HOLDS_FREED_MEMORY true
#else
#define HOLDS_FREED_MEMORY false
#endif

#define SLOW_STACKS 8000

static struct setup setup;

static struct {
    uint64_t next_sequence, merged, samples, gaps, windows;
    size_t strings, stacks, messages;
    bool last;
    char end_reason[32];
} seen;

static bool on_window(struct watcher *watcher, const ProtobufCMessage *message) {
    const Sonde__V1__CpuWindow *window = (const void *)message;
    seen.messages++;
    seen.strings += window->n_strings;
    seen.stacks += window->n_stacks;
    for (size_t i = 0; i < window->n_counts; i++)
        seen.samples += window->counts[i]->count;
    if (!window->more) {
        seen.windows++;
        seen.gaps += window->sequence - window->merged != seen.next_sequence;
        seen.next_sequence = window->sequence + 1;
        seen.merged += window->merged;
    }
    seen.last = window->last;
    snprintf(seen.end_reason, sizeof seen.end_reason, "%s", window->end_reason);
    return true;
}

static void stream(struct watcher *watcher, uint32_t window_ms, uint32_t max_windows,
                   uint32_t deadline_ms) {
    Sonde__V1__StreamCpuRequest request = SONDE__V1__STREAM_CPU_REQUEST__INIT;
    memset(&seen, 0, sizeof seen);
    request.window_ms = window_ms;
    request.max_windows = max_windows;
    watcher->on_message = on_window;
    watcher_start(watcher, setup.client, &client_stream_cpu, &request.base, deadline_ms);
}

TEST(a_stream_ends_after_max_windows_and_sends_each_name_once) {
    struct watcher watcher = {0};
    setup_begin(&setup);
    stream(&watcher, 50, 4, 0);
    CHECK_INT(watcher_end(&watcher, NULL), ==, SONDE_OK);
    CHECK_INT(seen.windows, ==, 4);
    CHECK_INT(seen.samples, ==, (4 + seen.merged) * 30);
    CHECK_INT(seen.stacks, ==, 3);
    CHECK_INT(seen.gaps, ==, 0);
    CHECK(seen.last);
    CHECK_STR(seen.end_reason, "max_windows");
    setup_end(&setup);
}

TEST(a_stream_ends_with_its_target_and_says_so) {
    struct watcher watcher = {0};
    setup_begin(&setup);
    stream(&watcher, 50, 0, 0);
    CHECK(watcher_wait(&watcher, 2));
    fake_engine_detach(setup.engine, FAKE_PID);
    CHECK_INT(watcher_end(&watcher, NULL), ==, SONDE_OK);
    CHECK(seen.last);
    CHECK_STR(seen.end_reason, "target gone");
    setup_end(&setup);
}

static bool was_cancelled(void *context) {
    return fake_engine_cancelled(setup.engine) == *(const uint32_t *)context;
}

TEST(a_cancelled_stream_stops_in_the_engine) {
    struct watcher watcher = {0};
    uint32_t one = 1;
    setup_begin(&setup);
    stream(&watcher, 50, 0, 0);
    CHECK(watcher_wait(&watcher, 1));
    client_call_cancel(watcher.call);
    CHECK_INT(watcher_end(&watcher, NULL), ==, SONDE_CANCELLED);
    CHECK(eventually(was_cancelled, &one));
    setup_end(&setup);
}

TEST(a_stream_past_its_deadline_stops_in_the_engine) {
    struct watcher watcher = {0};
    uint32_t one = 1;
    setup_begin(&setup);
    stream(&watcher, 50, 0, 300);
    CHECK_INT(watcher_end(&watcher, NULL), ==, SONDE_DEADLINE_EXCEEDED);
    CHECK(eventually(was_cancelled, &one));
    setup_end(&setup);
}

static uint64_t resident_bytes(void) {
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    ProtobufCMessage *info = NULL;
    CHECK_INT(client_unary(setup.client, &client_get_info, &request.base, 5000, &info, NULL), ==,
              SONDE_OK);
    uint64_t bytes = ((Sonde__V1__Info *)(void *)info)->resident_bytes;
    protobuf_c_message_free_unpacked(info, NULL);
    return bytes;
}

/* Each window has 8,000 counts, so that a few of them fill the connection's buffers. Keeping all
 * later windows in a queue would take hundreds of MB. */
TEST(a_stream_to_a_slow_reader_merges_windows_and_uses_little_memory) {
    struct watcher watcher = {.holds = true};
    setup_begin(&setup);
    fake_engine_stacks(setup.engine, SLOW_STACKS, false);
    stream(&watcher, 50, 0, 0);
    CHECK(watcher_wait(&watcher, 1));
    uint64_t before = resident_bytes();
    sleep(3);
    uint64_t after = resident_bytes();
    if (!HOLDS_FREED_MEMORY)
        CHECK_INT(after, <, before + (128u << 20));
    for (uint32_t i = 2; seen.merged < 10 && i < 200; i++) {
        client_call_next(watcher.call);
        CHECK(watcher_wait(&watcher, i));
    }
    CHECK_INT(seen.merged, >=, 10);
    CHECK_INT(seen.gaps, ==, 0);
    CHECK_INT(seen.stacks, ==, SLOW_STACKS);
    CHECK_INT(seen.samples, ==, (seen.windows + seen.merged) * SLOW_STACKS * 10);
    client_call_cancel(watcher.call);
    CHECK_INT(watcher_end(&watcher, NULL), ==, SONDE_CANCELLED);
    setup_end(&setup);
}

TEST(a_stream_with_new_stacks_in_each_window_extends_its_dictionary) {
    struct watcher watcher = {0};
    setup_begin(&setup);
    fake_engine_stacks(setup.engine, 50, true);
    stream(&watcher, 50, 5, 0);
    CHECK_INT(watcher_end(&watcher, NULL), ==, SONDE_OK);
    CHECK_INT(seen.stacks, ==, (5 + seen.merged) * 50);
    CHECK_INT(seen.samples, ==, (5 + seen.merged) * 500);
    setup_end(&setup);
}

TEST(stopping_ends_all_streams_with_a_reason_and_at_once) {
    struct watcher windows = {0}, targets = {0}, capture = {0};
    Sonde__V1__WatchTargetsRequest watch = SONDE__V1__WATCH_TARGETS_REQUEST__INIT;
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    request.duration_ms = 60000;
    stream(&windows, 50, 0, 0);
    watcher_start(&targets, setup.client, &client_watch_targets, &watch.base, 0);
    watcher_start(&capture, setup.client, &client_capture_cpu, &request.base, 0);
    CHECK(watcher_wait(&windows, 1) && watcher_wait(&targets, 2) && watcher_wait(&capture, 1));
    setup_stop(&setup, 200);
    CHECK_INT(watcher_end(&windows, &diag), ==, SONDE_UNAVAILABLE);
    CHECK_STR(diag.text, "the service is stopping");
    CHECK_INT(watcher_end(&targets, NULL), ==, SONDE_UNAVAILABLE);
    sonde_err err = watcher_end(&capture, NULL);
    CHECK(err == SONDE_UNAVAILABLE || err == SONDE_CANCELLED);
    CHECK_INT(fake_engine_cancelled(setup.engine), ==, 2);
    setup_end(&setup);
}

TEST(stopping_waits_for_a_short_capture_within_the_grace_period) {
    struct watcher capture = {0};
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    setup_begin(&setup);
    request.duration_ms = 1000;
    watcher_start(&capture, setup.client, &client_capture_cpu, &request.base, 0);
    CHECK(watcher_wait(&capture, 1));
    setup_stop(&setup, 30000);
    CHECK_INT(watcher_end(&capture, NULL), ==, SONDE_OK);
    setup_end(&setup);
}
