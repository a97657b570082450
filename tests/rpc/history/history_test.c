/* SPDX-License-Identifier: Apache-2.0
 *
 * The History service over a store in memory: what Write stores, each query returns. */
#include "service/store/ids.h"
#include "service/store/store.h"
#include "tests/rpc/history/history_setup.h"
#include "tests/unit/check.h"

#include <stdlib.h>

static struct history_setup scene;

/* Two windows of redis, one of nginx; all values in ns. */
static void record_some(void) {
    struct recording *recording = recording_create();
    recording_window(recording, &(struct recorded){.begin_unix_s = 3600, .pod = "a"});
    recording_row(recording, "main;serve;read", "io", 3000);
    recording_row(recording, "main;serve;read;read", "io", 1000);
    recording_row(recording, "main;idle", "main", 500);
    recording_window(recording, &(struct recorded){.begin_unix_s = 3610, .pod = "b"});
    recording_row(recording, "main;serve;read", "io", 2000);
    recording_window(recording, &(struct recorded){.service = "nginx", .begin_unix_s = 3600});
    recording_row(recording, "start;loop", "worker", 700);
    Sonde__V1__WriteResponse *response = history_write(&scene, recording_request(recording));
    CHECK_INT(response->stored, ==, 3);
    CHECK_INT(response->duplicates, ==, 0);
    CHECK_INT(response->rejected, ==, 0);
    CHECK_INT(response->n_unknown_stacks, ==, 0);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    recording_destroy(recording);
}

static void begin(void) {
    history_setup_begin(&scene, true);
    record_some();
}

/* The sum of a selection as collapsed stacks without threads. */
static const char *collapsed(Sonde__V1__Selection *selection) {
    Sonde__V1__QueryProfileRequest request = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = SONDE__V1__FORMAT__COLLAPSED;
    request.selection = selection;
    request.rendering = &rendering;
    CHECK_INT(history_profile(&scene, &client_query_profile, &request.base, NULL), ==, SONDE_OK);
    return scene.document.data;
}

TEST(query_profile_sums_the_windows_of_a_service) {
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    begin();
    selection.service = "redis";
    const char *text = collapsed(&selection);
    CHECK(strstr(text, "main;serve;read ") != NULL);
    CHECK(strstr(text, "main;idle ") != NULL);
    CHECK(strstr(text, "loop") == NULL);
    CHECK_INT(scene.start->completeness->windows_received, ==, 2);
    CHECK_INT(scene.start->completeness->samples, ==, 4);
    CHECK_INT(scene.start->completeness->unknown_stacks, ==, 0);
    CHECK_INT(scene.start->completeness->duration_ns, >, 0);
    CHECK_STR(scene.start->completeness->statement, "");
    CHECK_INT(scene.start->samples, ==, 4);
    CHECK_INT(scene.start->size_bytes, ==, scene.document.len);
    CHECK_INT(scene.start->duration_ms, ==, 20000);
    history_setup_end(&scene);
}

TEST(a_range_has_the_windows_that_begin_in_it) {
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    begin();
    selection.from_unix_ns = 3600000000001; /* just after the first windows have begun */
    collapsed(&selection);
    CHECK_INT(scene.start->completeness->windows_received, ==, 1);
    selection.from_unix_ns = 3600000000000;
    selection.until_unix_ns = 3610000000000;
    collapsed(&selection);
    CHECK_INT(scene.start->completeness->windows_received, ==, 2);
    selection.until_unix_ns = 3610000000001;
    collapsed(&selection);
    CHECK_INT(scene.start->completeness->windows_received, ==, 3);
    selection.until_unix_ns = selection.from_unix_ns;
    CHECK_STR(collapsed(&selection), "[no samples] 0\n");
    history_setup_end(&scene);
}

TEST(a_selector_and_unknown_names_select_what_fits) {
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    begin();
    selection.selector = "pod = 'b'";
    CHECK(strstr(collapsed(&selection), "main;serve;read ") != NULL);
    CHECK_INT(scene.start->completeness->windows_received, ==, 1);
    selection.selector = "{pod=\"c\"}";
    CHECK_STR(collapsed(&selection), "[no samples] 0\n");
    selection.selector = "";
    selection.event = "no-such-event";
    CHECK_STR(collapsed(&selection), "[no samples] 0\n");
    history_setup_end(&scene);
}

