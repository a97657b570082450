/* SPDX-License-Identifier: Apache-2.0
 *
 * The service and the C client, with the fake engine. */
#include "tests/rpc/setup.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static struct setup setup;

static sonde_err unary(const struct client_method *method, const void *request, void *response,
                       struct sonde_diag *diag) {
    return client_unary(setup.client, method, request, 5000, response, diag);
}

static void free_message(void *message) {
    protobuf_c_message_free_unpacked(message, NULL);
}

TEST(list_targets_returns_every_field) {
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    Sonde__V1__ListTargetsResponse *response = NULL;
    setup_begin(&setup);
    fake_engine_attach(setup.engine, "bad\xff", 77);
    CHECK_INT(unary(&client_list_targets, &request, &response, NULL), ==, SONDE_OK);
    CHECK_INT(response->n_targets, ==, 2);
    CHECK_STR(response->targets[0]->name, "demo");
    CHECK_INT(response->targets[0]->pid, ==, FAKE_PID);
    CHECK_STR(response->targets[0]->clock_note, "no clock at all");
    CHECK_STR(response->targets[1]->name, "bad\\xff");
    free_message(response);
    setup_end(&setup);
}

TEST(command_line_is_a_list_of_utf8_arguments) {
    Sonde__V1__GetCommandLineRequest request = SONDE__V1__GET_COMMAND_LINE_REQUEST__INIT;
    Sonde__V1__CommandLine *line = NULL;
    setup_begin(&setup);
    CHECK_INT(unary(&client_get_command_line, &request, &line, NULL), ==, SONDE_OK);
    CHECK_INT(line->n_arguments, ==, 3);
    CHECK_STR(line->arguments[0], "demo");
    CHECK_STR(line->arguments[1], "--port");
    CHECK_STR(line->arguments[2], "80\\xff");
    free_message(line);
    setup_end(&setup);
}

