/* SPDX-License-Identifier: Apache-2.0
 *
 * What a user of the machine, for whom a gateway calls, may reach: with one sonded for every user,
 * and with a sonded whose guests are shown to all. */
#include "tests/rpc/setup.h"
#include "tests/unit/check.h"

#include <stdio.h>

#define USER       1000
#define ROOT_GUEST 10
#define OWN_GUEST  11
#define ROOT_PID   20
#define OWN_PID    21

static struct setup setup;
static const struct client_caller user = {.is_limited = true, .uid = USER};
static struct sonde_diag diag;

static void begin(bool separates_users) {
    setup_begin(&setup);
    setup_stop(&setup, 0);
    setup.separates_users = separates_users;
    setup_serve(&setup);
    fake_engine_detach(setup.engine, FAKE_PID);
    fake_engine_add(setup.engine, "roots-guest", ROOT_GUEST, 0, true);
    fake_engine_add(setup.engine, "own-guest", OWN_GUEST, USER, true);
    fake_engine_add(setup.engine, "roots", ROOT_PID, 0, false);
    fake_engine_add(setup.engine, "own", OWN_PID, USER, false);
}

/* A request of each method that is about a process, with the selector and the source filled in. */
union any_request {
    ProtobufCMessage base;
    Sonde__V1__CaptureCpuRequest capture;
    Sonde__V1__StreamCpuRequest stream;
    Sonde__V1__StartCpuRequest start;
    Sonde__V1__StopCpuRequest stop;
    Sonde__V1__SymbolizeRequest symbolize;
    Sonde__V1__HeapSnapshotRequest snapshot;
};

static const struct target_method {
    const struct client_method *method;
    const ProtobufCMessageDescriptor *request;
    bool takes_all;
} methods[] = {
    {&client_capture_cpu, &sonde__v1__capture_cpu_request__descriptor, true},
    {&client_stream_cpu, &sonde__v1__stream_cpu_request__descriptor, true},
    {&client_start_cpu, &sonde__v1__start_cpu_request__descriptor, true},
    {&client_stop_cpu, &sonde__v1__stop_cpu_request__descriptor, true},
    {&client_symbolize, &sonde__v1__symbolize_request__descriptor, false},
    {&client_get_command_line, &sonde__v1__get_command_line_request__descriptor, false},
    {&client_get_backtraces, &sonde__v1__get_backtraces_request__descriptor, false},
    {&client_check_unwind, &sonde__v1__check_unwind_request__descriptor, false},
    {&client_heap_status, &sonde__v1__heap_status_request__descriptor, false},
    {&client_heap_snapshot, &sonde__v1__heap_snapshot_request__descriptor, false},
    {&client_capture_allocs, &sonde__v1__capture_allocs_request__descriptor, false},
    {&client_start_allocs, &sonde__v1__start_allocs_request__descriptor, false},
};
#define METHODS (sizeof methods / sizeof *methods)

static sonde_err ask(const struct target_method *method, Sonde__V1__TargetSelector *target,
                     int source) {
    union any_request request;
    struct watcher watcher = {.caller = &user};
    protobuf_c_message_init(method->request, &request);
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(method->request, "target");
    *(Sonde__V1__TargetSelector **)((char *)&request + field->offset) = target;
    field = protobuf_c_message_descriptor_get_field_by_name(method->request, "source");
    if (field)
        memcpy((char *)&request + field->offset, &source, sizeof source);
    field = protobuf_c_message_descriptor_get_field_by_name(method->request, "duration_ms");
    if (field)
        memcpy((char *)&request + field->offset, &(uint32_t){10}, sizeof(uint32_t));
    if (method->method == &client_stream_cpu) {
        request.stream.max_windows = 1;
        request.stream.window_ms = 50;
    }
    memset(&diag, 0, sizeof diag);
    watcher_start(&watcher, setup.client, method->method, &request.base, 10000);
    return watcher_end(&watcher, &diag);
}

static sonde_err ask_by_pid(const struct target_method *method, pid_t pid, int source) {
    Sonde__V1__TargetSelector target = SONDE__V1__TARGET_SELECTOR__INIT;
    target.pid = pid;
    return ask(method, &target, source);
}

static sonde_err ask_by_name(const struct target_method *method, const char *name) {
    Sonde__V1__TargetSelector target = SONDE__V1__TARGET_SELECTOR__INIT;
    target.name = (char *)name;
    return ask(method, &target, 0);
}

static sonde_err ask_by_uuid(const struct target_method *method, pid_t pid) {
    Sonde__V1__TargetSelector target = SONDE__V1__TARGET_SELECTOR__INIT;
    char uuid[33];
    snprintf(uuid, sizeof uuid, "%032x", (unsigned)pid);
    target.uuid = uuid;
    return ask(method, &target, 0);
}