static sonde_err ask(Sonde__V1__Selection *selection, int format, struct sonde_diag *diag) {
    Sonde__V1__QueryProfileRequest request = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = (Sonde__V1__Format)format;
    request.selection = selection;
    request.rendering = &rendering;
    return history_profile(&scene, &client_query_profile, &request.base, diag);
}

TEST(a_selection_that_makes_no_sense_is_refused_by_name) {
    struct sonde_diag diag = {0};
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    history_setup_begin(&scene, true);
    selection.from_unix_ns = 2000000000;
    selection.until_unix_ns = 1000000000;
    CHECK_INT(ask(&selection, 0, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "selection.from_unix_ns") != NULL);
    selection.from_unix_ns = -1;
    CHECK_INT(ask(&selection, 0, &diag), ==, SONDE_INVALID_ARGUMENT);
    selection.from_unix_ns = 0;
    selection.until_unix_ns = 0;
    selection.selector = "pod = = 'x'";
    CHECK_INT(ask(&selection, 0, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "selection.selector: ") != NULL);
    CHECK(strstr(diag.text, "6") != NULL); /* the offset */
    selection.selector = "";
    selection.event = "off-cpu";
    selection.host_totals = true;
    CHECK_INT(ask(&selection, 0, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "host_totals") != NULL);
    selection.event = "";
    selection.host_totals = false;
    CHECK_INT(ask(&selection, 99, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(ask(&selection, SONDE__V1__FORMAT__HEAPSNAPSHOT, &diag), ==, SONDE_INVALID_ARGUMENT);
    char long_name[2000];
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = 0;
    selection.service = long_name;
    CHECK_INT(ask(&selection, 0, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "selection.service: 1999 bytes") != NULL);
    history_setup_end(&scene);
}

TEST(every_format_of_a_cpu_profile_can_be_asked_for) {
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    size_t count;
    const struct sonde_format_info *formats = sonde_format_table(&count);
    begin();
    for (size_t i = 0; i < count; i++) {
        if (!formats[i].is_drawn || !(formats[i].offered & SONDE_OF_CPU))
            continue;
        CHECK_INT(ask(&selection, (int)formats[i].format, NULL), ==, SONDE_OK);
        CHECK_INT(scene.document.len, >, 0);
        CHECK_STR(scene.start->media_type, formats[i].media_type);
    }
    history_setup_end(&scene);
}

static sonde_err ask_contentions(const char *event, const char *service, struct sonde_diag *diag) {
    Sonde__V1__QueryProfileRequest request = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = SONDE__V1__FORMAT__COLLAPSED;
    selection.event = (char *)(uintptr_t)event;
    selection.service = (char *)(uintptr_t)service;
    request.selection = &selection;
    request.rendering = &rendering;
    request.as_contentions = true;
    return history_profile(&scene, &client_query_profile, &request.base, diag);
}

TEST(off_cpu_time_is_read_as_contentions) {
    struct sonde_diag diag = {0};
    history_setup_begin(&scene, true);
    struct recording *recording = recording_create();
    recording_window(recording, &(struct recorded){.event = "off-cpu", .begin_unix_s = 3600});
    recording_row(recording, "main;serve;poll", "io", 3000);
    recording_window(recording, &(struct recorded){.begin_unix_s = 3600});
    recording_row(recording, "main;serve;read", "io", 7000);
    protobuf_c_message_free_unpacked(&history_write(&scene, recording_request(recording))->base,
                                     NULL);
    recording_destroy(recording);
    CHECK_INT(ask_contentions("off-cpu", "redis", NULL), ==, SONDE_OK);
    CHECK(strstr(scene.document.data, "main;serve;poll 3000\n") != NULL);
    CHECK(strstr(scene.document.data, "read") == NULL);
    CHECK_INT(ask_contentions("off-cpu", "nginx", &diag), ==, SONDE_NOT_FOUND);
    CHECK(strstr(diag.text, "no off-CPU time was recorded") != NULL);
    CHECK_INT(ask_contentions("on-cpu", "redis", &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "only for the event off-cpu") != NULL);
    history_setup_end(&scene);
}

TEST(explain_reports_the_statement_of_the_store) {
    Sonde__V1__QueryProfileRequest request = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    begin();
    request.explain = true;
    CHECK_INT(history_profile(&scene, &client_query_profile, &request.base, NULL), ==, SONDE_OK);
    CHECK_INT(strlen(scene.start->completeness->statement), >, 0);
    history_setup_end(&scene);
}

TEST(the_host_view_has_processes_and_threads) {
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    history_setup_begin(&scene, true);
    struct recording *recording = recording_create();
    recording_total(recording, "alpha", 3600, "redis-server", "", 5000);
    recording_total(recording, "alpha", 3600, "redis-server", "io", 2000);
    recording_total(recording, "alpha", 3600, "bash", "", 10);
    protobuf_c_message_free_unpacked(&history_write(&scene, recording_request(recording))->base,
                                     NULL);
    recording_destroy(recording);
    selection.host_totals = true;
    const char *text = collapsed(&selection);
    CHECK(strstr(text, "redis-server 7000") != NULL);
    CHECK(strstr(text, "bash 10") != NULL);
    CHECK_INT(ask(&selection, SONDE_FORMAT_DEEPFLOW_TREE, NULL), ==, SONDE_OK);
    CHECK(strstr(scene.document.data, "[{\"profile_location_str\":\"Total\"") != NULL);
    CHECK(strstr(scene.document.data, "\"[p] redis-server\"") != NULL);
    CHECK(strstr(scene.document.data, "\"self_value\":5,\"total_value\":7}") != NULL);
    CHECK(strstr(scene.document.data, "\"[t] io\"") != NULL);
    history_setup_end(&scene);
}

TEST(deepflows_tree_has_the_service_and_the_bounded_kernel_frames) {
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    Sonde__V1__QueryProfileRequest request = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct recording *recording = recording_create();
    history_setup_begin(&scene, true);
    recording_window(recording, &(struct recorded){.begin_unix_s = 3600});
    recording_row(recording, "main;read;do_syscall_64", "redis", 3000);
    Sonde__V1__WriteRequest *write = recording_request(recording);
    for (size_t i = 0; i < write->n_frames; i++)
        if (strcmp(write->frames[i]->lines[0]->function, "do_syscall_64") == 0)
            write->frames[i]->kind = SONDE__V1__FRAME_KIND__KERNEL;
    protobuf_c_message_free_unpacked(&history_write(&scene, write)->base, NULL);
    recording_destroy(recording);
    selection.service = "redis";
    rendering.format = SONDE__V1__FORMAT__DEEPFLOW_TREE;
    request.selection = &selection;
    request.rendering = &rendering;
    request.max_kernel_frames = 0;
    for (int limits = 0; limits < 2; limits++) {
        request.limit_kernel_frames = limits;
        CHECK_INT(history_profile(&scene, &client_query_profile, &request.base, NULL), ==,
                  SONDE_OK);
        CHECK(strstr(scene.document.data, "[{\"profile_location_str\":\"redis\"") != NULL);
        CHECK(strstr(scene.document.data, "\"[p] redis\"") != NULL);
        CHECK_INT(strstr(scene.document.data, "\"[k] do_syscall_64\"") == NULL, ==, limits);
    }
    history_setup_end(&scene);
}

TEST(without_a_store_each_method_says_how_to_get_one) {
    struct sonde_diag diag = {0};
    struct setup plain;
    size_t asked = 0;
    setup_begin(&plain);
    for (size_t i = 0; i < client_method_count; i++) {
        const struct client_method *method = client_methods[i];
        struct watcher watcher = {.on_message = NULL};
        ProtobufCMessage *request = calloc(1, method->request->sizeof_message);
        protobuf_c_message_init(method->request, request);
        if (strncmp(method->path, "/sonde.v1.History/", 18) == 0) {
            watcher_start(&watcher, plain.client, method, request, 10000);
            CHECK_INT(watcher_end(&watcher, &diag), ==, SONDE_NOT_AVAILABLE);
            CHECK(strstr(diag.text, "--history") != NULL);
            asked++;
        }
        free(request);
    }
    CHECK_INT(asked, ==, sonde__v1__history__descriptor.n_methods);
    setup_end(&plain);
}

TEST(without_an_engine_only_profiler_is_missing) {
    struct sonde_diag diag = {0};
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    Sonde__V1__GetHistoryInfoRequest ask_history = SONDE__V1__GET_HISTORY_INFO_REQUEST__INIT;
    ProtobufCMessage *response = NULL;
    history_setup_begin(&scene, false);
    CHECK_INT(
        client_unary(scene.base.client, &client_get_info, &request.base, 10000, &response, &diag),
        ==, SONDE_UNIMPLEMENTED);
    CHECK_INT(client_unary(scene.base.client, &client_get_history_info, &ask_history.base, 10000,
                           &response, &diag),
              ==, SONDE_OK);
    protobuf_c_message_free_unpacked(response, NULL);
    history_setup_end(&scene);
}

/* One window whose only stack has two frames without names, in a file that the engine knows. */
static void record_unnamed(void) {
    struct recording *recording = recording_create();
    Sonde__V1__WriteRequest *request = recording_request(recording);
    recording_window(recording, &(struct recorded){.begin_unix_s = 3600});
    recording_row(recording, "leaf", "io", 100);
    recording_row(recording, "root", "io", 10);
    for (uint64_t i = 0; i < 2; i++) {
        Sonde__V1__StoredFrame *frame = request->frames[i];
        Sonde__V1__StoredStack *stack = request->stacks[i];
        frame->build_id = "abcd";
        frame->address = 0x2000 + i;
        frame->n_lines = frame->version = 0;
        frame->id = stack->frames[0] = store_frame_id("abcd", "", frame->address, "");
        stack->id = request->windows[0]->stack[i] = store_stack_id("redis", stack->frames, 1);
    }
    protobuf_c_message_free_unpacked(&history_write(&scene, request)->base, NULL);
    recording_destroy(recording);
}

TEST(frames_without_names_are_named_by_an_engine_that_has_their_file) {
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    struct sonde_arena arena = {0};
    struct store_frame *unnamed;
    size_t count;
    history_setup_begin(&scene, true);
    record_unnamed();
    CHECK(strstr(collapsed(&selection), "odd\\xff 10\n") != NULL);
    /* The store has them now. Even addresses have no names. */
    CHECK_INT(scene.store->ops->unnamed(scene.store, 10, &arena, &unnamed, &count, NULL), ==,
              SONDE_OK);
    CHECK_INT(count, ==, 1);
    CHECK_INT(unnamed[0].address, ==, 0x2000);
    sonde_arena_finish(&arena);
    history_setup_end(&scene);
}

TEST(without_an_engine_frames_without_names_show_their_module) {
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    history_setup_begin(&scene, false);
    record_unnamed();
    const char *text = collapsed(&selection);
    CHECK(strstr(text, "odd") == NULL);
    CHECK(strstr(text, "redis") != NULL);
    history_setup_end(&scene);
}

TEST(kernel_frames_of_deepflows_trees_can_be_limited) {
    Sonde__V1__QueryProfileRequest request = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct recording *recording = recording_create();
    history_setup_begin(&scene, true);
    recording_window(recording, &(struct recorded){.begin_unix_s = 3600});
    recording_row(recording, "main;sys_read;vfs_read", "io", 100000);
    Sonde__V1__StoredFrame **frames = recording_request(recording)->frames;
    frames[1]->kind = frames[2]->kind = SONDE__V1__FRAME_KIND__KERNEL;
    protobuf_c_message_free_unpacked(&history_write(&scene, recording_request(recording))->base,
                                     NULL);
    recording_destroy(recording);
    rendering.format = SONDE__V1__FORMAT__DEEPFLOW_TREE;
    request.rendering = &rendering;
    CHECK_INT(history_profile(&scene, &client_query_profile, &request.base, NULL), ==, SONDE_OK);
    CHECK(strstr(scene.document.data, "vfs_read") != NULL);
    request.limit_kernel_frames = true;
    request.max_kernel_frames = 1;
    CHECK_INT(history_profile(&scene, &client_query_profile, &request.base, NULL), ==, SONDE_OK);
    CHECK(strstr(scene.document.data, "sys_read") != NULL);
    CHECK(strstr(scene.document.data, "vfs_read") == NULL);
    history_setup_end(&scene);
}
