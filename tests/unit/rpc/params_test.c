/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/request/params.h"

#include "tests/unit/check.h"

static struct sonde_diag diag;

TEST(number_zero_is_the_default) {
    uint32_t value = 0;
    CHECK_INT(rpc_number("frequency_hz", 0, 99, 1, 10000, &value, &diag), ==, SONDE_OK);
    CHECK_INT(value, ==, 99);
}

TEST(number_out_of_bounds_is_refused_with_field_value_and_bounds) {
    uint32_t value = 0;
    CHECK_INT(rpc_number("frequency_hz", 10001, 99, 1, 10000, &value, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "frequency_hz: \"10001\" is not a whole number from 1 to 10000");
    CHECK_INT(rpc_number("frequency_hz", 10000, 99, 1, 10000, &value, &diag), ==, SONDE_OK);
}

TEST(capture_default_is_ten_seconds_at_99_hz_as_pprof) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    struct engine_cpu_spec spec;
    struct rpc_rendering rendering;
    CHECK_INT(rpc_capture_spec(&request, NULL, &spec, &rendering, &diag), ==, SONDE_OK);
    CHECK_INT(spec.duration_ms, ==, 10000);
    CHECK_INT(spec.frequency_hz, ==, 99);
    CHECK_INT(spec.progress_ms, ==, 500);
    CHECK_INT(rendering.format, ==, SONDE_FORMAT_PPROF);
    CHECK_STR(spec.target.name, "");
}