static void check_hidden(pid_t pid, const char *name) {
    for (size_t i = 0; i < METHODS; i++) {
        CHECK_INT(ask_by_pid(&methods[i], pid, 0), ==, SONDE_TARGET_NOT_FOUND);
        CHECK_INT(ask_by_pid(&methods[i], pid, SONDE__V1__SOURCE__HOST), ==,
                  SONDE_TARGET_NOT_FOUND);
        CHECK_INT(ask_by_name(&methods[i], name), ==, SONDE_TARGET_NOT_FOUND);
        CHECK_INT(ask_by_uuid(&methods[i], pid), ==, SONDE_TARGET_NOT_FOUND);
    }
}

TEST(a_user_reaches_no_process_of_another_user) {
    begin(true);
    check_hidden(ROOT_PID, "roots");
    check_hidden(ROOT_GUEST, "roots-guest");
    CHECK_INT(ask_by_pid(&methods[0], OWN_PID, 0), ==, SONDE_OK);
    CHECK_INT(ask_by_name(&methods[0], "own"), ==, SONDE_OK);
    CHECK_INT(ask_by_pid(&methods[0], OWN_GUEST, SONDE__V1__SOURCE__HOST), ==, SONDE_OK);
    CHECK_INT(fake_engine_last_request().source, ==, ENGINE_HOST);
    setup_end(&setup);
}

TEST(guests_that_are_shown_to_all_are_not_sampled_from_outside_by_others) {
    begin(false);
    check_hidden(ROOT_PID, "roots");
    for (size_t i = 0; i < 3; i++) {
        CHECK_INT(ask_by_pid(&methods[i], ROOT_GUEST, 0), ==, SONDE_OK);
        CHECK_INT(fake_engine_last_request().source, ==, ENGINE_GUEST);
        CHECK_INT(ask_by_pid(&methods[i], ROOT_GUEST, SONDE__V1__SOURCE__HOST), ==,
                  SONDE_PERMISSION_DENIED);
        CHECK(strstr(diag.text, "only your own processes can be sampled from outside"));
    }
    CHECK_INT(ask_by_pid(&methods[3], ROOT_GUEST, 0), ==, SONDE_OK);
    CHECK(methods[7].method == &client_check_unwind); /* always samples from outside */
    CHECK_INT(ask_by_pid(&methods[7], ROOT_GUEST, 0), ==, SONDE_TARGET_NOT_FOUND);
    CHECK_INT(ask_by_name(&methods[4], "roots-guest"), ==, SONDE_OK);
    CHECK_INT(ask_by_pid(&methods[0], OWN_GUEST, SONDE__V1__SOURCE__HOST), ==, SONDE_OK);
    CHECK_INT(fake_engine_last_request().source, ==, ENGINE_HOST);
    CHECK_INT(ask_by_pid(&methods[0], OWN_PID, 0), ==, SONDE_OK);
    setup_end(&setup);
}

TEST(with_several_guests_none_is_chosen_for_another_user) {
    Sonde__V1__TargetSelector empty = SONDE__V1__TARGET_SELECTOR__INIT;
    begin(false);
    CHECK_INT(ask(&methods[0], &empty, 0), ==, SONDE_TARGET_AMBIGUOUS);
    fake_engine_detach(setup.engine, OWN_GUEST);
    CHECK_INT(ask(&methods[0], &empty, 0), ==, SONDE_OK);
    CHECK_INT(fake_engine_last_request().source, ==, ENGINE_GUEST);
    fake_engine_detach(setup.engine, ROOT_GUEST);
    CHECK_INT(ask(&methods[0], &empty, 0), ==, SONDE_TARGET_NOT_FOUND);
    setup_end(&setup);
}

static void check_all_is_limited(bool separates_users) {
    Sonde__V1__TargetSelector target = SONDE__V1__TARGET_SELECTOR__INIT;
    begin(separates_users);
    target.all = true;
    for (size_t i = 0; i < METHODS; i++) {
        if (!methods[i].takes_all) {
            CHECK_INT(ask(&methods[i], &target, 0), ==, SONDE_INVALID_ARGUMENT);
            CHECK(strstr(diag.text, "target.all"));
            continue;
        }
        sonde_err err = ask(&methods[i], &target, 0);
        CHECK(err == SONDE_OK || err == SONDE_SESSION_BUSY);
        struct fake_request last = fake_engine_last_request();
        CHECK(last.all && last.has_owner);
        CHECK_INT(last.owner, ==, USER);
    }
    target.pid = ROOT_PID;
    CHECK_INT(ask(&methods[0], &target, 0), ==, SONDE_TARGET_NOT_FOUND);
    setup_end(&setup);
}

TEST(all_processes_are_those_of_the_user) {
    check_all_is_limited(true);
    check_all_is_limited(false);
}

static struct {
    size_t count;
    char names[8][32];
} listed;

