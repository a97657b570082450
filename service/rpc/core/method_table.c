/* SPDX-License-Identifier: Apache-2.0
 *
 * The method table. A new method needs a row and a handler. Decoding, access control, cancellation
 * and the log line are common to all methods. */
#include "proto/grpc/health/v1/health.pb-c.h"
#include "proto/grpc/reflection/v1alpha/reflection.pb-c.h"
#include "proto/opentelemetry/profiles_service.pb-c.h"
#include "proto/sonde/v1/history.pb-c.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"

#include <string.h>

#define PROFILER(name, kind, scope, reach, request, start)                            \
    {                                                                                 \
        "/sonde.v1.Profiler/" name, RPC_##kind, RPC_SCOPE_##scope, RPC_REACH_##reach, \
            &sonde__v1__##request##__descriptor, start                                \
    }
/* History is what all users share. */
#define HISTORY(name, kind, scope, request, start)                                  \
    {                                                                               \
        "/sonde.v1.History/" name, RPC_##kind, RPC_SCOPE_##scope, RPC_REACH_SHARED, \
            &sonde__v1__##request##__descriptor, start                              \
    }
/* The collector service of OpenTelemetry's profiles. */
#define OTLP_SERVICE "opentelemetry.proto.collector.profiles.v1development.ProfilesService"
#define OTLP(name)   opentelemetry__proto__collector__profiles__v1development__##name
#define HEALTH(name, kind, start)                                                       \
    {                                                                                   \
        "/grpc.health.v1.Health/" name, RPC_##kind, RPC_SCOPE_NONE, RPC_REACH_FILTERED, \
            &grpc__health__v1__health_check_request__descriptor, start                  \
    }
#define REFLECTION(version)                                                                \
    {                                                                                      \
        "/grpc.reflection." version ".ServerReflection/ServerReflectionInfo", RPC_BIDI,    \
            RPC_SCOPE_READ, RPC_REACH_FILTERED,                                            \
            &grpc__reflection__v1alpha__server_reflection_request__descriptor, rpc_reflect \
    }