TEST(refusals_have_a_reason_and_a_sentence) {
    Sonde__V1__GetCommandLineRequest request = SONDE__V1__GET_COMMAND_LINE_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = SONDE__V1__TARGET_SELECTOR__INIT;
    Sonde__V1__CommandLine *line = NULL;
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    request.target = &selector;
    selector.name = (char *)"nobody";
    CHECK_INT(unary(&client_get_command_line, &request, &line, &diag), ==, SONDE_TARGET_NOT_FOUND);
    CHECK_STR(diag.text, "no target \"nobody\" is attached");
    selector.name = (char *)"";
    fake_engine_attach(setup.engine, "other", 77);
    CHECK_INT(unary(&client_get_command_line, &request, &line, &diag), ==, SONDE_TARGET_AMBIGUOUS);
    selector.pid = -1;
    CHECK_INT(unary(&client_get_command_line, &request, &line, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(line == NULL);
    setup_end(&setup);
}

TEST(symbolize_answers_in_the_order_of_the_request) {
    Sonde__V1__SymbolizeRequest request = SONDE__V1__SYMBOLIZE_REQUEST__INIT;
    Sonde__V1__SymbolizeResponse *response = NULL;
    uint64_t addresses[] = {4, 7, 6};
    setup_begin(&setup);
    request.addresses = addresses;
    request.n_addresses = 3;
    CHECK_INT(unary(&client_symbolize, &request, &response, NULL), ==, SONDE_OK);
    CHECK_INT(response->n_symbols, ==, 3);
    CHECK_INT(response->symbols[0]->n_frames, ==, 0);
    CHECK_STR(response->symbols[1]->frames[0]->name, "odd\\xff");
    CHECK_STR(response->symbols[1]->frames[0]->file, "demo.c");
    CHECK_STR(response->symbols[1]->build_id, "abcd");
    CHECK_INT(response->symbols[1]->quality, ==, SONDE__V1__ADDRESS_SYMBOLS__QUALITY__NAMES);
    CHECK_INT(response->symbols[2]->module_offset, ==, 6);
    free_message(response);
    request.kind = SONDE__V1__SYMBOLIZE_REQUEST__ADDRESS_KIND__RETURN;
    CHECK_INT(unary(&client_symbolize, &request, &response, NULL), ==, SONDE_OK);
    CHECK_INT(response->symbols[0]->n_frames, ==, 1);
    free_message(response);
    setup_end(&setup);
}

TEST(symbolize_of_names_only_sends_each_name_once) {
    Sonde__V1__SymbolizeRequest request = SONDE__V1__SYMBOLIZE_REQUEST__INIT;
    Sonde__V1__SymbolizeResponse *response = NULL;
    uint64_t addresses[] = {7, 4, 9};
    setup_begin(&setup);
    request.addresses = addresses;
    request.n_addresses = 3;
    request.names_only = true;
    CHECK_INT(unary(&client_symbolize, &request, &response, NULL), ==, SONDE_OK);
    CHECK_INT(response->n_symbols, ==, 0);
    CHECK_INT(response->n_names, ==, 1);
    CHECK_STR(response->names[0], "odd\\xff");
    CHECK_INT(response->n_frame_counts, ==, 3);
    CHECK_INT(response->frame_counts[0], ==, 1);
    CHECK_INT(response->frame_counts[1], ==, 0);
    CHECK_INT(response->n_frames, ==, 2);
    CHECK_INT(response->frames[1], ==, 0);
    free_message(response);
    setup_end(&setup);
}

TEST(symbolize_takes_65536_addresses) {
    Sonde__V1__SymbolizeRequest request = SONDE__V1__SYMBOLIZE_REQUEST__INIT;
    Sonde__V1__SymbolizeResponse *response = NULL;
    static uint64_t addresses[65537];
    setup_begin(&setup);
    for (size_t i = 0; i < 65537; i++)
        addresses[i] = i | 1;
    request.addresses = addresses;
    request.n_addresses = 65536;
    CHECK_INT(unary(&client_symbolize, &request, &response, NULL), ==, SONDE_OK);
    CHECK_INT(response->n_symbols, ==, 65536);
    free_message(response);
    request.n_addresses = 65537;
    CHECK_INT(unary(&client_symbolize, &request, &response, NULL), ==, SONDE_TOO_LARGE);
    setup_end(&setup);
}

/* The result received so far. */
static struct {
    uint32_t progress, starts, chunks;
    size_t bytes, announced;
    uint64_t samples;
    bool chunk_too_large, out_of_order, target_gone;
    char media_type[64], hottest[32];
} result;

static bool on_event(struct watcher *watcher, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    switch (event->event_case) {
    case SONDE__V1__CAPTURE_EVENT__EVENT_PROGRESS:
        result.progress++;
        result.out_of_order |= result.starts != 0;
        snprintf(result.hottest, sizeof result.hottest, "%s", event->progress->hottest);
        break;
    case SONDE__V1__CAPTURE_EVENT__EVENT_RESULT:
        result.starts++;
        result.announced = event->result->size_bytes;
        result.samples = event->result->samples;
        result.target_gone = event->result->target_gone;
        snprintf(result.media_type, sizeof result.media_type, "%s", event->result->media_type);
        break;
    default:
        result.chunks++;
        result.out_of_order |= result.starts == 0;
        result.chunk_too_large |= event->chunk.len > 512 << 10;
        result.bytes += event->chunk.len;
    }
    return true;
}

static sonde_err capture(uint32_t duration_ms, int format, uint32_t deadline_ms,
                         struct sonde_diag *diag) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct watcher watcher = {.on_message = on_event};
    memset(&result, 0, sizeof result);
    request.duration_ms = duration_ms;
    request.rendering = &rendering;
    rendering.format = (Sonde__V1__Format)format;
    watcher_start(&watcher, setup.client, &client_capture_cpu, &request.base, deadline_ms);
    return watcher_end(&watcher, diag);
}

TEST(capture_sends_progress_then_the_result_in_chunks) {
    setup_begin(&setup);
    fake_engine_stacks(setup.engine, 4000, false);
    fake_engine_name_len(setup.engine, 200);
    CHECK_INT(capture(1300, SONDE__V1__FORMAT__COLLAPSED, 0, NULL), ==, SONDE_OK);
    CHECK_INT(result.progress, >=, 1);
    CHECK_STR(result.hottest, "f0\\xff");
    CHECK_INT(result.starts, ==, 1);
    CHECK_INT(result.samples, ==, 40000);
    CHECK_INT(result.bytes, >, 800000);
    CHECK_INT(result.bytes, ==, result.announced);
    CHECK_INT(result.chunks, ==, (result.bytes + (512 << 10) - 1) / (512 << 10));
    CHECK(!result.chunk_too_large && !result.out_of_order);
    CHECK(strncmp(result.media_type, "text/plain", 10) == 0);
    setup_end(&setup);
}

TEST(a_capture_is_drawn_even_if_all_workers_are_busy) {
    setup_begin(&setup);
    fake_engine_refuse_work(setup.engine, true);
    CHECK_INT(capture(20, SONDE__V1__FORMAT__PPROF, 0, NULL), ==, SONDE_OK);
    CHECK_INT(result.bytes, >, 50);
    CHECK_INT(result.bytes, ==, result.announced);
    setup_end(&setup);
}

TEST(an_invalid_capture_request_starts_nothing) {
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    CHECK_INT(capture(3600001, 0, 0, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "duration_ms: \"3600001\" is not a whole number from 1 to 3600000");
    CHECK_INT(capture(10, SONDE__V1__FORMAT__HEAPSNAPSHOT, 0, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(result.starts + result.progress, ==, 0);
    setup_end(&setup);
}

static bool was_cancelled(void *context) {
    return fake_engine_cancelled(setup.engine) == *(const uint32_t *)context;
}

TEST(capture_past_its_deadline_is_cancelled_in_the_engine) {
    uint32_t one = 1;
    setup_begin(&setup);
    CHECK_INT(capture(60000, 0, 100, NULL), ==, SONDE_DEADLINE_EXCEEDED);
    CHECK(eventually(was_cancelled, &one));
    setup_end(&setup);
}

static uint64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

TEST(the_engine_knows_when_the_client_of_a_capture_gives_up) {
    setup_begin(&setup);
    CHECK_INT(capture(20, SONDE__V1__FORMAT__PPROF, 0, NULL), ==, SONDE_OK);
    CHECK_INT(fake_engine_result_by_ns(setup.engine), ==, 0);
    uint64_t before_ns = monotonic_ns();
    CHECK_INT(capture(20, SONDE__V1__FORMAT__PPROF, 50000, NULL), ==, SONDE_OK);
    uint64_t by_ns = fake_engine_result_by_ns(setup.engine);
    CHECK(by_ns > before_ns + 40000000000 && by_ns < monotonic_ns() + 51000000000);
    setup_end(&setup);
}

TEST(a_capture_of_a_target_that_ends_has_the_samples_until_then) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    struct watcher watcher = {.on_message = on_event};
    setup_begin(&setup);
    memset(&result, 0, sizeof result);
    request.duration_ms = 60000;
    watcher_start(&watcher, setup.client, &client_capture_cpu, &request.base, 0);
    CHECK(watcher_wait(&watcher, 1));
    fake_engine_detach(setup.engine, FAKE_PID);
    CHECK_INT(watcher_end(&watcher, NULL), ==, SONDE_OK);
    CHECK(result.target_gone);
    CHECK_INT(result.bytes, ==, result.announced);
    setup_end(&setup);
}

static sonde_err finish_capture(const char *key, struct sonde_diag *diag) {
    Sonde__V1__FinishCaptureRequest request = SONDE__V1__FINISH_CAPTURE_REQUEST__INIT;
    ProtobufCMessage *response = NULL;
    request.key = (char *)key;
    sonde_err err =
        client_unary(setup.client, &client_finish_capture, &request.base, 10000, &response, diag);
    if (response)
        protobuf_c_message_free_unpacked(response, NULL);
    return err;
}

TEST(a_capture_that_is_finished_by_its_key_sends_its_result) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    struct watcher watcher = {.on_message = on_event};
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    memset(&result, 0, sizeof result);
    request.duration_ms = 60000;
    request.key = "of this test";
    watcher_start(&watcher, setup.client, &client_capture_cpu, &request.base, 0);
    CHECK(watcher_wait(&watcher, 1));
    CHECK_INT(finish_capture("of another", &diag), ==, SONDE_NOT_FOUND);
    CHECK_INT(finish_capture("", &diag), ==, SONDE_NOT_FOUND);
    CHECK_INT(finish_capture("of this test", &diag), ==, SONDE_OK);
    CHECK_INT(watcher_end(&watcher, NULL), ==, SONDE_OK);
    CHECK_INT(result.starts, ==, 1);
    CHECK_INT(result.bytes, ==, result.announced);
    CHECK_INT(finish_capture("of this test", &diag), ==, SONDE_NOT_FOUND);
    setup_end(&setup);
}

TEST(a_key_of_more_than_64_bytes_is_refused) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    struct watcher watcher = {.on_message = on_event};
    struct sonde_diag diag = {0};
    char key[66];
    setup_begin(&setup);
    memset(key, 'k', 65);
    key[65] = 0;
    request.key = key;
    watcher_start(&watcher, setup.client, &client_capture_cpu, &request.base, 0);
    CHECK_INT(watcher_end(&watcher, &diag), ==, SONDE_INVALID_ARGUMENT);
    setup_end(&setup);
}

TEST(the_65th_capture_of_a_target_is_refused_at_once) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    static struct watcher watchers[64];
    struct sonde_diag diag = {0};
    uint32_t all = 64;
    setup_begin(&setup);
    request.duration_ms = 60000;
    for (int i = 0; i < 64; i++)
        watcher_start(&watchers[i], setup.client, &client_capture_cpu, &request.base, 0);
    for (int i = 0; i < 64; i++)
        CHECK(watcher_wait(&watchers[i], 1));
    CHECK_INT(capture(10, 0, 0, &diag), ==, SONDE_TOO_MANY_CAPTURES);
    CHECK_STR(diag.text, "64 captures of demo are running; the limit is 64");
    for (int i = 0; i < 64; i++)
        client_call_cancel(watchers[i].call);
    for (int i = 0; i < 64; i++)
        CHECK_INT(watcher_end(&watchers[i], NULL), ==, SONDE_CANCELLED);
    CHECK(eventually(was_cancelled, &all));
    CHECK_INT(capture(10, 0, 0, &diag), ==, SONDE_OK);
    setup_end(&setup);
}

