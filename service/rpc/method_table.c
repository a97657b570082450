/* SPDX-License-Identifier: Apache-2.0
 *
 * The method table. A new method needs a row and a handler. Decoding, access control, cancellation
 * and the log line are common to all methods. */
#include "service/rpc/method_table.h"
#include "proto/grpc/health/v1/health.pb-c.h"
#include "proto/grpc/reflection/v1alpha/reflection.pb-c.h"
#include "proto/opentelemetry/profiles_service.pb-c.h"
#include "proto/sonde/v1/history.pb-c.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/core/handlers.h"

#define PROFILER(name, kind, scope, effect, reach, request, start)                      \
    {                                                                                   \
        "/sonde.v1.Profiler/" name, RPC_##kind, RPC_SCOPE_##scope, RPC_EFFECT_##effect, \
            RPC_REACH_##reach, &sonde__v1__##request##__descriptor, start               \
    }
/* History is what all users share. */
#define HISTORY(name, kind, scope, effect, request, start)                             \
    {                                                                                  \
        "/sonde.v1.History/" name, RPC_##kind, RPC_SCOPE_##scope, RPC_EFFECT_##effect, \
            RPC_REACH_SHARED, &sonde__v1__##request##__descriptor, start               \
    }
/* The collector service of OpenTelemetry's profiles. */
#define OTLP_SERVICE "opentelemetry.proto.collector.profiles.v1development.ProfilesService"
#define OTLP(name)   opentelemetry__proto__collector__profiles__v1development__##name
#define HEALTH(name, kind, start)                                                          \
    {                                                                                      \
        "/grpc.health.v1.Health/" name, RPC_##kind, RPC_SCOPE_NONE, RPC_EFFECT_NONE,       \
            RPC_REACH_FILTERED, &grpc__health__v1__health_check_request__descriptor, start \
    }
#define REFLECTION(version)                                                                \
    {                                                                                      \
        "/grpc.reflection." version ".ServerReflection/ServerReflectionInfo", RPC_BIDI,    \
            RPC_SCOPE_READ, RPC_EFFECT_NONE, RPC_REACH_FILTERED,                           \
            &grpc__reflection__v1alpha__server_reflection_request__descriptor, rpc_reflect \
    }

