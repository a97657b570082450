/* SPDX-License-Identifier: Apache-2.0
 *
 * The heap methods, with the fake engine. */
#include "api/draw/draw.h"
#include "tests/rpc/setup.h"
#include "tests/unit/check.h"

#include <time.h>
#include <unistd.h>

static struct setup setup;

static sonde_err unary(const struct client_method *method, const void *request, void *response,
                       struct sonde_diag *diag) {
    return client_unary(setup.client, method, request, 5000, response, diag);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void free_message(void *message) {
    protobuf_c_message_free_unpacked(message, NULL);
}

TEST(heap_status_has_every_field_as_utf8) {
    Sonde__V1__HeapStatusRequest request = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    Sonde__V1__HeapState *state = NULL;
    setup_begin(&setup);
    CHECK_INT(unary(&client_heap_status, &request, &state, NULL), ==, SONDE_OK);
    CHECK_INT(state->backend, ==, SONDE__V1__HEAP_STATE__BACKEND__JEMALLOC);
    CHECK(state->available && !state->active);
    CHECK_STR(state->note, "a note\\xff");
    CHECK_INT(state->sample_bytes, ==, 524288);
    CHECK_INT(state->epoch, ==, 7);
    CHECK_INT(state->dumps, ==, 2);
    CHECK_INT(state->dump_bytes, ==, 30);
    free_message(state);
    setup_end(&setup);
}

TEST(heap_activation_passes_its_options_on_and_a_refusal_has_a_reason) {
    Sonde__V1__HeapActivateRequest request = SONDE__V1__HEAP_ACTIVATE_REQUEST__INIT;
    Sonde__V1__HeapState *state = NULL;
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    request.interval_s = 60;
    request.owner = (char *)"first";
    CHECK_INT(unary(&client_heap_activate, &request, &state, NULL), ==, SONDE_OK);
    CHECK(state->active);
    CHECK_STR(state->owner, "first");
    CHECK_INT(state->interval_s, ==, 60);
    free_message(state);
    request.owner = (char *)"second";
    CHECK_INT(unary(&client_heap_activate, &request, &state, &diag), ==, SONDE_SESSION_BUSY);
    CHECK_STR(diag.text, "switched on by first");
    request.owner =
        (char *)"a name that is longer than the sixty-four bytes that an owner may have";
    CHECK_INT(unary(&client_heap_activate, &request, &state, &diag), ==, SONDE_INVALID_ARGUMENT);
    setup_end(&setup);
}

TEST(heap_deactivation_reports_whether_it_was_on) {
    Sonde__V1__HeapDeactivateRequest request = SONDE__V1__HEAP_DEACTIVATE_REQUEST__INIT;
    Sonde__V1__HeapDeactivated *answer = NULL;
    setup_begin(&setup);
    request.delete_dumps = true;
    CHECK_INT(unary(&client_heap_deactivate, &request, &answer, NULL), ==, SONDE_OK);
    CHECK(answer->was_active && answer->state && !answer->state->active);
    free_message(answer);
    setup_end(&setup);
}

TEST(heap_dumps_are_listed_in_the_engines_order) {
    Sonde__V1__ListHeapDumpsRequest request = SONDE__V1__LIST_HEAP_DUMPS_REQUEST__INIT;
    Sonde__V1__ListHeapDumpsResponse *list = NULL;
    setup_begin(&setup);
    CHECK_INT(unary(&client_list_heap_dumps, &request, &list, NULL), ==, SONDE_OK);
    CHECK_INT(list->n_dumps, ==, 2);
    CHECK_STR(list->dumps[0]->name, "000002.heap");
    CHECK_INT(list->dumps[0]->unix_ns, ==, 2000);
    CHECK_INT(list->dumps[1]->size_bytes, ==, 10);
    CHECK_INT(list->dumps[1]->epoch, ==, 1);
    free_message(list);
    setup_end(&setup);
}

TEST(heap_dumps_of_ended_processes_name_their_targets) {
    Sonde__V1__TargetSelector selector = SONDE__V1__TARGET_SELECTOR__INIT;
    Sonde__V1__ListHeapDumpsRequest request = SONDE__V1__LIST_HEAP_DUMPS_REQUEST__INIT;
    Sonde__V1__ListHeapDumpsResponse *list = NULL;
    setup_begin(&setup);
    request.ended = true;
    CHECK_INT(unary(&client_list_heap_dumps, &request, &list, NULL), ==, SONDE_OK);
    CHECK_INT(list->n_dumps, ==, 2);
    CHECK_STR(list->dumps[0]->target, "crashed");
    CHECK_STR(list->dumps[0]->uuid, "00112233445566778899aabbccddeeff");
    CHECK_INT(list->dumps[0]->pid, ==, 4711);
    CHECK_STR(list->dumps[0]->name, "000002.heap");
    CHECK_STR(list->dumps[1]->target, "");
    free_message(list);
    request.target = &selector;
    selector.name = (char *)"other";
    CHECK_INT(unary(&client_list_heap_dumps, &request, &list, NULL), ==, SONDE_OK);
    CHECK_INT(list->n_dumps, ==, 0);
    free_message(list);
    selector.pid = 1;
    CHECK_INT(unary(&client_list_heap_dumps, &request, &list, NULL), ==, SONDE_NOT_AVAILABLE);
    setup_end(&setup);
}

/* The result received so far. */
static struct {
    uint32_t starts, chunks, duration_ms;
    size_t bytes, announced;
    char media_type[64], text[4096];
} result;

static bool on_event(struct watcher *watcher, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_RESULT) {
        result.starts++;
        result.announced = event->result->size_bytes;
        result.duration_ms = event->result->duration_ms;
        strncpy(result.media_type, event->result->media_type, sizeof result.media_type - 1);
    } else if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK) {
        size_t room = sizeof result.text - 1 - strlen(result.text);
        strncat(result.text, (const char *)event->chunk.data,
                event->chunk.len < room ? event->chunk.len : room);
        result.chunks++;
        result.bytes += event->chunk.len;
    }
    return true;
}