TEST(only_one_session_runs_and_its_result_can_be_fetched_twice) {
    Sonde__V1__StartCpuRequest start = SONDE__V1__START_CPU_REQUEST__INIT;
    Sonde__V1__StopCpuRequest stop = SONDE__V1__STOP_CPU_REQUEST__INIT;
    Sonde__V1__CpuSession *session = NULL;
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    start.owner = (char *)"me";
    start.lease_ms = 60000;
    CHECK_INT(unary(&client_start_cpu, &start, &session, NULL), ==, SONDE_OK);
    CHECK_STR(session->owner, "me");
    CHECK_INT(session->lease_until_unix_ns - session->start_unix_ns, ==, 60000000000);
    free_message(session);
    CHECK_INT(unary(&client_start_cpu, &start, &session, &diag), ==, SONDE_SESSION_BUSY);
    CHECK_STR(diag.text, "a session of me runs already");
    for (int i = 0; i < 2; i++) {
        struct watcher watcher = {.on_message = on_event};
        memset(&result, 0, sizeof result);
        watcher_start(&watcher, setup.client, &client_stop_cpu, &stop.base, 0);
        CHECK_INT(watcher_end(&watcher, NULL), ==, SONDE_OK);
        CHECK_INT(result.samples, ==, 30);
        CHECK_INT(result.bytes, ==, result.announced);
    }
    setup_end(&setup);
}

