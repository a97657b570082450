/* SPDX-License-Identifier: Apache-2.0
 *
 * The methods for allocation captures, with the fake engine. */
#include "tests/rpc/setup.h"
#include "tests/unit/check.h"

#include <math.h>

static struct setup setup;

static struct {
    char text[8192];
    uint64_t announced, bytes;
    uint32_t duration_ms, progress;
} result;

static bool on_event(struct watcher *watcher, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_PROGRESS) {
        result.progress++;
    } else if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_RESULT) {
        result.announced = event->result->size_bytes;
        result.duration_ms = event->result->duration_ms;
    } else if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK) {
        size_t room = sizeof result.text - 1 - strlen(result.text);
        strncat(result.text, (const char *)event->chunk.data,
                event->chunk.len < room ? event->chunk.len : room);
        result.bytes += event->chunk.len;
    }
    return true;
}

static sonde_err fetch(const struct client_method *method, const ProtobufCMessage *request,
                       struct sonde_diag *diag) {
    struct watcher watcher = {.on_message = on_event};
    memset(&result, 0, sizeof result);
    watcher_start(&watcher, setup.client, method, request, 10000);
    return watcher_end(&watcher, diag);
}

TEST(an_allocation_capture_is_drawn_by_space_or_objects) {
    Sonde__V1__CaptureAllocsRequest request = SONDE__V1__CAPTURE_ALLOCS_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    setup_begin(&setup);
    fake_engine_stacks(setup.engine, 1, false);
    rendering.format = SONDE__V1__FORMAT__COLLAPSED;
    request.rendering = &rendering;
    request.duration_ms = 50;
    CHECK_INT(fetch(&client_capture_allocs, &request.base, NULL), ==, SONDE_OK);
    CHECK_STR(result.text, "main;f0;inlined 3000\n");
    CHECK_INT(result.bytes, ==, result.announced);
    CHECK_INT(result.duration_ms, >=, 50);
    request.sample_type = (char *)"alloc_objects";
    CHECK_INT(fetch(&client_capture_allocs, &request.base, NULL), ==, SONDE_OK);
    CHECK_STR(result.text, "main;f0;inlined 1000\n");
    setup_end(&setup);
}

TEST(an_allocation_capture_comes_in_every_format_for_allocations) {
    Sonde__V1__CaptureAllocsRequest request = SONDE__V1__CAPTURE_ALLOCS_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    size_t count;
    const struct sonde_format_info *formats = sonde_format_table(&count);
    setup_begin(&setup);
    request.rendering = &rendering;
    request.duration_ms = 1;
    for (size_t i = 0; i < count; i++) {
        bool is_offered = formats[i].offered & SONDE_OF_ALLOCATIONS;
        rendering.format = (Sonde__V1__Format)formats[i].format;
        CHECK_INT(fetch(&client_capture_allocs, &request.base, NULL), ==,
                  is_offered ? SONDE_OK : SONDE_INVALID_ARGUMENT);
        CHECK(!is_offered || result.bytes > 0);
    }
    rendering.format = SONDE__V1__FORMAT__SVG_FLAMEGRAPH;
    CHECK_INT(fetch(&client_capture_allocs, &request.base, NULL), ==, SONDE_OK);
    CHECK(strstr(result.text, "alloc_space") != NULL);
    setup_end(&setup);
}