TEST(mode_and_maximum_overhead_have_bounds) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    struct engine_cpu_spec spec;
    struct rpc_rendering rendering;
    request.mode = SONDE__V1__CPU_MODE__OFF_CPU;
    request.max_overhead = 0.01;
    CHECK_INT(rpc_capture_spec(&request, NULL, &spec, &rendering, &diag), ==, SONDE_OK);
    CHECK_INT(spec.event, ==, SONDE_OFF_CPU);
    CHECK_NEAR(spec.max_overhead, 0.01, 1e-9);
    request.max_overhead = 1.5;
    CHECK_INT(rpc_capture_spec(&request, NULL, &spec, &rendering, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "max_overhead: \"1.5\" is not a share from 0.0001 to 1");
    request.max_overhead = -0.5;
    CHECK_INT(rpc_capture_spec(&request, NULL, &spec, &rendering, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    request.max_overhead = 0;
    request.mode = 3;
    CHECK_INT(rpc_capture_spec(&request, NULL, &spec, &rendering, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "mode: \"3\" is not one of 0 (CPU), 1 (WALL), 2 (OFF_CPU)");
}

TEST(capture_without_progress_requests_none) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    struct engine_cpu_spec spec;
    struct rpc_rendering rendering;
    request.no_progress = true;
    CHECK_INT(rpc_capture_spec(&request, NULL, &spec, &rendering, &diag), ==, SONDE_OK);
    CHECK_INT(spec.progress_ms, ==, 0);
}

TEST(capture_longer_than_an_hour_is_refused) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    struct engine_cpu_spec spec;
    struct rpc_rendering rendering;
    request.duration_ms = 3600001;
    CHECK_INT(rpc_capture_spec(&request, NULL, &spec, &rendering, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "duration_ms: \"3600001\" is not a whole number from 1 to 3600000");
}

static sonde_err render(int format, struct rpc_rendering *rendering) {
    Sonde__V1__Rendering message = SONDE__V1__RENDERING__INIT;
    message.format = (Sonde__V1__Format)format;
    return rpc_rendering(&message, rendering, &diag);
}

TEST(rendering_refuses_formats_that_cpu_profiles_do_not_have) {
    struct rpc_rendering rendering;
    CHECK_INT(render(SONDE_FORMAT_SVG_FLAMEGRAPH, &rendering), ==, SONDE_OK);
    CHECK_STR(rendering.info->media_type, "image/svg+xml");
    CHECK_INT(render(SONDE_FORMAT_COLLAPSED, &rendering), ==, SONDE_OK);
    CHECK_INT(render(SONDE_FORMAT_JEMALLOC, &rendering), ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(render(SONDE_FORMAT_HEAPPROFILE, &rendering), ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(render(99, &rendering), ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(render(-1, &rendering), ==, SONDE_INVALID_ARGUMENT);
}

TEST(rendering_has_the_requested_options) {
    Sonde__V1__Rendering message = SONDE__V1__RENDERING__INIT;
    struct rpc_rendering rendering;
    message.raw = true;
    message.split_threads = true;
    message.title = (char *)"mine";
    CHECK_INT(rpc_rendering(&message, &rendering, &diag), ==, SONDE_OK);
    CHECK_INT(rendering.options.gzip_level, ==, -1);
    CHECK(rendering.options.split_threads);
    CHECK_STR(rendering.options.title, "mine");
    char title[202];
    memset(title, 'x', 201);
    title[201] = 0;
    message.title = title;
    CHECK_INT(rpc_rendering(&message, &rendering, &diag), ==, SONDE_INVALID_ARGUMENT);
}

TEST(several_processes_are_drawn_by_process_unless_the_format_has_a_profile_per_thread) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    Sonde__V1__TargetSelector target = SONDE__V1__TARGET_SELECTOR__INIT;
    Sonde__V1__Rendering how = SONDE__V1__RENDERING__INIT;
    struct engine_cpu_spec spec;
    struct rpc_rendering rendering;
    request.target = &target;
    request.rendering = &how;
    how.format = SONDE__V1__FORMAT__SVG_FLAMEGRAPH;
    CHECK_INT(rpc_capture_spec(&request, NULL, &spec, &rendering, &diag), ==, SONDE_OK);
    CHECK(!rendering.options.split_threads);
    how.split_threads = true;
    CHECK_INT(rpc_capture_spec(&request, NULL, &spec, &rendering, &diag), ==, SONDE_OK);
    CHECK(rendering.options.split_threads);
    target.all = true;
    CHECK_INT(rpc_capture_spec(&request, NULL, &spec, &rendering, &diag), ==, SONDE_OK);
    CHECK(!rendering.options.split_threads);
    how.format = SONDE__V1__FORMAT__SPEEDSCOPE;
    CHECK_INT(rpc_capture_spec(&request, NULL, &spec, &rendering, &diag), ==, SONDE_OK);
    CHECK(rendering.options.split_threads);
}

TEST(selector_refuses_a_negative_pid_and_a_name_that_is_too_long) {
    Sonde__V1__TargetSelector message = SONDE__V1__TARGET_SELECTOR__INIT;
    struct engine_selector selector;
    char name[80];
    message.pid = -5;
    CHECK_INT(rpc_selector(&message, &selector, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "target.pid: \"-5\""));
    message.pid = 0;
    memset(name, 'n', sizeof name);
    name[79] = 0;
    message.name = name;
    CHECK_INT(rpc_selector(&message, &selector, &diag), ==, SONDE_INVALID_ARGUMENT);
    name[63] = 0;
    CHECK_INT(rpc_selector(&message, &selector, &diag), ==, SONDE_OK);
}

TEST(stream_windows_have_bounds_and_a_default) {
    Sonde__V1__StreamCpuRequest request = SONDE__V1__STREAM_CPU_REQUEST__INIT;
    struct engine_cpu_spec spec;
    CHECK_INT(rpc_stream_spec(&request, NULL, &spec, &diag), ==, SONDE_OK);
    CHECK_INT(spec.window_ms, ==, 1000);
    CHECK_INT(spec.duration_ms, ==, 0);
    request.window_ms = 49;
    CHECK_INT(rpc_stream_spec(&request, NULL, &spec, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "window_ms: \"49\" is not a whole number from 50 to 60000");
}

TEST(session_has_a_lease_of_an_hour_by_default) {
    Sonde__V1__StartCpuRequest request = SONDE__V1__START_CPU_REQUEST__INIT;
    struct engine_cpu_spec spec;
    uint32_t lease_ms = 0;
    CHECK_INT(rpc_session_spec(&request, NULL, &spec, &lease_ms, &diag), ==, SONDE_OK);
    CHECK_INT(lease_ms, ==, 3600000);
    request.lease_ms = 3600001;
    CHECK_INT(rpc_session_spec(&request, NULL, &spec, &lease_ms, &diag), ==,
              SONDE_INVALID_ARGUMENT);
}

TEST(symbolize_takes_65536_addresses_and_not_one_more) {
    Sonde__V1__SymbolizeRequest request = SONDE__V1__SYMBOLIZE_REQUEST__INIT;
    struct engine_selector selector;
    request.n_addresses = 65536;
    CHECK_INT(rpc_symbolize_check(&request, &selector, &diag), ==, SONDE_OK);
    request.n_addresses = 65537;
    CHECK_INT(rpc_symbolize_check(&request, &selector, &diag), ==, SONDE_TOO_LARGE);
}

static sonde_err read_event(char *event, uint64_t period, Sonde__V1__CpuMode mode,
                            struct engine_cpu_spec *spec) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    struct rpc_rendering rendering;
    request.event = event;
    request.period = period;
    request.mode = mode;
    return rpc_capture_spec(&request, NULL, spec, &rendering, &diag);
}

TEST(an_event_replaces_the_mode_and_only_it_has_a_period) {
    struct engine_cpu_spec spec;
    CHECK_INT(read_event("cpu-migrations", 7, 0, &spec), ==, SONDE_OK);
    CHECK_INT(spec.event, ==, SONDE_CPU_MIGRATIONS);
    CHECK_INT(spec.every, ==, 7);
    CHECK_INT(read_event("faults", 0, 0, &spec), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "event: \"faults\" is not page-faults, "));
    CHECK_INT(read_event("", 7, 0, &spec), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "period: only with event");
    CHECK_INT(read_event("cycles", 0, SONDE__V1__CPU_MODE__WALL, &spec), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "event: not together with mode");
}