/* The events that a watcher has received: a for attached, d for detached, s for synced. */
static struct {
    char kinds[64];
    int32_t pids[64];
    uint32_t count;
} events;

static bool on_target(struct watcher *watcher, const ProtobufCMessage *message) {
    const Sonde__V1__TargetEvent *event = (const void *)message;
    events.kinds[events.count] = "?ads"[event->kind];
    events.pids[events.count++] = event->target ? event->target->pid : 0;
    return true;
}

TEST(watch_sends_the_list_then_synced_then_changes) {
    Sonde__V1__WatchTargetsRequest request = SONDE__V1__WATCH_TARGETS_REQUEST__INIT;
    struct watcher watcher = {.on_message = on_target};
    setup_begin(&setup);
    memset(&events, 0, sizeof events);
    watcher_start(&watcher, setup.client, &client_watch_targets, &request.base, 0);
    CHECK(watcher_wait(&watcher, 2));
    CHECK_STR(events.kinds, "as");
    fake_engine_attach(setup.engine, "other", 77);
    CHECK(watcher_wait(&watcher, 3));
    fake_engine_detach(setup.engine, FAKE_PID);
    CHECK(watcher_wait(&watcher, 4));
    CHECK_STR(events.kinds, "asad");
    CHECK_INT(events.pids[2], ==, 77);
    CHECK_INT(events.pids[3], ==, FAKE_PID);
    client_call_cancel(watcher.call);
    CHECK_INT(watcher_end(&watcher, NULL), ==, SONDE_CANCELLED);
    setup_end(&setup);
}