TEST(bad_sampling_densities_are_refused) {
    Sonde__V1__CaptureAllocsRequest request = SONDE__V1__CAPTURE_ALLOCS_REQUEST__INIT;
    const struct {
        uint64_t sample_bytes;
        double probability;
    } bad[] = {{(1u << 30) + 1, 0}, {0, -0.5}, {0, 1.5}, {0, NAN}, {0, INFINITY}, {4096, 0.5}};
    setup_begin(&setup);
    request.duration_ms = 1;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        request.sample_bytes = bad[i].sample_bytes;
        request.probability = bad[i].probability;
        CHECK_INT(fetch(&client_capture_allocs, &request.base, NULL), ==, SONDE_INVALID_ARGUMENT);
    }
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = SONDE__V1__FORMAT__TEXT_TOP;
    request.rendering = &rendering;
    request.sample_bytes = 0;
    request.probability = 0.25;
    CHECK_INT(fetch(&client_capture_allocs, &request.base, NULL), ==, SONDE_OK);
    CHECK(strstr(result.text, "probability 0.25") != NULL);
    request.duration_ms = 3600001;
    CHECK_INT(fetch(&client_capture_allocs, &request.base, NULL), ==, SONDE_INVALID_ARGUMENT);
    setup_end(&setup);
}

TEST(a_saved_allocation_capture_is_listed) {
    Sonde__V1__CaptureAllocsRequest request = SONDE__V1__CAPTURE_ALLOCS_REQUEST__INIT;
    Sonde__V1__ListCapturesRequest list = SONDE__V1__LIST_CAPTURES_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    setup_begin(&setup);
    request.duration_ms = 1;
    request.keep = true;
    CHECK_INT(fetch(&client_capture_allocs, &request.base, NULL), ==, SONDE_OK);
    CHECK_INT(client_unary(setup.client, &client_list_captures, &list.base, 5000, &answer, NULL),
              ==, SONDE_OK);
    const Sonde__V1__ListCapturesResponse *captures = (const void *)answer;
    CHECK_INT(captures->n_captures, ==, 1);
    CHECK_STR(captures->captures[0]->kind, "allocs");
    protobuf_c_message_free_unpacked(answer, NULL);
    setup_end(&setup);
}

TEST(an_allocation_session_that_cannot_begin_is_refused) {
    Sonde__V1__StartAllocsRequest start = SONDE__V1__START_ALLOCS_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    fake_allocs_forget();
    start.owner = (char *)"refused";
    for (int i = 0; i < 2; i++) {
        CHECK_INT(
            client_unary(setup.client, &client_start_allocs, &start.base, 5000, &answer, &diag), ==,
            SONDE_NOT_AVAILABLE);
        CHECK(strstr(diag.text, "nothing can see its allocations") != NULL);
    }
    setup_end(&setup);
}

TEST(an_allocation_session_starts_once_and_its_result_can_be_fetched_again) {
    Sonde__V1__StartAllocsRequest start = SONDE__V1__START_ALLOCS_REQUEST__INIT;
    Sonde__V1__StopAllocsRequest stop = SONDE__V1__STOP_ALLOCS_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    ProtobufCMessage *answer = NULL;
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    fake_allocs_forget();
    rendering.format = SONDE__V1__FORMAT__COLLAPSED;
    stop.rendering = &rendering;
    CHECK_INT(fetch(&client_stop_allocs, &stop.base, NULL), ==, SONDE_OK);
    CHECK_STR(result.text, "[no samples] 0\n");
    start.owner = (char *)"tester";
    start.lease_ms = 60000;
    CHECK_INT(client_unary(setup.client, &client_start_allocs, &start.base, 5000, &answer, NULL),
              ==, SONDE_OK);
    const Sonde__V1__AllocsSession *session = (const void *)answer;
    CHECK_STR(session->owner, "tester");
    CHECK_INT(session->lease_until_unix_ns - session->start_unix_ns, ==, 60000000000);
    protobuf_c_message_free_unpacked(answer, NULL);
    CHECK_INT(client_unary(setup.client, &client_start_allocs, &start.base, 5000, &answer, &diag),
              ==, SONDE_SESSION_BUSY);
    CHECK(strstr(diag.text, "tester") != NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(fetch(&client_stop_allocs, &stop.base, NULL), ==, SONDE_OK);
        CHECK_STR(result.text, "main;f0;inlined 3000\nmain;f1 3000\n");
    }
    setup_end(&setup);
}