static sonde_err fetch(const struct client_method *method, const void *request,
                       struct sonde_diag *diag) {
    struct watcher watcher = {.on_message = on_event};
    memset(&result, 0, sizeof result);
    watcher_start(&watcher, setup.client, method, request, 10000);
    return watcher_end(&watcher, diag);
}

TEST(a_heap_snapshot_without_a_format_is_the_raw_dump_in_chunks) {
    Sonde__V1__HeapSnapshotRequest request = SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    setup_begin(&setup);
    CHECK_INT(fetch(&client_heap_snapshot, &request, NULL), ==, SONDE_OK);
    CHECK_INT(result.starts, ==, 1);
    CHECK_INT(result.announced, ==, 1200000);
    CHECK_INT(result.bytes, ==, 1200000);
    CHECK_INT(result.chunks, ==, 3);
    CHECK_STR(result.media_type, "application/octet-stream");
    setup_end(&setup);
}

TEST(a_heap_snapshot_is_drawn_in_every_format_of_memory) {
    Sonde__V1__HeapSnapshotRequest request = SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    size_t count;
    const struct sonde_format_info *formats = sonde_format_table(&count);
    setup_begin(&setup);
    request.rendering = &rendering;
    for (size_t i = 0; i < count; i++) {
        if (!(formats[i].offered & SONDE_OF_HEAP))
            continue;
        rendering.format = (Sonde__V1__Format)formats[i].format;
        CHECK_INT(fetch(&client_heap_snapshot, &request, NULL), ==, SONDE_OK);
        CHECK_STR(result.media_type, formats[i].media_type);
        CHECK(result.bytes > 0 && result.bytes == result.announced);
    }
    rendering.format = SONDE__V1__FORMAT__LEGACY_CPU;
    CHECK_INT(fetch(&client_heap_snapshot, &request, NULL), ==, SONDE_INVALID_ARGUMENT);
    setup_end(&setup);
}

TEST(the_sample_type_selects_the_value_that_is_drawn) {
    Sonde__V1__HeapSnapshotRequest request = SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    request.rendering = &rendering;
    rendering.format = SONDE__V1__FORMAT__COLLAPSED;
    CHECK_INT(fetch(&client_heap_snapshot, &request, NULL), ==, SONDE_OK);
    CHECK_STR(result.text, "main;keep 3000\n");
    request.sample_type = (char *)"inuse_objects";
    CHECK_INT(fetch(&client_heap_snapshot, &request, NULL), ==, SONDE_OK);
    CHECK_STR(result.text, "main;keep 3\n");
    request.sample_type = (char *)"alloc_space";
    CHECK_INT(fetch(&client_heap_snapshot, &request, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "inuse_space") != NULL);
    setup_end(&setup);
}