/* Which of the pids 1000 to 1049 are attached, according to the events received. */
static struct {
    int there[50];
    bool nonsense, saw_end;
    uint32_t messages;
} crowd;

static bool on_crowd(struct watcher *watcher, const ProtobufCMessage *message) {
    const Sonde__V1__TargetEvent *event = (const void *)message;
    int32_t pid = event->target ? event->target->pid : 0;
    crowd.messages++;
    crowd.saw_end |= pid == 9999;
    if (pid < 1000 || pid >= 1050)
        return true;
    int *there = &crowd.there[pid - 1000];
    *there += event->kind == SONDE__V1__TARGET_EVENT__KIND__ATTACHED ? 1 : -1;
    crowd.nonsense |= *there < 0 || *there > 1;
    return true;
}

TEST(a_slow_watcher_does_not_see_targets_that_came_and_went) {
    Sonde__V1__WatchTargetsRequest request = SONDE__V1__WATCH_TARGETS_REQUEST__INIT;
    struct watcher watcher = {.on_message = on_crowd, .holds = true};
    setup_begin(&setup);
    memset(&crowd, 0, sizeof crowd);
    watcher_start(&watcher, setup.client, &client_watch_targets, &request.base, 0);
    CHECK(watcher_wait(&watcher, 1));
    for (int i = 0; i < 40000; i++) {
        fake_engine_attach(setup.engine, "short-lived", 1000 + i % 50);
        fake_engine_detach(setup.engine, 1000 + i % 50);
    }
    fake_engine_attach(setup.engine, "stays", 1007);
    fake_engine_attach(setup.engine, "end", 9999);
    for (uint32_t i = 2; !crowd.saw_end; i++) {
        client_call_next(watcher.call);
        CHECK(watcher_wait(&watcher, i));
    }
    CHECK_INT(crowd.messages, <, 40000);
    CHECK(!crowd.nonsense);
    for (int i = 0; i < 50; i++)
        CHECK_INT(crowd.there[i], ==, i == 7);
    client_call_cancel(watcher.call);
    CHECK_INT(watcher_end(&watcher, NULL), ==, SONDE_CANCELLED);
    setup_end(&setup);
}

TEST(a_second_service_on_the_same_path_is_refused) {
    struct rpc_server *second = NULL;
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    const char *addresses[] = {setup.address};
    struct rpc_server_options options = {
        .engine = setup.engine, .addresses = addresses, .address_count = 1};
    CHECK_INT(rpc_server_create(&options, &second, &diag), ==, SONDE_NOT_AVAILABLE);
    CHECK(strstr(diag.text, "another process already serves"));
    CHECK_INT(capture(10, 0, 0, &diag), ==, SONDE_OK);
    setup_end(&setup);
}

TEST(an_address_open_to_others_needs_tokens_certificates_or_insecure) {
    const char *addresses[] = {"0.0.0.0:0"};
    struct sonde_diag diag = {0};
    struct rpc_server *server = NULL;
    struct engine *engine = fake_engine_create();
    struct rpc_server_options options = {
        .engine = engine, .addresses = addresses, .address_count = 1};
    CHECK_INT(rpc_server_create(&options, &server, &diag), ==, SONDE_PERMISSION_DENIED);
    CHECK(strstr(diag.text, "other machines can reach 0.0.0.0:0"));
    options.insecure = true;
    CHECK_INT(rpc_server_create(&options, &server, &diag), ==, SONDE_OK);
    int port = 0;
    CHECK_INT(sscanf(rpc_server_address(server, 0), "0.0.0.0:%d", &port), ==, 1);
    CHECK_INT(port, >, 0);
    CHECK(rpc_server_address(server, 1) == NULL);
    rpc_server_destroy(server);
    engine_destroy(engine);
}

TEST(a_server_that_cannot_start_leaves_no_socket) {
    struct sonde_diag diag = {0};
    struct rpc_server *server = NULL;
    char folder[64], address[64];
    CHECK(mkdtemp(temporary_template(folder, sizeof folder)) != NULL);
    snprintf(address, sizeof address, "unix:%s/a.sock", folder);
    const char *addresses[] = {address, "nonsense"};
    struct rpc_server_options options = {.addresses = addresses, .address_count = 2};
    CHECK_INT(rpc_server_create(&options, &server, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "\"nonsense\" is neither"));
    CHECK_INT(rmdir(folder), ==, 0);
}