const struct rpc_method rpc_methods[] = {
    PROFILER("GetInfo", UNARY, READ, FILTERED, get_info_request, rpc_get_info),
    PROFILER("ListTargets", UNARY, READ, FILTERED, list_targets_request, rpc_list_targets),
    PROFILER("WatchTargets", STREAM, READ, FILTERED, watch_targets_request, rpc_watch_targets),
    PROFILER("CaptureCpu", STREAM, READ, TARGET, capture_cpu_request, rpc_capture_cpu),
    PROFILER("FinishCapture", UNARY, READ, FILTERED, finish_capture_request, rpc_finish_capture),
    PROFILER("StreamCpu", STREAM, READ, TARGET, stream_cpu_request, rpc_stream_cpu),
    PROFILER("StartCpu", UNARY, CONTROL, TARGET, start_cpu_request, rpc_start_cpu),
    PROFILER("StopCpu", STREAM, CONTROL, TARGET, stop_cpu_request, rpc_stop_cpu),
    PROFILER("Symbolize", UNARY, READ, TARGET, symbolize_request, rpc_symbolize),
    PROFILER("SymbolizeStream", BIDI, READ, SHARED, symbolize_request, rpc_symbolize_stream),
    PROFILER("UploadDebugFile", CLIENT_STREAM, CONTROL, SHARED, upload_debug_file_request,
             rpc_upload_debug_file),
    PROFILER("ListSymbolFiles", UNARY, READ, SHARED, list_symbol_files_request,
             rpc_list_symbol_files),
    PROFILER("EvictSymbols", UNARY, CONTROL, SHARED, evict_symbols_request, rpc_evict_symbols),
    PROFILER("GetCommandLine", UNARY, READ, TARGET, get_command_line_request, rpc_get_command_line),
    PROFILER("GetBacktraces", UNARY, READ, TARGET, get_backtraces_request, rpc_get_backtraces),
    PROFILER("CheckUnwind", UNARY, READ, TARGET, check_unwind_request, rpc_check_unwind),
    PROFILER("HeapStatus", UNARY, READ, TARGET, heap_status_request, rpc_heap_status),
    PROFILER("HeapActivate", UNARY, CONTROL, TARGET, heap_activate_request, rpc_heap_activate),
    PROFILER("HeapDeactivate", UNARY, CONTROL, TARGET, heap_deactivate_request,
             rpc_heap_deactivate),
    PROFILER("HeapReset", UNARY, CONTROL, TARGET, heap_reset_request, rpc_heap_reset),
    PROFILER("HeapSnapshot", STREAM, READ, TARGET, heap_snapshot_request, rpc_heap_snapshot),
    PROFILER("ListHeapDumps", UNARY, READ, TARGET, list_heap_dumps_request, rpc_list_heap_dumps),
    PROFILER("GetHeapDump", STREAM, READ, TARGET, get_heap_dump_request, rpc_get_heap_dump),
    PROFILER("CaptureAllocs", STREAM, READ, TARGET, capture_allocs_request, rpc_capture_allocs),
    PROFILER("StartAllocs", UNARY, CONTROL, TARGET, start_allocs_request, rpc_start_allocs),
    PROFILER("StopAllocs", STREAM, CONTROL, TARGET, stop_allocs_request, rpc_stop_allocs),
    PROFILER("GetHeapGdump", UNARY, READ, TARGET, get_heap_gdump_request, rpc_get_heap_gdump),
    PROFILER("SetHeapGdump", UNARY, CONTROL, TARGET, set_heap_gdump_request, rpc_set_heap_gdump),
    PROFILER("ListCaptures", UNARY, READ, SAVED, list_captures_request, rpc_list_captures),
    PROFILER("GetCapture", STREAM, READ, SAVED, get_capture_request, rpc_get_capture),
    PROFILER("GetCaptureTimeline", UNARY, READ, SAVED, get_capture_timeline_request,
             rpc_get_capture_timeline),
    PROFILER("DiffCaptures", STREAM, READ, SAVED, diff_captures_request, rpc_diff_captures),
    PROFILER("Collect", DUPLEX, READ, SHARED, collect_request, rpc_collect),
    HISTORY("Write", BIDI, CONTROL, write_request, rpc_history_write),
    HISTORY("QueryProfile", STREAM, READ, query_profile_request, rpc_query_profile),
    HISTORY("QueryTree", STREAM, READ, query_tree_request, rpc_query_tree),
    HISTORY("QueryDiff", STREAM, READ, query_diff_request, rpc_query_diff),
    HISTORY("QuerySeries", UNARY, READ, query_series_request, rpc_query_series),
    HISTORY("QueryTop", UNARY, READ, query_top_request, rpc_query_top),
    HISTORY("QueryFunction", UNARY, READ, query_function_request, rpc_query_function),
    HISTORY("ListServices", UNARY, READ, list_services_request, rpc_list_services),
    HISTORY("ListLabels", UNARY, READ, list_labels_request, rpc_list_labels),
    HISTORY("ListLabelValues", UNARY, READ, list_label_values_request, rpc_list_label_values),
    HISTORY("GetHistoryInfo", UNARY, READ, get_history_info_request, rpc_get_history_info),
    HISTORY("RenewLease", UNARY, CONTROL, renew_lease_request, rpc_renew_lease),
    {"/" OTLP_SERVICE "/Export", RPC_UNARY, RPC_SCOPE_CONTROL, RPC_REACH_SHARED,
     &OTLP(export_profiles_service_request__descriptor), rpc_otlp_export},
    HEALTH("Check", UNARY, rpc_health_check),
    HEALTH("Watch", STREAM, rpc_health_watch),
    REFLECTION("v1"),
    REFLECTION("v1alpha"),
};

const size_t rpc_method_count = sizeof rpc_methods / sizeof rpc_methods[0];

const char *rpc_service_name(size_t index) {
    static const char *const names[] = {"sonde.v1.Profiler",
                                        "sonde.v1.History",
                                        OTLP_SERVICE,
                                        "grpc.health.v1.Health",
                                        "grpc.reflection.v1.ServerReflection",
                                        "grpc.reflection.v1alpha.ServerReflection"};
    return index < sizeof names / sizeof names[0] ? names[index] : NULL;
}

bool rpc_serves(const struct rpc_server *server, const char *service) {
    if (strcmp(service, "sonde.v1.Profiler") == 0)
        return server->engine != NULL;
    bool needs_history =
        strcmp(service, "sonde.v1.History") == 0 || strcmp(service, OTLP_SERVICE) == 0;
    return !needs_history || server->history != NULL;
}