TEST(a_table_of_a_heap_has_the_rows_and_the_function_that_were_asked_for) {
    Sonde__V1__HeapSnapshotRequest request = SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    setup_begin(&setup);
    request.rendering = &rendering;
    rendering.format = SONDE__V1__FORMAT__TEXT_TOP;
    rendering.max_rows = 1;
    CHECK_INT(fetch(&client_heap_snapshot, &request, NULL), ==, SONDE_OK);
    CHECK(strstr(result.text, "Showing 1 of 2 functions\n") != NULL);
    CHECK(strstr(result.text, "  keep\n") != NULL && strstr(result.text, "  main\n") == NULL);
    rendering.max_rows = 0;
    rendering.by_total = true;
    CHECK_INT(fetch(&client_heap_snapshot, &request, NULL), ==, SONDE_OK);
    CHECK(strstr(result.text, "  keep\n") != NULL && strstr(result.text, "  main\n") != NULL);
    rendering.function = (char *)"keep";
    CHECK_INT(fetch(&client_heap_snapshot, &request, NULL), ==, SONDE_OK);
    CHECK(strstr(result.text, "Callers") != NULL);
    setup_end(&setup);
}

TEST(a_saved_dump_is_fetched_by_its_name) {
    Sonde__V1__GetHeapDumpRequest request = SONDE__V1__GET_HEAP_DUMP_REQUEST__INIT;
    setup_begin(&setup);
    request.name = (char *)"000001.heap";
    CHECK_INT(fetch(&client_get_heap_dump, &request, NULL), ==, SONDE_OK);
    CHECK_INT(result.bytes, ==, 1200000);
    request.name = (char *)"000009.heap";
    CHECK_INT(fetch(&client_get_heap_dump, &request, NULL), ==, SONDE_NOT_FOUND);
    setup_end(&setup);
}

TEST(a_difference_shows_freed_memory_as_negative) {
    Sonde__V1__HeapSnapshotRequest request = SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    setup_begin(&setup);
    request.rendering = &rendering;
    request.base_dump = (char *)"000001.heap";
    rendering.format = SONDE__V1__FORMAT__TEXT_TOP;
    CHECK_INT(fetch(&client_heap_snapshot, &request, NULL), ==, SONDE_OK);
    CHECK(strstr(result.text, "1000B") != NULL && strstr(result.text, " keep\n") != NULL);
    CHECK(strstr(result.text, "-400B") != NULL && strstr(result.text, " gone\n") != NULL);
    request.growth_only = true;
    CHECK_INT(fetch(&client_heap_snapshot, &request, NULL), ==, SONDE_OK);
    CHECK(strstr(result.text, " keep\n") != NULL && strstr(result.text, "gone") == NULL);
    request.sample_type = (char *)"inuse_objects";
    rendering.format = SONDE__V1__FORMAT__COLLAPSED;
    CHECK_INT(fetch(&client_heap_snapshot, &request, NULL), ==, SONDE_OK);
    CHECK_STR(result.text, "main;keep 1\n");
    rendering.format = SONDE__V1__FORMAT__FORMAT_UNSPECIFIED;
    CHECK_INT(fetch(&client_heap_snapshot, &request, NULL), ==, SONDE_OK);
    CHECK(memcmp(result.text, "\x1f\x8b", 2) == 0);
    setup_end(&setup);
}

TEST(a_difference_is_drawn_in_every_format_except_jemallocs) {
    Sonde__V1__GetHeapDumpRequest request = SONDE__V1__GET_HEAP_DUMP_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct sonde_diag diag = {0};
    size_t count;
    const struct sonde_format_info *formats = sonde_format_table(&count);
    setup_begin(&setup);
    request.rendering = &rendering;
    request.name = request.base_dump = (char *)"000001.heap";
    for (size_t i = 0; i < 2 * count; i++) {
        const struct sonde_format_info *format = &formats[i % count];
        if (!(format->offered & SONDE_OF_HEAP) || !format->is_drawn)
            continue;
        request.growth_only = i >= count;
        rendering.format = (Sonde__V1__Format)format->format;
        CHECK_INT(fetch(&client_get_heap_dump, &request, NULL), ==, SONDE_OK);
        CHECK(result.bytes > 0 && result.bytes == result.announced);
    }
    rendering.format = SONDE__V1__FORMAT__JEMALLOC;
    CHECK_INT(fetch(&client_get_heap_dump, &request, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "jeprof --base") != NULL);
    setup_end(&setup);
}

