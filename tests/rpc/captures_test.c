/* SPDX-License-Identifier: Apache-2.0
 *
 * Saved captures, with the fake engine, whose profiles have 3 stacks of 10 samples each. */
#include "api/profile/pprof/pprof.h"
#include "api/profile/timeline.h"
#include "tests/rpc/setup.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>

static struct setup setup;

/* What the stream of CaptureEvents contained. */
static struct {
    struct sonde_buf bytes;
    uint64_t id, samples;
    uint32_t duration_ms;
    char keep_error[200], target[64], note[64];
} got;

static bool on_event(struct watcher *watcher, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_RESULT) {
        const Sonde__V1__ResultStart *start = event->result;
        got.id = start->capture_id;
        got.samples = start->samples;
        got.duration_ms = start->duration_ms;
        snprintf(got.keep_error, sizeof got.keep_error, "%s", start->keep_error);
        snprintf(got.target, sizeof got.target, "%s", start->capture ? start->capture->target : "");
        snprintf(got.note, sizeof got.note, "%s", start->capture ? start->capture->note : "");
    } else if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK) {
        sonde_buf_append(&got.bytes, event->chunk.data, event->chunk.len);
    }
    return true;
}

static sonde_err stream(const struct client_method *method, const void *request,
                        struct sonde_diag *diag) {
    struct watcher watcher = {.on_message = on_event};
    sonde_buf_finish(&got.bytes);
    memset(&got, 0, sizeof got);
    watcher_start(&watcher, setup.client, method, request, 10000);
    return watcher_end(&watcher, diag);
}

static uint64_t capture(bool keep, const char *note) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = SONDE__V1__FORMAT__TEXT_TOP;
    request.rendering = &rendering;
    request.duration_ms = 10;
    request.keep = keep;
    request.note = (char *)note;
    CHECK_INT(stream(&client_capture_cpu, &request, NULL), ==, SONDE_OK);
    return got.id;
}

static Sonde__V1__ListCapturesResponse *list(const char *name) {
    Sonde__V1__ListCapturesRequest request = SONDE__V1__LIST_CAPTURES_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = SONDE__V1__TARGET_SELECTOR__INIT;
    Sonde__V1__ListCapturesResponse *response = NULL;
    request.target = &selector;
    selector.name = (char *)name;
    CHECK_INT(client_unary(setup.client, &client_list_captures, &request.base, 5000,
                           (void *)&response, NULL),
              ==, SONDE_OK);
    return response;
}

static size_t count_of_many(const char *name, int32_t pid) {
    Sonde__V1__ListCapturesRequest request = SONDE__V1__LIST_CAPTURES_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = SONDE__V1__TARGET_SELECTOR__INIT;
    Sonde__V1__ListCapturesResponse *response = NULL;
    request.target = &selector;
    selector.name = (char *)name;
    selector.pid = pid;
    selector.all = true;
    CHECK_INT(client_unary(setup.client, &client_list_captures, &request.base, 5000,
                           (ProtobufCMessage **)&response, NULL),
              ==, SONDE_OK);
    size_t count = response->n_captures;
    protobuf_c_message_free_unpacked(&response->base, NULL);
    return count;
}

TEST(captures_of_several_processes_are_listed_by_what_they_are) {
    setup_begin(&setup);
    fake_engine_detach(setup.engine, FAKE_PID);
    fake_engine_attach(setup.engine, "@all:demo", 88);
    capture(true, "");
    CHECK_INT(count_of_many("demo", 0), ==, 1);
    CHECK_INT(count_of_many("", 0), ==, 0);
    CHECK_INT(count_of_many("", 88), ==, 0);
    fake_engine_detach(setup.engine, 88);
    fake_engine_attach(setup.engine, "@all", 89);
    capture(true, "");
    CHECK_INT(count_of_many("", 0), ==, 1);
    fake_engine_detach(setup.engine, 89);
    fake_engine_attach(setup.engine, "@all:88", 90);
    capture(true, "");
    CHECK_INT(count_of_many("", 88), ==, 1);
    setup_end(&setup);
}

static size_t count_of(const char *name) {
    Sonde__V1__ListCapturesResponse *response = list(name);
    size_t count = response->n_captures;
    protobuf_c_message_free_unpacked(&response->base, NULL);
    return count;
}

static sonde_err get(uint64_t id, int format, struct sonde_diag *diag) {
    Sonde__V1__GetCaptureRequest request = SONDE__V1__GET_CAPTURE_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = (Sonde__V1__Format)format;
    request.id = id;
    request.rendering = &rendering;
    return stream(&client_get_capture, &request, diag);
}