const struct rpc_method rpc_methods[] = {
    PROFILER("GetInfo", UNARY, READ, NONE, FILTERED, get_info_request, rpc_get_info),
    PROFILER("ListTargets", UNARY, READ, NONE, FILTERED, list_targets_request, rpc_list_targets),
    PROFILER("WatchTargets", STREAM, READ, NONE, FILTERED, watch_targets_request,
             rpc_watch_targets),
    PROFILER("CaptureCpu", STREAM, READ, NONE, TARGET, capture_cpu_request, rpc_capture_cpu),
    PROFILER("FinishCapture", UNARY, READ, NONE, FILTERED, finish_capture_request,
             rpc_finish_capture),
    PROFILER("StreamCpu", STREAM, READ, NONE, TARGET, stream_cpu_request, rpc_stream_cpu),
    PROFILER("StartCpu", UNARY, CONTROL, STATE, TARGET, start_cpu_request, rpc_start_cpu),
    PROFILER("StopCpu", STREAM, CONTROL, STATE, TARGET, stop_cpu_request, rpc_stop_cpu),
    PROFILER("Symbolize", UNARY, READ, NONE, TARGET, symbolize_request, rpc_symbolize),
    PROFILER("SymbolizeStream", BIDI, READ, NONE, SHARED, symbolize_request, rpc_symbolize_stream),
    PROFILER("UploadDebugFile", CLIENT_STREAM, CONTROL, STATE, SHARED, upload_debug_file_request,
             rpc_upload_debug_file),
    PROFILER("ListSymbolFiles", UNARY, READ, NONE, SHARED, list_symbol_files_request,
             rpc_list_symbol_files),
    PROFILER("EvictSymbols", UNARY, CONTROL, STATE, SHARED, evict_symbols_request,
             rpc_evict_symbols),
    PROFILER("GetCommandLine", UNARY, READ, NONE, TARGET, get_command_line_request,
             rpc_get_command_line),
    PROFILER("GetBacktraces", UNARY, READ, NONE, TARGET, get_backtraces_request,
             rpc_get_backtraces),
    PROFILER("CheckUnwind", UNARY, READ, NONE, TARGET, check_unwind_request, rpc_check_unwind),
    PROFILER("HeapStatus", UNARY, READ, NONE, TARGET, heap_status_request, rpc_heap_status),
    PROFILER("HeapActivate", UNARY, CONTROL, STATE, TARGET, heap_activate_request,
             rpc_heap_activate),
    PROFILER("HeapDeactivate", UNARY, CONTROL, STATE, TARGET, heap_deactivate_request,
             rpc_heap_deactivate),
    PROFILER("HeapReset", UNARY, CONTROL, STATE, TARGET, heap_reset_request, rpc_heap_reset),
    PROFILER("HeapSnapshot", STREAM, READ, NONE, TARGET, heap_snapshot_request, rpc_heap_snapshot),
    PROFILER("ListHeapDumps", UNARY, READ, NONE, TARGET, list_heap_dumps_request,
             rpc_list_heap_dumps),
    PROFILER("GetHeapDump", STREAM, READ, NONE, TARGET, get_heap_dump_request, rpc_get_heap_dump),
    PROFILER("CaptureAllocs", STREAM, READ, NONE, TARGET, capture_allocs_request,
             rpc_capture_allocs),
    PROFILER("StartAllocs", UNARY, CONTROL, STATE, TARGET, start_allocs_request, rpc_start_allocs),
    PROFILER("StopAllocs", STREAM, CONTROL, STATE, TARGET, stop_allocs_request, rpc_stop_allocs),
    PROFILER("GetHeapGdump", UNARY, READ, NONE, TARGET, get_heap_gdump_request, rpc_get_heap_gdump),
    PROFILER("SetHeapGdump", UNARY, CONTROL, STATE, TARGET, set_heap_gdump_request,
             rpc_set_heap_gdump),
    PROFILER("ListCaptures", UNARY, READ, NONE, SAVED, list_captures_request, rpc_list_captures),
    PROFILER("GetCapture", STREAM, READ, NONE, SAVED, get_capture_request, rpc_get_capture),
    PROFILER("GetCaptureTimeline", UNARY, READ, NONE, SAVED, get_capture_timeline_request,
             rpc_get_capture_timeline),
    PROFILER("DiffCaptures", STREAM, READ, NONE, SAVED, diff_captures_request, rpc_diff_captures),
    PROFILER("RenderProfile", STREAM, READ, NONE, FILTERED, render_profile_request,
             rpc_render_profile),
    PROFILER("Collect", DUPLEX, READ, STATE, SHARED, collect_request, rpc_collect),
    HISTORY("Write", BIDI, CONTROL, STATE, write_request, rpc_history_write),
    HISTORY("QueryProfile", STREAM, READ, NONE, query_profile_request, rpc_query_profile),
    HISTORY("QueryTree", STREAM, READ, NONE, query_tree_request, rpc_query_tree),
    HISTORY("QueryDiff", STREAM, READ, NONE, query_diff_request, rpc_query_diff),
    HISTORY("QuerySeries", UNARY, READ, NONE, query_series_request, rpc_query_series),
    HISTORY("QueryTop", UNARY, READ, NONE, query_top_request, rpc_query_top),
    HISTORY("QueryFunction", UNARY, READ, NONE, query_function_request, rpc_query_function),
    HISTORY("ListServices", UNARY, READ, NONE, list_services_request, rpc_list_services),
    HISTORY("ListLabels", UNARY, READ, NONE, list_labels_request, rpc_list_labels),
    HISTORY("ListLabelValues", UNARY, READ, NONE, list_label_values_request, rpc_list_label_values),
    HISTORY("GetHistoryInfo", UNARY, READ, NONE, get_history_info_request, rpc_get_history_info),
    HISTORY("RenewLease", UNARY, CONTROL, NONE, renew_lease_request, rpc_renew_lease),
    {"/" OTLP_SERVICE "/Export", RPC_UNARY, RPC_SCOPE_CONTROL, RPC_EFFECT_STATE, RPC_REACH_SHARED,
     &OTLP(export_profiles_service_request__descriptor), rpc_otlp_export},
    HEALTH("Check", UNARY, rpc_health_check),
    HEALTH("Watch", STREAM, rpc_health_watch),
    REFLECTION("v1"),
    REFLECTION("v1alpha"),
};

const size_t rpc_method_count = sizeof rpc_methods / sizeof rpc_methods[0];
