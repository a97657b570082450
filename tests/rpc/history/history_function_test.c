/* SPDX-License-Identifier: Apache-2.0
 *
 * QueryFunction, over a store in memory. */
#include "tests/rpc/history/history_setup.h"
#include "tests/unit/check.h"

#include <string.h>

static struct history_setup scene;

static void begin(void) {
    struct recording *recording = recording_create();
    history_setup_begin(&scene, true);
    recording_window(recording, &(struct recorded){.begin_unix_s = 3600});
    recording_row(recording, "main;serve;read", "io", 3000);
    recording_row(recording, "main;serve;read;read", "io", 1000);
    recording_row(recording, "main;idle", "main", 500);
    recording_window(recording, &(struct recorded){.begin_unix_s = 3630});
    recording_row(recording, "main;serve;read", "io", 2000);
    recording_window(recording, &(struct recorded){.service = "nginx", .host = "beta", .pid = 2});
    recording_row(recording, "start;loop", "worker", 700);
    Sonde__V1__WriteResponse *response = history_write(&scene, recording_request(recording));
    CHECK_INT(response->rejected, ==, 0);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    recording_destroy(recording);
}

static Sonde__V1__QueryFunctionResponse *ask_function(const char *function, uint32_t limit,
                                                      sonde_err *err) {
    Sonde__V1__QueryFunctionRequest request = SONDE__V1__QUERY_FUNCTION_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    request.selection = &selection;
    request.function = (char *)function;
    request.limit = limit;
    return history_ask(&scene, &client_query_function, &request.base, err, NULL);
}

static void check_use(const Sonde__V1__FunctionUse *use, const char *service, int64_t self,
                      int64_t total, int64_t service_total) {
    CHECK_STR(use->service, service);
    CHECK_INT(use->self, ==, self);
    CHECK_INT(use->total, ==, total);
    CHECK_INT(use->service_total, ==, service_total);
}

TEST(query_function_says_which_services_spend_time_in_it) {
    begin();
    Sonde__V1__QueryFunctionResponse *response = ask_function("read", 0, NULL);
    CHECK_INT(response->n_services, ==, 1);
    check_use(response->services[0], "redis", 6000, 6000, 6500); /* recursion counts once */
    CHECK_STR(response->unit, "nanoseconds");
    CHECK(response->completeness->windows_received == 3);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    response = ask_function("s*", 0, NULL);
    CHECK_INT(response->n_services, ==, 2);
    check_use(response->services[0], "redis", 0, 6000, 6500);
    check_use(response->services[1], "nginx", 0, 700, 700);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    response = ask_function("*", 1, NULL);
    CHECK_INT(response->n_services, ==, 1);
    check_use(response->services[0], "redis", 6500, 6500, 6500);
    CHECK_INT(response->omitted, ==, 1);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    response = ask_function("rea", 0, NULL);
    CHECK_INT(response->n_services, ==, 0);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    history_setup_end(&scene);
}

TEST(query_function_of_one_service_has_its_name) {
    Sonde__V1__QueryFunctionRequest request = SONDE__V1__QUERY_FUNCTION_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    begin();
    request.selection = &selection;
    selection.service = "nginx";
    request.function = "loop";
    Sonde__V1__QueryFunctionResponse *response =
        history_ask(&scene, &client_query_function, &request.base, NULL, NULL);
    CHECK_INT(response->n_services, ==, 1);
    check_use(response->services[0], "nginx", 700, 700, 700);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    history_setup_end(&scene);
}

TEST(query_function_refuses_what_has_no_answer) {
    Sonde__V1__QueryFunctionRequest request = SONDE__V1__QUERY_FUNCTION_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    char longest[1026];
    sonde_err err;
    begin();
    memset(longest, 'x', sizeof longest);
    longest[1025] = 0;
    CHECK(ask_function("", 0, &err) == NULL && err == SONDE_INVALID_ARGUMENT);
    CHECK(ask_function(longest, 0, &err) == NULL && err == SONDE_INVALID_ARGUMENT);
    CHECK(ask_function("a", 10001, &err) == NULL && err == SONDE_INVALID_ARGUMENT);
    request.selection = &selection;
    request.function = "a";
    selection.host_totals = true;
    CHECK(history_ask(&scene, &client_query_function, &request.base, &err, NULL) == NULL);
    CHECK_INT(err, ==, SONDE_INVALID_ARGUMENT);
    history_setup_end(&scene);
}

static Sonde__V1__QuerySeriesResponse *ask_series(const char *function, char *group,
                                                  sonde_err *err) {
    Sonde__V1__QuerySeriesRequest request = SONDE__V1__QUERY_SERIES_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    request.selection = &selection;
    selection.until_unix_ns = 10000 * 1000000000ll;
    request.step_s = 10;
    request.function = (char *)function;
    request.group_by = &group;
    request.n_group_by = group ? 1 : 0;
    return history_ask(&scene, &client_query_series, &request.base, err, NULL);
}

static int64_t value_at(const Sonde__V1__Series *series, int64_t time_unix_s) {
    for (size_t i = 0; i < series->n_value; i++)
        if (series->time_unix_s[i] == time_unix_s)
            return series->value[i];
    return -1;
}

TEST(a_series_of_a_function_counts_only_its_stacks) {
    begin();
    Sonde__V1__QuerySeriesResponse *response = ask_series("read", NULL, NULL);
    CHECK_INT(response->n_series, ==, 1);
    CHECK_INT(value_at(response->series[0], 3600), ==, 4000); /* recursion counts once */
    CHECK_INT(value_at(response->series[0], 3630), ==, 2000);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    response = ask_series("idle", NULL, NULL);
    CHECK_INT(value_at(response->series[0], 3600), ==, 500);
    CHECK_INT(value_at(response->series[0], 3630), ==, 0); /* a window without the function */
    protobuf_c_message_free_unpacked(&response->base, NULL);
    response = ask_series("*", (char *)"service", NULL);
    CHECK_INT(response->n_series, ==, 2);
    CHECK_INT(value_at(response->series[0], 3600), ==, 4500);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    response = ask_series("no such function", NULL, NULL);
    CHECK_INT(response->n_series, ==, 1);
    CHECK_INT(value_at(response->series[0], 3600), ==, 0);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    history_setup_end(&scene);
}

TEST(a_series_of_a_function_with_too_long_a_name_is_refused) {
    char name[1026];
    sonde_err err;
    begin();
    memset(name, 'x', sizeof name);
    name[1025] = 0;
    CHECK(!ask_series(name, NULL, &err));
    CHECK_INT(err, ==, SONDE_INVALID_ARGUMENT);
    history_setup_end(&scene);
}
