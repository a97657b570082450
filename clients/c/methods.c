/* SPDX-License-Identifier: Apache-2.0
 *
 * The methods of sonde.v1.Profiler and sonde.v1.History. A test compares the table with the protos.
 */
#include "clients/c/client.h"
#include "proto/sonde/v1/controller.pb-c.h"
#include "proto/sonde/v1/history.pb-c.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#define ROW(variable, path, request, response, streaming, sends)                               \
    const struct client_method client_##variable = {path, &sonde__v1__##request##__descriptor, \
                                                    &sonde__v1__##response##__descriptor,      \
                                                    streaming, sends}
#define METHOD(variable, name, request, response, streaming) \
    ROW(variable, "/sonde.v1.Profiler/" name, request, response, streaming, false)
#define SENDING(variable, name, request, response, streaming) \
    ROW(variable, "/sonde.v1.Profiler/" name, request, response, streaming, true)
#define HISTORY(variable, name, request, response, streaming) \
    ROW(variable, "/sonde.v1.History/" name, request, response, streaming, false)

METHOD(get_info, "GetInfo", get_info_request, info, false);
METHOD(list_targets, "ListTargets", list_targets_request, list_targets_response, false);
METHOD(watch_targets, "WatchTargets", watch_targets_request, target_event, true);
METHOD(capture_cpu, "CaptureCpu", capture_cpu_request, capture_event, true);
METHOD(finish_capture, "FinishCapture", finish_capture_request, finish_capture_response, false);
METHOD(stream_cpu, "StreamCpu", stream_cpu_request, cpu_window, true);
METHOD(start_cpu, "StartCpu", start_cpu_request, cpu_session, false);
METHOD(stop_cpu, "StopCpu", stop_cpu_request, capture_event, true);
METHOD(symbolize, "Symbolize", symbolize_request, symbolize_response, false);
SENDING(symbolize_stream, "SymbolizeStream", symbolize_request, symbol_batch, true);
SENDING(upload_debug_file, "UploadDebugFile", upload_debug_file_request, symbol_file, false);
METHOD(list_symbol_files, "ListSymbolFiles", list_symbol_files_request, list_symbol_files_response,
       false);
METHOD(evict_symbols, "EvictSymbols", evict_symbols_request, evict_symbols_response, false);
METHOD(get_command_line, "GetCommandLine", get_command_line_request, command_line, false);
METHOD(get_backtraces, "GetBacktraces", get_backtraces_request, backtraces, false);
METHOD(check_unwind, "CheckUnwind", check_unwind_request, unwind_check, false);
METHOD(heap_status, "HeapStatus", heap_status_request, heap_state, false);
METHOD(heap_activate, "HeapActivate", heap_activate_request, heap_state, false);
METHOD(heap_deactivate, "HeapDeactivate", heap_deactivate_request, heap_deactivated, false);
METHOD(heap_reset, "HeapReset", heap_reset_request, heap_state, false);
METHOD(heap_snapshot, "HeapSnapshot", heap_snapshot_request, capture_event, true);
METHOD(list_heap_dumps, "ListHeapDumps", list_heap_dumps_request, list_heap_dumps_response, false);
METHOD(get_heap_dump, "GetHeapDump", get_heap_dump_request, capture_event, true);
METHOD(capture_allocs, "CaptureAllocs", capture_allocs_request, capture_event, true);
METHOD(start_allocs, "StartAllocs", start_allocs_request, allocs_session, false);
METHOD(stop_allocs, "StopAllocs", stop_allocs_request, capture_event, true);
METHOD(get_heap_gdump, "GetHeapGdump", get_heap_gdump_request, heap_gdump, false);
METHOD(set_heap_gdump, "SetHeapGdump", set_heap_gdump_request, heap_gdump, false);
METHOD(list_captures, "ListCaptures", list_captures_request, list_captures_response, false);
METHOD(get_capture, "GetCapture", get_capture_request, capture_event, true);
METHOD(get_capture_timeline, "GetCaptureTimeline", get_capture_timeline_request, capture_timeline,
       false);
METHOD(diff_captures, "DiffCaptures", diff_captures_request, capture_event, true);
METHOD(render_profile, "RenderProfile", render_profile_request, capture_event, true);
SENDING(collect, "Collect", collect_request, collect_response, true);

ROW(write, "/sonde.v1.History/Write", write_request, write_response, true, true);
HISTORY(query_profile, "QueryProfile", query_profile_request, capture_event, true);
HISTORY(query_tree, "QueryTree", query_tree_request, tree, true);
HISTORY(query_diff, "QueryDiff", query_diff_request, capture_event, true);
HISTORY(query_series, "QuerySeries", query_series_request, query_series_response, false);
HISTORY(query_top, "QueryTop", query_top_request, query_top_response, false);
HISTORY(query_function, "QueryFunction", query_function_request, query_function_response, false);
HISTORY(list_services, "ListServices", list_services_request, list_services_response, false);
HISTORY(list_labels, "ListLabels", list_labels_request, list_labels_response, false);
HISTORY(list_label_values, "ListLabelValues", list_label_values_request, list_label_values_response,
        false);
HISTORY(get_history_info, "GetHistoryInfo", get_history_info_request, history_info, false);
HISTORY(renew_lease, "RenewLease", renew_lease_request, renew_lease_response, false);

#define CONTROLLER(variable, name, request, response) \
    ROW(variable, "/sonde.v1.Controller/" name, request, response, false, false)

CONTROLLER(get_fleet, "GetFleet", get_fleet_request, fleet);
CONTROLLER(list_hosts, "ListHosts", list_hosts_request, list_hosts_response);
CONTROLLER(set_paused, "SetPaused", set_paused_request, fleet);

const struct client_method *const client_methods[] = {
    &client_get_info,
    &client_list_targets,
    &client_watch_targets,
    &client_capture_cpu,
    &client_finish_capture,
    &client_stream_cpu,
    &client_start_cpu,
    &client_stop_cpu,
    &client_symbolize,
    &client_symbolize_stream,
    &client_upload_debug_file,
    &client_list_symbol_files,
    &client_evict_symbols,
    &client_get_command_line,
    &client_heap_status,
    &client_heap_activate,
    &client_heap_deactivate,
    &client_heap_reset,
    &client_heap_snapshot,
    &client_list_heap_dumps,
    &client_get_heap_dump,
    &client_capture_allocs,
    &client_start_allocs,
    &client_stop_allocs,
    &client_get_heap_gdump,
    &client_set_heap_gdump,
    &client_list_captures,
    &client_get_capture,
    &client_get_capture_timeline,
    &client_diff_captures,
    &client_render_profile,
    &client_get_backtraces,
    &client_check_unwind,
    &client_collect,
    &client_write,
    &client_query_profile,
    &client_query_tree,
    &client_query_diff,
    &client_query_series,
    &client_query_top,
    &client_query_function,
    &client_list_services,
    &client_list_labels,
    &client_list_label_values,
    &client_get_history_info,
    &client_renew_lease,
    &client_get_fleet,
    &client_list_hosts,
    &client_set_paused,
};
const size_t client_method_count = sizeof client_methods / sizeof client_methods[0];
