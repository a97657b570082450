/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests for sampling from outside: the source, several processes as one target, and the list of
 * processes that are not attached. */
#include "tests/rpc/setup.h"
#include "tests/unit/check.h"

#include <stdio.h>

static struct setup setup;
static struct sonde_diag diag;
static char clock_note[64];

static bool on_event(struct watcher *watcher, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    (void)watcher;
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_RESULT)
        snprintf(clock_note, sizeof clock_note, "%s", event->result->clock_note);
    return true;
}

static sonde_err unary(const struct client_method *method, const void *request, void *response) {
    return client_unary(setup.client, method, request, 5000, response, &diag);
}

static sonde_err capture(Sonde__V1__TargetSelector *target, int source) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    struct watcher watcher = {.on_message = on_event};
    request.target = target;
    request.duration_ms = 10;
    request.source = (Sonde__V1__Source)source;
    watcher_start(&watcher, setup.client, &client_capture_cpu, &request.base, 10000);
    return watcher_end(&watcher, &diag);
}

static sonde_err stream(int source) {
    Sonde__V1__StreamCpuRequest request = SONDE__V1__STREAM_CPU_REQUEST__INIT;
    struct watcher watcher = {0};
    request.window_ms = 50;
    request.max_windows = 1;
    request.source = (Sonde__V1__Source)source;
    watcher_start(&watcher, setup.client, &client_stream_cpu, &request.base, 10000);
    return watcher_end(&watcher, &diag);
}

static sonde_err start(int source) {
    Sonde__V1__StartCpuRequest request = SONDE__V1__START_CPU_REQUEST__INIT;
    Sonde__V1__CpuSession *session = NULL;
    request.source = (Sonde__V1__Source)source;
    sonde_err err = unary(&client_start_cpu, &request, &session);
    if (session)
        protobuf_c_message_free_unpacked(&session->base, NULL);
    return err;
}

TEST(the_source_is_passed_to_the_engine_and_the_note_to_the_client) {
    setup_begin(&setup);
    CHECK_INT(capture(NULL, SONDE__V1__SOURCE__HOST), ==, SONDE_OK);
    CHECK_INT(fake_engine_last_request().source, ==, ENGINE_HOST);
    CHECK_STR(clock_note, "no clock at all");
    CHECK_INT(capture(NULL, SONDE__V1__SOURCE__AUTOMATIC), ==, SONDE_OK);
    CHECK_INT(fake_engine_last_request().source, ==, ENGINE_AUTOMATIC);
    CHECK_INT(stream(SONDE__V1__SOURCE__GUEST), ==, SONDE_OK);
    CHECK_INT(fake_engine_last_request().source, ==, ENGINE_GUEST);
    CHECK_INT(start(SONDE__V1__SOURCE__HOST), ==, SONDE_OK);
    CHECK_INT(fake_engine_last_request().source, ==, ENGINE_HOST);
    setup_end(&setup);
}

TEST(an_unknown_source_is_refused_with_the_ones_that_exist) {
    static const char text[] = "source: \"3\" is not one of 0 (AUTOMATIC), 1 (HOST), 2 (GUEST)";
    setup_begin(&setup);
    CHECK_INT(capture(NULL, 3), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, text);
    CHECK_INT(stream(3), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, text);
    CHECK_INT(start(3), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, text);
    CHECK_INT(start(-1), ==, SONDE_INVALID_ARGUMENT);
    setup_end(&setup);
}

TEST(several_processes_are_a_target_of_cpu_calls_only) {
    Sonde__V1__TargetSelector target = SONDE__V1__TARGET_SELECTOR__INIT;
    Sonde__V1__GetCommandLineRequest request = SONDE__V1__GET_COMMAND_LINE_REQUEST__INIT;
    Sonde__V1__CommandLine *line = NULL;
    setup_begin(&setup);
    target.all = true;
    CHECK_INT(capture(&target, 0), ==, SONDE_OK);
    CHECK(fake_engine_last_request().all && !fake_engine_last_request().has_owner);
    target.name = (char *)"demo";
    CHECK_INT(capture(&target, 0), ==, SONDE_OK);
    request.target = &target;
    CHECK_INT(unary(&client_get_command_line, &request, &line), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "target.all: several processes as one target have CPU profiles only");
    setup_end(&setup);
}

TEST(what_contradicts_several_processes_is_refused) {
    Sonde__V1__TargetSelector target = SONDE__V1__TARGET_SELECTOR__INIT;
    setup_begin(&setup);
    target.all = true;
    CHECK_INT(capture(&target, SONDE__V1__SOURCE__GUEST), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "sampled from outside"));
    target.name = (char *)"demo";
    target.pid = FAKE_PID;
    CHECK_INT(capture(&target, 0), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "target.all: give a name or a pid, not both");
    target.name = target.uuid = (char *)"0123";
    target.pid = 0;
    CHECK_INT(capture(&target, 0), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "target.all and target.uuid exclude each other");
    setup_end(&setup);
}

static Sonde__V1__ListTargetsResponse *list(bool include_unattached) {
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    Sonde__V1__ListTargetsResponse *response = NULL;
    request.include_unattached = include_unattached;
    CHECK_INT(unary(&client_list_targets, &request, &response), ==, SONDE_OK);
    return response;
}

TEST(the_list_has_unattached_processes_when_they_are_asked_for) {
    setup_begin(&setup);
    fake_engine_add(setup.engine, "outside", 77, 4000000000u, false);
    Sonde__V1__ListTargetsResponse *response = list(false);
    CHECK_INT(response->n_targets, ==, 1);
    CHECK_STR(response->targets[0]->user, "root");
    CHECK(!response->targets[0]->unattached);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    for (int twice = 0; twice < 2; twice++) {
        response = list(true);
        CHECK_INT(response->n_targets, ==, 2);
        CHECK_STR(response->targets[0]->user, "root");
        CHECK_STR(response->targets[1]->name, "outside");
        CHECK(response->targets[1]->unattached);
        CHECK_INT(response->targets[1]->uid, ==, 4000000000u);
        CHECK_STR(response->targets[1]->user, ""); /* nobody has that number */
        protobuf_c_message_free_unpacked(&response->base, NULL);
    }
    setup_end(&setup);
}

TEST(more_users_than_the_cache_holds_have_no_name) {
    setup_begin(&setup);
    for (uint32_t i = 0; i < 250; i++)
        fake_engine_add(setup.engine, "many", (pid_t)(100 + i), 3000000000u + i, false);
    Sonde__V1__ListTargetsResponse *response = list(true);
    CHECK_INT(response->n_targets, ==, 251);
    CHECK_STR(response->targets[0]->user, "root");
    protobuf_c_message_free_unpacked(&response->base, NULL);
    setup_end(&setup);
}
