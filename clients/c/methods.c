/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde.v1.Profiler as a table: written from profiler.proto, compared with it by a test. */
#include "clients/c/client.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#define METHOD(variable, name, request, response, streaming)             \
    const struct client_method client_##variable = {                     \
        "/sonde.v1.Profiler/" name, &sonde__v1__##request##__descriptor, \
        &sonde__v1__##response##__descriptor, streaming}

METHOD(get_info, "GetInfo", get_info_request, info, false);
METHOD(list_targets, "ListTargets", list_targets_request, list_targets_response, false);
METHOD(watch_targets, "WatchTargets", watch_targets_request, target_event, true);
METHOD(capture_cpu, "CaptureCpu", capture_cpu_request, capture_event, true);
METHOD(stream_cpu, "StreamCpu", stream_cpu_request, cpu_window, true);
METHOD(start_cpu, "StartCpu", start_cpu_request, cpu_session, false);
METHOD(stop_cpu, "StopCpu", stop_cpu_request, capture_event, true);
METHOD(symbolize, "Symbolize", symbolize_request, symbolize_response, false);
METHOD(get_command_line, "GetCommandLine", get_command_line_request, command_line, false);

const struct client_method *const client_methods[] = {
    &client_get_info,    &client_list_targets, &client_watch_targets,
    &client_capture_cpu, &client_stream_cpu,   &client_start_cpu,
    &client_stop_cpu,    &client_symbolize,    &client_get_command_line,
};
const size_t client_method_count = sizeof client_methods / sizeof client_methods[0];