static sonde_err diff(uint64_t base, uint64_t now, int format, bool normalize,
                      struct sonde_diag *diag) {
    Sonde__V1__DiffCapturesRequest request = SONDE__V1__DIFF_CAPTURES_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = (Sonde__V1__Format)format;
    request.base_id = base;
    request.new_id = now;
    request.normalize = normalize;
    request.rendering = &rendering;
    return stream(&client_diff_captures, &request, diag);
}

TEST(a_capture_is_saved_only_if_the_request_says_so) {
    setup_begin(&setup);
    CHECK_INT(capture(false, ""), ==, 0);
    CHECK_STR(got.keep_error, "");
    CHECK_INT(count_of(""), ==, 0);
    CHECK_INT(capture(true, "before the release"), ==, 1);
    CHECK_STR(got.target, "demo");
    CHECK_STR(got.note, "before the release");
    CHECK_INT(count_of(""), ==, 1);
    setup_end(&setup);
}

TEST(the_list_of_captures_is_newest_first_and_limited) {
    setup_begin(&setup);
    for (uint64_t i = 1; i <= SETUP_CAPTURES + 2; i++)
        CHECK_INT(capture(true, ""), ==, i);
    Sonde__V1__ListCapturesResponse *response = list("demo");
    CHECK_INT(response->n_captures, ==, SETUP_CAPTURES);
    CHECK_INT(response->captures[0]->id, ==, SETUP_CAPTURES + 2);
    CHECK_INT(response->captures[0]->pid, ==, FAKE_PID);
    CHECK_STR(response->captures[0]->kind, "cpu");
    CHECK_INT(response->captures[0]->samples, ==, 30);
    CHECK_INT(response->captures[0]->dropped, ==, 1);
    CHECK_INT(response->captures[0]->frequency_hz, ==, 99);
    CHECK_INT(response->captures[0]->start_unix_ns, >, 1);
    CHECK_INT(response->captures[0]->size_bytes, >, 20);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    CHECK_INT(count_of("nobody"), ==, 0);
    setup_end(&setup);
}