TEST(h14_dumps_of_different_epochs_are_not_compared) {
    Sonde__V1__HeapSnapshotRequest request = SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    request.base_dump = (char *)"000003.heap";
    CHECK_INT(fetch(&client_heap_snapshot, &request, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "were reset between 000003.heap and now") != NULL);
    request.base_dump = (char *)"000009.heap";
    CHECK_INT(fetch(&client_heap_snapshot, &request, NULL), ==, SONDE_NOT_FOUND);
    request.base_dump = (char *)"000001.heap";
    request.delta_ms = 1;
    CHECK_INT(fetch(&client_heap_snapshot, &request, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "not both") != NULL);
    setup_end(&setup);
}

TEST(a_difference_over_a_period_is_sent_at_its_end) {
    Sonde__V1__HeapSnapshotRequest request = SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    setup_begin(&setup);
    rendering.format = SONDE__V1__FORMAT__COLLAPSED;
    request.rendering = &rendering;
    request.delta_ms = 300;
    int64_t start_ns = now_ns();
    CHECK_INT(fetch(&client_heap_snapshot, &request, NULL), ==, SONDE_OK);
    CHECK(now_ns() - start_ns >= 300000000);
    CHECK_INT(result.duration_ms, ==, 300);
    CHECK_STR(result.text, "[no samples] 0\n"); /* the fake heap does not change */
    request.delta_ms = 3600001;
    CHECK_INT(fetch(&client_heap_snapshot, &request, NULL), ==, SONDE_INVALID_ARGUMENT);
    setup_end(&setup);
}

TEST(a_difference_fails_if_its_target_ends_meanwhile) {
    Sonde__V1__HeapSnapshotRequest request = SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    struct watcher watcher = {0};
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    request.delta_ms = 2000;
    watcher_start(&watcher, setup.client, &client_heap_snapshot, &request.base, 10000);
    usleep(1000000);
    fake_engine_detach(setup.engine, FAKE_PID);
    fake_engine_attach(setup.engine, "demo", FAKE_PID + 1); /* another target of the same name */
    CHECK_INT(watcher_end(&watcher, &diag), ==, SONDE_TARGET_GONE);
    CHECK(strstr(diag.text, "ended before") != NULL);
    setup_end(&setup);
}

TEST(sixty_four_differences_wait_at_once_and_the_next_one_is_refused) {
    Sonde__V1__HeapSnapshotRequest request = SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    struct watcher watchers[200] = {{0}};
    sonde_err err = SONDE_OK;
    size_t count = 0;
    setup_begin(&setup);
    while (count < 200 && !err) { /* a short difference may take the place of a long one */
        request.delta_ms = 3600000;
        watcher_start(&watchers[count++], setup.client, &client_heap_snapshot, &request.base, 0);
        request.delta_ms = 1;
        err = fetch(&client_heap_snapshot, &request, NULL);
    }
    CHECK_INT(err, ==, SONDE_TOO_MANY_CAPTURES);
    CHECK_INT(count, >=, 64);
    client_call_cancel(watchers[0].call);
    CHECK_INT(watcher_end(&watchers[0], NULL), ==, SONDE_CANCELLED);
    for (int i = 0; i < 500 && err; i++, usleep(10000))
        err = fetch(&client_heap_snapshot, &request, NULL);
    CHECK_INT(err, ==, SONDE_OK);
    setup_stop(&setup, 0);
    for (size_t i = 1; i < count; i++) {
        err = watcher_end(&watchers[i], NULL);
        CHECK(err == SONDE_UNAVAILABLE || err == SONDE_TOO_MANY_CAPTURES);
    }
    setup_end(&setup);
}

TEST(heap_requests_for_a_missing_target_are_refused) {
    Sonde__V1__HeapStatusRequest status = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    Sonde__V1__HeapSnapshotRequest snapshot = SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = SONDE__V1__TARGET_SELECTOR__INIT;
    Sonde__V1__HeapState *state = NULL;
    setup_begin(&setup);
    selector.pid = 999;
    status.target = snapshot.target = &selector;
    CHECK_INT(unary(&client_heap_status, &status, &state, NULL), ==, SONDE_TARGET_NOT_FOUND);
    CHECK_INT(fetch(&client_heap_snapshot, &snapshot, NULL), ==, SONDE_TARGET_NOT_FOUND);
    setup_end(&setup);
}
