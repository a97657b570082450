/* SPDX-License-Identifier: Apache-2.0
 *
 * What the service offers for scrapers of Go's profiles, with the fake engine: threads as a
 * profile, waits as contentions, polled allocations. */
#include "tests/rpc/setup.h"
#include "tests/unit/check.h"

#include <string.h>

static struct setup setup;
static char drawn[4096];

static bool on_event(struct watcher *watcher, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK)
        strncat(drawn, (const char *)event->chunk.data, event->chunk.len);
    return true;
}

static sonde_err stream(const struct client_method *method, const ProtobufCMessage *request,
                        struct sonde_diag *diag) {
    struct watcher watcher = {.on_message = on_event};
    drawn[0] = 0;
    watcher_start(&watcher, setup.client, method, request, 10000);
    return watcher_end(&watcher, diag);
}

/* ---- Threads ---- */

static const char *threads(bool by_start_function, int format, sonde_err expected) {
    static char text[4096];
    Sonde__V1__GetBacktracesRequest request = SONDE__V1__GET_BACKTRACES_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    ProtobufCMessage *message = NULL;
    struct sonde_diag diag = {0};
    rendering.format = (Sonde__V1__Format)format;
    request.rendering = &rendering;
    request.by_start_function = by_start_function;
    CHECK_INT(
        client_unary(setup.client, &client_get_backtraces, &request.base, 5000, &message, &diag),
        ==, expected);
    text[0] = 0;
    if (!message)
        return text;
    const Sonde__V1__Backtraces *answer = (const void *)message;
    CHECK_INT(answer->n_threads, ==, 0);
    CHECK_INT(answer->n_stacks, ==, 0);
    CHECK_INT(answer->not_walked, ==, 1);
    strncat(text, (const char *)answer->profile.data, answer->profile.len);
    protobuf_c_message_free_unpacked(message, NULL);
    return text;
}

TEST(threads_are_a_profile_by_stack_and_name) {
    setup_begin(&setup);
    const char *text = threads(false, SONDE__V1__FORMAT__COLLAPSED, SONDE_OK);
    CHECK(strstr(text, "outer;inner 2\n") != NULL);
    CHECK(strstr(text, "[no stack] 1\n") != NULL);
    setup_end(&setup);
}

TEST(threads_are_counted_by_the_function_that_they_began_with) {
    setup_begin(&setup);
    const char *text = threads(true, SONDE__V1__FORMAT__COLLAPSED, SONDE_OK);
    CHECK(strstr(text, "outer 2\n") != NULL);
    CHECK(strstr(text, "inner") == NULL);
    setup_end(&setup);
}

TEST(threads_have_no_heap_formats) {
    setup_begin(&setup);
    CHECK_STR(threads(false, SONDE__V1__FORMAT__HEAPSNAPSHOT, SONDE_INVALID_ARGUMENT), "");
    setup_end(&setup);
}

/* The answer grows with the number of threads that wait. */
TEST(threads_that_wait_for_a_lock_have_short_names_of_it) {
    Sonde__V1__GetBacktracesRequest request = SONDE__V1__GET_BACKTRACES_REQUEST__INIT;
    ProtobufCMessage *message = NULL;
    setup_begin(&setup);
    CHECK_INT(
        client_unary(setup.client, &client_get_backtraces, &request.base, 5000, &message, NULL), ==,
        SONDE_OK);
    const Sonde__V1__Backtraces *answer = (const void *)message;
    CHECK_INT(answer->n_threads, ==, 3);
    const Sonde__V1__LockWait *wait = answer->threads[0]->lock_wait;
    CHECK(wait);
    CHECK_INT(wait->address, ==, 0x1000);
    CHECK_STR(wait->kind, "mutex");
    CHECK(strstr(wait->lock, "xxx") && strlen(wait->lock) <= 110);
    CHECK(strstr(wait->function, "xxx") && strlen(wait->function) <= 110);
    CHECK(strlen(wait->text) <= 300);
    protobuf_c_message_free_unpacked(message, NULL);
    setup_end(&setup);
}

/* ---- Waits ---- */

TEST(only_off_cpu_time_is_contentions) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    request.duration_ms = 10;
    request.only_locks = true;
    CHECK_INT(stream(&client_capture_cpu, &request.base, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "only_locks: only with as_contentions");
    request.as_contentions = true;
    CHECK_INT(stream(&client_capture_cpu, &request.base, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "as_contentions: only for mode OFF_CPU");
    request.mode = SONDE__V1__CPU_MODE__OFF_CPU;
    CHECK_INT(stream(&client_capture_cpu, &request.base, NULL), ==, SONDE_OK);
    setup_end(&setup);
}

/* ---- Allocations ---- */

TEST(polled_allocations_are_answered_at_once_and_not_kept) {
    Sonde__V1__CaptureAllocsRequest request = SONDE__V1__CAPTURE_ALLOCS_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct sonde_diag diag = {0};
    char key[66];
    setup_begin(&setup);
    rendering.format = SONDE__V1__FORMAT__COLLAPSED;
    request.rendering = &rendering;
    request.duration_ms = 3600000;
    request.poll_key = (char *)"scraper";
    CHECK_INT(stream(&client_capture_allocs, &request.base, NULL), ==, SONDE_OK);
    CHECK(drawn[0] != 0);
    request.keep = true;
    CHECK_INT(stream(&client_capture_allocs, &request.base, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "poll_key and keep exclude each other");
    request.keep = false;
    memset(key, 'x', sizeof key - 1);
    key[sizeof key - 1] = 0;
    request.poll_key = key;
    CHECK_INT(stream(&client_capture_allocs, &request.base, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "poll_key: 65 bytes are too long; at most 64") != NULL);
    setup_end(&setup);
}