TEST(a_saved_capture_comes_in_every_format) {
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    capture(true, "");
    CHECK_INT(get(1, SONDE__V1__FORMAT__COLLAPSED, NULL), ==, SONDE_OK);
    CHECK(strstr(got.bytes.data, "main;f1 ") != NULL);
    CHECK_INT(got.id, ==, 1);
    CHECK_INT(get(1, SONDE__V1__FORMAT__SVG_FLAMEGRAPH, NULL), ==, SONDE_OK);
    CHECK_INT(memcmp(got.bytes.data, "<?xml", 5), ==, 0);
    CHECK_INT(get(1, 0, NULL), ==, SONDE_OK);
    CHECK_INT(memcmp(got.bytes.data, "\x1f\x8b", 2), ==, 0);
    CHECK_INT(get(1, SONDE__V1__FORMAT__HEAPSNAPSHOT, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "of time cannot be written as heapsnapshot; use one of proto, flam"));
    CHECK_INT(get(1, SONDE__V1__FORMAT__JEMALLOC, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(get(2, SONDE__V1__FORMAT__COLLAPSED, &diag), ==, SONDE_NOT_FOUND);
    CHECK(strstr(diag.text, "capture 2 not found") != NULL);
    setup_end(&setup);
}

/* Whether the client has reconnected to the restarted service. */
static bool is_answered_again(void *context) {
    return get(1, SONDE__V1__FORMAT__COLLAPSED, NULL) == SONDE_OK;
}

TEST(captures_survive_a_restart_of_the_service) {
    setup_begin(&setup);
    capture(true, "");
    setup_stop(&setup, 0);
    setup_serve(&setup);
    CHECK(eventually(is_answered_again, NULL));
    CHECK_INT(capture(true, ""), ==, 2);
    setup_end(&setup);
}

TEST(a_comparison_of_captures_shows_what_grew) {
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    capture(true, "");
    fake_engine_stacks(setup.engine, 4, false);
    capture(true, "");
    CHECK_INT(diff(1, 2, SONDE__V1__FORMAT__COLLAPSED, false, NULL), ==, SONDE_OK);
    CHECK(strstr(got.bytes.data, "main;f3 ") != NULL);
    CHECK(strstr(got.bytes.data, "f0") == NULL);
    CHECK_INT(diff(1, 2, SONDE__V1__FORMAT__SVG_FLAMEGRAPH, false, NULL), ==, SONDE_OK);
    CHECK(strstr(got.bytes.data, "Base: capture 1 of ") &&
          strstr(got.bytes.data, "New: capture 2 of "));
    CHECK(strstr(got.bytes.data, "f0") != NULL);
    CHECK_INT(diff(1, 9, SONDE__V1__FORMAT__COLLAPSED, false, &diag), ==, SONDE_NOT_FOUND);
    CHECK_INT(diff(9, 1, SONDE__V1__FORMAT__COLLAPSED, false, &diag), ==, SONDE_NOT_FOUND);
    CHECK_INT(diff(1, 2, SONDE__V1__FORMAT__HEAPSNAPSHOT, false, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    setup_end(&setup);
}

static sonde_err get_function(char *function, struct sonde_diag *diag) {
    Sonde__V1__GetCaptureRequest request = SONDE__V1__GET_CAPTURE_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = SONDE__V1__FORMAT__TEXT_TOP;
    rendering.function = function;
    request.id = 1;
    request.rendering = &rendering;
    return stream(&client_get_capture, &request, diag);
}

TEST(a_capture_shows_the_callers_of_one_function) {
    struct sonde_diag diag = {0};
    char longest[1026];
    memset(longest, 'f', sizeof longest);
    longest[1025] = 0;
    setup_begin(&setup);
    capture(true, "");
    CHECK_INT(get_function("f1", NULL), ==, SONDE_OK);
    CHECK(strstr(got.bytes.data, "Function:  f1") && strstr(got.bytes.data, "%") &&
          strstr(strstr(got.bytes.data, "Callers"), "  main"));
    CHECK_INT(get_function("f9999", &diag), ==, SONDE_NOT_FOUND);
    CHECK_INT(get_function(longest, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "rendering.function") != NULL);
    longest[1024] = 0;
    CHECK_INT(get_function(longest, &diag), ==, SONDE_NOT_FOUND);
    setup_end(&setup);
}

TEST(a_difference_has_no_callers) {
    Sonde__V1__DiffCapturesRequest request = SONDE__V1__DIFF_CAPTURES_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    capture(true, "");
    rendering.format = SONDE__V1__FORMAT__TEXT_TOP;
    rendering.function = "f1";
    request.base_id = request.new_id = 1;
    request.rendering = &rendering;
    CHECK_INT(stream(&client_diff_captures, &request, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "a difference has no callers") != NULL);
    setup_end(&setup);
}

TEST(a_capture_compared_with_itself_shows_no_difference) {
    setup_begin(&setup);
    capture(true, "");
    CHECK_INT(diff(1, 1, SONDE__V1__FORMAT__COLLAPSED, true, NULL), ==, SONDE_OK);
    CHECK_STR(got.bytes.data, "[no samples] 0\n");
    setup_end(&setup);
}

TEST(the_result_of_a_session_is_saved_once) {
    Sonde__V1__StartCpuRequest start = SONDE__V1__START_CPU_REQUEST__INIT;
    Sonde__V1__StopCpuRequest stop = SONDE__V1__STOP_CPU_REQUEST__INIT;
    Sonde__V1__CpuSession *session = NULL;
    setup_begin(&setup);
    CHECK_INT(stream(&client_stop_cpu, &stop, NULL), ==, SONDE_OK);
    CHECK_INT(got.id, ==, 0); /* never started */
    CHECK_STR(got.keep_error, "");
    CHECK_INT(
        client_unary(setup.client, &client_start_cpu, &start.base, 5000, (void *)&session, NULL),
        ==, SONDE_OK);
    protobuf_c_message_free_unpacked(&session->base, NULL);
    CHECK_INT(stream(&client_stop_cpu, &stop, NULL), ==, SONDE_OK);
    CHECK_INT(got.id, ==, 1);
    CHECK_INT(stream(&client_stop_cpu, &stop, NULL), ==, SONDE_OK);
    CHECK_INT(got.id, ==, 1);
    CHECK_INT(count_of(""), ==, 1);
    setup_end(&setup);
}

TEST(a_capture_that_cannot_be_saved_is_sent_with_the_reason) {
    char command[128];
    setup_begin(&setup);
    snprintf(command, sizeof command, "rmdir %s", setup.captures);
    CHECK_INT(system(command), ==, 0);
    CHECK_INT(capture(true, ""), ==, 0);
    CHECK(strstr(got.keep_error, "cannot be kept") != NULL);
    CHECK_INT(got.bytes.len, >, 10);
    snprintf(command, sizeof command, "mkdir %s", setup.captures);
    CHECK_INT(system(command), ==, 0);
    setup_end(&setup);
}

TEST(a_note_that_is_too_long_is_refused_before_anything_starts) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    struct sonde_diag diag = {0};
    char note[202];
    memset(note, 'x', sizeof note);
    note[201] = 0;
    setup_begin(&setup);
    request.keep = true;
    request.note = note;
    CHECK_INT(stream(&client_capture_cpu, &request, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "201 bytes") != NULL);
    setup_end(&setup);
}

static char *timeline_function = (char *)"";

static sonde_err timeline(uint64_t id, uint32_t bin_ms, uint32_t from_ms, uint32_t until_ms,
                          Sonde__V1__CaptureTimeline **answer, struct sonde_diag *diag) {
    Sonde__V1__GetCaptureTimelineRequest request = SONDE__V1__GET_CAPTURE_TIMELINE_REQUEST__INIT;
    request.id = id;
    request.bin_ms = bin_ms;
    request.from_ms = from_ms;
    request.until_ms = until_ms;
    request.function = timeline_function;
    return client_unary(setup.client, &client_get_capture_timeline, &request.base, 10000,
                        (void *)answer, diag);
}

static sonde_err get_range(uint32_t from_ms, uint32_t until_ms, struct sonde_diag *diag) {
    Sonde__V1__GetCaptureRequest request = SONDE__V1__GET_CAPTURE_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = SONDE__V1__FORMAT__COLLAPSED;
    request.id = 1;
    request.from_ms = from_ms;
    request.until_ms = until_ms;
    request.rendering = &rendering;
    return stream(&client_get_capture, &request, diag);
}

TEST(the_time_bins_of_a_capture_come_behind_its_profile) {
    Sonde__V1__GetCaptureRequest request = SONDE__V1__GET_CAPTURE_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct sonde_profile *profile;
    struct sonde_timeline *timeline;
    setup_begin(&setup);
    capture(true, "");
    rendering.format = SONDE__V1__FORMAT__PPROF;
    request.id = 1;
    request.rendering = &rendering;
    CHECK_INT(stream(&client_get_capture, &request, NULL), ==, SONDE_OK);
    size_t len = got.bytes.len;
    request.with_timeline = true;
    CHECK_INT(stream(&client_get_capture, &request, NULL), ==, SONDE_OK);
    CHECK_INT(got.bytes.len, >, len);
    CHECK_INT(sonde_pprof_read(sonde_buf_slice(&got.bytes), 1 << 20, &profile, NULL), ==, SONDE_OK);
    const struct sonde_slice bins = {got.bytes.data + len, got.bytes.len - len};
    CHECK_INT(sonde_timeline_read(bins, profile, &timeline, NULL), ==, SONDE_OK);
    CHECK_INT(timeline->count, >, 0);
    sonde_timeline_destroy(timeline);
    sonde_profile_destroy(profile);
    rendering.raw = true; /* nothing may follow what is not compressed */
    CHECK_INT(stream(&client_get_capture, &request, NULL), ==, SONDE_OK);
    CHECK_INT(sonde_pprof_read(sonde_buf_slice(&got.bytes), 1 << 20, &profile, NULL), ==, SONDE_OK);
    sonde_profile_destroy(profile);
    setup_end(&setup);
}

TEST(the_timeline_of_a_saved_capture_adds_up_to_its_time) {
    Sonde__V1__CaptureTimeline *answer = NULL;
    setup_begin(&setup);
    capture(true, "");
    CHECK_INT(timeline(1, 0, 0, 0, &answer, NULL), ==, SONDE_OK);
    CHECK_INT(answer->bin_ms, ==, 20);
    CHECK_INT(answer->n_value, ==, 3);
    for (size_t i = 0; i < 3; i++)
        CHECK_INT(answer->value[i], ==, 10000000);
    protobuf_c_message_free_unpacked(&answer->base, NULL);
    CHECK_INT(timeline(1, 40, 30, 0, &answer, NULL), ==, SONDE_OK);
    CHECK_INT(answer->from_ms, ==, 20);
    CHECK_INT(answer->n_value, ==, 1);
    CHECK_INT(answer->value[0], ==, 20000000);
    protobuf_c_message_free_unpacked(&answer->base, NULL);
    setup_end(&setup);
}

static void check_values(const char *function, int64_t first, int64_t second, int64_t third) {
    Sonde__V1__CaptureTimeline *answer = NULL;
    timeline_function = (char *)function;
    CHECK_INT(timeline(1, 0, 0, 0, &answer, NULL), ==, SONDE_OK);
    CHECK_INT(answer->n_value, ==, 3);
    CHECK_INT(answer->value[0], ==, first);
    CHECK_INT(answer->value[1], ==, second);
    CHECK_INT(answer->value[2], ==, third);
    protobuf_c_message_free_unpacked(&answer->base, NULL);
}

TEST(the_timeline_of_a_function_counts_only_its_stacks) {
    Sonde__V1__CaptureTimeline *answer = NULL;
    struct sonde_diag diag = {0};
    char name[1026];
    setup_begin(&setup);
    capture(true, "");
    check_values("f0", 10000000, 0, 0);
    check_values("f1", 0, 10000000, 0);
    check_values("inlined", 10000000, 0, 0);
    check_values("f*", 10000000, 10000000, 10000000);
    check_values("main", 10000000, 10000000, 10000000);
    check_values("nothing", 0, 0, 0);
    memset(name, 'x', sizeof name);
    name[1025] = 0;
    timeline_function = name;
    CHECK_INT(timeline(1, 0, 0, 0, &answer, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "function: 1025 bytes are too long; at most 1024");
    timeline_function = (char *)"";
    setup_end(&setup);
}

TEST(a_saved_capture_for_firefox_has_the_times_of_its_samples) {
    Sonde__V1__CaptureAllocsRequest allocs = SONDE__V1__CAPTURE_ALLOCS_REQUEST__INIT;
    setup_begin(&setup);
    capture(true, "");
    CHECK_INT(get(1, SONDE__V1__FORMAT__FIREFOX, NULL), ==, SONDE_OK);
    CHECK(strstr(got.bytes.data, "\"time\":[0.000000,20.000000,40.000000]") != NULL);
    CHECK(strstr(got.bytes.data, "\"weight\":[10.000000,10.000000,10.000000]") != NULL);
    allocs.duration_ms = 10;
    allocs.keep = true;
    CHECK_INT(stream(&client_capture_allocs, &allocs, NULL), ==, SONDE_OK);
    CHECK_INT(get(2, SONDE__V1__FORMAT__FIREFOX, NULL), ==, SONDE_OK);
    CHECK(strstr(got.bytes.data, "does not have the times") != NULL);
    setup_end(&setup);
}

TEST(timelines_that_cannot_be_are_refused) {
    Sonde__V1__CaptureTimeline *answer = NULL;
    Sonde__V1__CaptureAllocsRequest allocs = SONDE__V1__CAPTURE_ALLOCS_REQUEST__INIT;
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    capture(true, "");
    CHECK_INT(timeline(1, 30, 0, 0, &answer, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "bin_ms: 30 is not a multiple of 20");
    CHECK_INT(timeline(1, 0, 40, 20, &answer, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "until must be after from");
    CHECK_INT(timeline(9, 0, 0, 0, &answer, &diag), ==, SONDE_NOT_FOUND);
    allocs.duration_ms = 10;
    allocs.keep = true;
    CHECK_INT(stream(&client_capture_allocs, &allocs, NULL), ==, SONDE_OK);
    CHECK_INT(timeline(2, 0, 0, 0, &answer, &diag), ==, SONDE_NOT_AVAILABLE);
    CHECK_STR(diag.text, "this capture has no time bins: it measures memory");
    setup_end(&setup);
}

TEST(a_range_of_a_saved_capture_has_only_its_samples) {
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    capture(true, "");
    CHECK_INT(get_range(20, 60, NULL), ==, SONDE_OK);
    CHECK(strstr(got.bytes.data, "f0") == NULL);
    CHECK(strstr(got.bytes.data, "main;f1 ") && strstr(got.bytes.data, "main;f2 "));
    CHECK_INT(got.samples, ==, 20);
    CHECK_INT(got.duration_ms, ==, 40);
    CHECK_INT(get_range(60, 0, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "before the end of the capture (0.06 s)") != NULL);
    setup_end(&setup);
}

TEST(two_ranges_of_one_capture_can_be_compared) {
    Sonde__V1__DiffCapturesRequest request = SONDE__V1__DIFF_CAPTURES_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    setup_begin(&setup);
    capture(true, "");
    rendering.format = SONDE__V1__FORMAT__COLLAPSED;
    request.base_id = request.new_id = 1;
    request.base_until_ms = 20;
    request.from_ms = 40;
    request.rendering = &rendering;
    CHECK_INT(stream(&client_diff_captures, &request, NULL), ==, SONDE_OK);
    CHECK(strstr(got.bytes.data, "main;f0;inlined -10\n") != NULL);
    CHECK(strstr(got.bytes.data, "main;f2 10\n") != NULL);
    CHECK(strstr(got.bytes.data, "f1") == NULL);
    setup_end(&setup);
}