static bool on_list(struct watcher *watcher, const ProtobufCMessage *message) {
    const Sonde__V1__ListTargetsResponse *response = (const void *)message;
    (void)watcher;
    listed.count = response->n_targets;
    for (size_t i = 0; i < response->n_targets && i < 8; i++)
        snprintf(listed.names[i], sizeof listed.names[i], "%s", response->targets[i]->name);
    return true;
}

static void list(const struct client_caller *caller, bool include_unattached) {
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    struct watcher watcher = {.caller = caller, .on_message = on_list};
    request.include_unattached = include_unattached;
    memset(&listed, 0, sizeof listed);
    watcher_start(&watcher, setup.client, &client_list_targets, &request.base, 10000);
    CHECK_INT(watcher_end(&watcher, &diag), ==, SONDE_OK);
}

TEST(the_list_shows_a_user_only_what_they_may_profile) {
    begin(true);
    list(&user, true);
    CHECK_INT(listed.count, ==, 2);
    CHECK_STR(listed.names[0], "own-guest");
    CHECK_STR(listed.names[1], "own");
    list(NULL, true);
    CHECK_INT(listed.count, ==, 4);
    list(NULL, false);
    CHECK_INT(listed.count, ==, 2);
    setup_end(&setup);
    begin(false);
    list(&user, true);
    CHECK_INT(listed.count, ==, 3);
    CHECK_STR(listed.names[0], "roots-guest");
    CHECK_STR(listed.names[2], "own");
    setup_end(&setup);
}

TEST(a_stream_of_questions_for_names_is_refused_to_other_users) {
    Sonde__V1__SymbolizeRequest request = SONDE__V1__SYMBOLIZE_REQUEST__INIT;
    struct watcher watcher = {.caller = &user};
    begin(false);
    watcher_start(&watcher, setup.client, &client_symbolize_stream, &request.base, 10000);
    CHECK_INT(watcher_end(&watcher, &diag), ==, SONDE_PERMISSION_DENIED);
    setup_end(&setup);
}

/* One may show the whole machine. */
TEST(saved_captures_are_refused_to_other_users) {
    Sonde__V1__ListCapturesRequest list = SONDE__V1__LIST_CAPTURES_REQUEST__INIT;
    Sonde__V1__GetCaptureRequest get = SONDE__V1__GET_CAPTURE_REQUEST__INIT;
    Sonde__V1__DiffCapturesRequest diff = SONDE__V1__DIFF_CAPTURES_REQUEST__INIT;
    const struct {
        const struct client_method *method;
        const ProtobufCMessage *request;
    } calls[] = {{&client_list_captures, &list.base},
                 {&client_get_capture, &get.base},
                 {&client_diff_captures, &diff.base}};
    begin(false);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct watcher watcher = {.caller = &user};
        watcher_start(&watcher, setup.client, calls[i].method, calls[i].request, 10000);
        CHECK_INT(watcher_end(&watcher, &diag), ==, SONDE_PERMISSION_DENIED);
    }
    setup_end(&setup);
}

static unsigned named;

static bool on_symbols(struct watcher *watcher, const ProtobufCMessage *message) {
    const Sonde__V1__SymbolizeResponse *response = (const void *)message;
    (void)watcher;
    named = 0;
    for (size_t i = 0; i < response->n_symbols; i++)
        named += response->symbols[i]->n_frames > 0;
    return true;
}

TEST(other_users_get_no_names_of_kernel_addresses) {
    Sonde__V1__SymbolizeRequest request = SONDE__V1__SYMBOLIZE_REQUEST__INIT;
    Sonde__V1__TargetSelector target = SONDE__V1__TARGET_SELECTOR__INIT;
    uint64_t addresses[] = {0xffffffff81000001, 7}; /* the fake engine names odd ones */
    struct watcher watcher = {.caller = &user, .on_message = on_symbols};
    begin(false);
    target.pid = ROOT_GUEST;
    request.target = &target;
    request.addresses = addresses;
    request.n_addresses = 2;
    watcher_start(&watcher, setup.client, &client_symbolize, &request.base, 10000);
    CHECK_INT(watcher_end(&watcher, &diag), ==, SONDE_OK);
    CHECK_INT(named, ==, 1);
    watcher = (struct watcher){.on_message = on_symbols};
    watcher_start(&watcher, setup.client, &client_symbolize, &request.base, 10000);
    CHECK_INT(watcher_end(&watcher, &diag), ==, SONDE_OK);
    CHECK_INT(named, ==, 2);
    setup_end(&setup);
}

TEST(without_a_caller_nothing_is_limited) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    Sonde__V1__TargetSelector target = SONDE__V1__TARGET_SELECTOR__INIT;
    struct watcher watcher = {0};
    begin(true);
    target.all = true;
    request.target = &target;
    request.duration_ms = 10;
    watcher_start(&watcher, setup.client, &client_capture_cpu, &request.base, 10000);
    CHECK_INT(watcher_end(&watcher, &diag), ==, SONDE_OK);
    CHECK(!fake_engine_last_request().has_owner);
    setup_end(&setup);
}
