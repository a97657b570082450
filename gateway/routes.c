/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/routes.h"

#include "gateway/handlers.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#include <string.h>

#define BOTH (METHOD_GET | METHOD_POST)

#define THREADS_FILE "attachment; filename=\"threads\""
#define WAITS_FILE   "attachment; filename=\"waits\""
#define CPU_FILE     "attachment; filename=\"cpu_profile\""
#define HEAP_FILE    "attachment; filename=\"profile\""
#define ALLOCS_FILE  "attachment; filename=\"allocs_profile\""

static const struct profile_setup debug_pprof = {10, SONDE__V1__FORMAT__SVG_FLAMEGRAPH,
                                                 PROFILE_NEGOTIATES, FORMATS_CPU, CPU_FILE};
static const struct profile_setup gperftools = {30, SONDE__V1__FORMAT__LEGACY_CPU, 0, FORMATS_CPU,
                                                CPU_FILE};
static const struct profile_setup debug_prof = {5, SONDE__V1__FORMAT__PPROF, PROFILE_STRICT,
                                                FORMATS_CPU, NULL};
static const struct profile_setup julia = {10, SONDE__V1__FORMAT__PPROF, PROFILE_GZIP_BODY,
                                           FORMATS_CPU, NULL};
static const struct profile_setup allocs = {30, SONDE__V1__FORMAT__SVG_FLAMEGRAPH,
                                            PROFILE_NEGOTIATES, FORMATS_ALLOCATIONS, ALLOCS_FILE};
static const struct profile_setup delta_heap = {0, SONDE__V1__FORMAT__PPROF, 0, FORMATS_ALLOCATIONS,
                                                ALLOCS_FILE};
static const struct profile_setup threads = {0, SONDE__V1__FORMAT__PPROF, 0, FORMATS_CPU,
                                             THREADS_FILE};
static const struct profile_setup waits = {0, SONDE__V1__FORMAT__PPROF, 0, FORMATS_CPU, WAITS_FILE};
static const struct profile_setup locks = {0, SONDE__V1__FORMAT__PPROF, PROFILE_LOCKS, FORMATS_CPU,
                                           WAITS_FILE};
static const struct profile_setup julia_allocs = {10, SONDE__V1__FORMAT__PPROF, PROFILE_GZIP_BODY,
                                                  FORMATS_ALLOCATIONS, NULL};
static const struct profile_setup heap = {0, SONDE__V1__FORMAT__JEMALLOC,
                                          PROFILE_NEGOTIATES | PROFILE_GZIP_BODY, FORMATS_HEAP,
                                          HEAP_FILE};
static const struct profile_setup gperftools_heap = {0, SONDE__V1__FORMAT__LEGACY_HEAP,
                                                     PROFILE_NEGOTIATES | PROFILE_GZIP_BODY,
                                                     FORMATS_HEAP, HEAP_FILE};
static const struct profile_setup mem = {0, SONDE__V1__FORMAT__JEMALLOC,
                                         PROFILE_STRICT | PROFILE_GZIP_BODY, FORMATS_HEAP, NULL};
static const struct profile_setup heap_snapshot = {0, SONDE__V1__FORMAT__HEAPSNAPSHOT,
                                                   PROFILE_GZIP_BODY, FORMATS_HEAP, NULL};

/* For go tool pprof, which fails if the path beside a profile's does; see pprof/symbol.c. */
#define SYMBOL_FLAGS (ROUTE_LARGE_BODY | ROUTE_MANY)

#define CPU_PARAMETERS \
    "seconds frequency mode counted period locks source max_overhead output threads hide_idle"
#define HEAP_PICTURE "threads allocator_frames"
#define HEAP_PARAMETERS \
    "name jeprof heap_seconds base growth_only older_than heap_output " HEAP_PICTURE

#define SELECTION_PARAMETERS "service event selector from until host_totals"
#define BASE_PARAMETERS      "base_service base_event base_selector base_from base_until"

/* clang-format off */
static const struct route table[] = {
    {"/", METHOD_GET, ROUTE_NO_TARGET | ROUTE_PUBLIC_HTML, FAMILY_PLAIN, handle_page, NULL, "",
     NULL, "the page in a browser; this list for other clients"},
    {"/ui/{file}", METHOD_GET, ROUTE_NO_TARGET | ROUTE_TAIL | ROUTE_PUBLIC, FAMILY_PLAIN,
     handle_ui_file, NULL, "ui_file", NULL, "a file of the page"},
    {"/speedscope/", METHOD_GET, ROUTE_NO_TARGET | ROUTE_PUBLIC, FAMILY_PLAIN, handle_speedscope,
     NULL, "", NULL, "speedscope, if it is installed: #profileURL=/v1/captures/7.speedscope.json"},
    {"/speedscope/{file}", METHOD_GET, ROUTE_NO_TARGET | ROUTE_TAIL | ROUTE_PUBLIC, FAMILY_PLAIN,
     handle_speedscope, NULL, "ui_file", NULL, "a file of speedscope"},
    {"/openapi.yaml", METHOD_GET, ROUTE_NO_TARGET, FAMILY_PLAIN, handle_openapi, NULL, "", "",
     "OpenAPI description of every path"},

    {"/debug/pprof", METHOD_GET, ROUTE_NO_TARGET, FAMILY_PPROF, handle_index, NULL, "", NULL,
     "this list"},
    {"/debug/pprof/", METHOD_GET, ROUTE_NO_TARGET, FAMILY_PPROF, handle_index, NULL, "", NULL,
     "this list"},
    {"/debug/pprof/profile", METHOD_GET, ROUTE_WORKS | ROUTE_MANY, FAMILY_PPROF, handle_profile,
     &debug_pprof, CPU_PARAMETERS, "?seconds=30",
     "CPU profile as a flame graph; pprof for Go's tools; profile.txt, profile.pb.gz, ... name a "
     "format"},
    {"/debug/pprof/symbol", BOTH, SYMBOL_FLAGS, FAMILY_PPROF, handle_symbol, NULL, "", "",
     "function names of addresses: POST 0x..+0x.."},
    {"/debug/pprof/symbolz", BOTH, SYMBOL_FLAGS, FAMILY_PPROF, handle_symbol, NULL, "", NULL,
     "function names of addresses: POST 0x..+0x.."},
    {"/debug/pprof/cmdline", METHOD_GET, 0, FAMILY_PPROF, handle_cmdline, NULL, "", "",
     "command line of the target"},

    {"/debug/pprof/allocs", METHOD_GET, ROUTE_WORKS, FAMILY_PPROF, handle_allocs, &allocs,
     "seconds sample_interval scraper allocs_output " HEAP_PICTURE, "?seconds=30",
     "memory allocated meanwhile as a flame graph; pprof for Go's tools"},
    {"/debug/pprof/delta_heap", METHOD_GET, ROUTE_WORKS, FAMILY_PPROF, handle_allocs, &delta_heap,
     "seconds sample_interval scraper allocs_output allocator_frames", "",
     "memory allocated since the last request, for Grafana Alloy"},
    {"/debug/pprof/goroutine", METHOD_GET, ROUTE_WORKS, FAMILY_PPROF, handle_goroutine, &threads,
     "debug output", "?debug=2", "stacks of all threads; pprof without debug=2"},
    {"/debug/pprof/threadcreate", METHOD_GET, ROUTE_WORKS, FAMILY_PPROF, handle_threadcreate,
     &threads, "debug output", "?output=top", "number of threads by start function"},
    {"/debug/pprof/block", METHOD_GET, ROUTE_WORKS, FAMILY_PPROF, handle_waits, &waits,
     "seconds output", "?seconds=10&output=flamegraph", "time that threads waited"},
    {"/debug/pprof/mutex", METHOD_GET, ROUTE_WORKS, FAMILY_PPROF, handle_waits, &locks,
     "seconds output", "?seconds=10&output=flamegraph",
     "time that threads waited for mutexes and read-write locks"},
    {"/debug/pprof/heap", METHOD_GET, ROUTE_WORKS, FAMILY_PPROF, handle_heap_profile, &heap,
     HEAP_PARAMETERS, "?output=flamegraph", "live heap as a jemalloc dump; pprof for Go's tools"},
    {"/debug/pprof/heap_activate", METHOD_GET, ROUTE_CHANGES_STATE, FAMILY_PPROF,
     handle_heap_activate, NULL, "interval keep backend", "?interval=60",
     "start heap profiling, with a dump every 60 seconds; the newest 100 are kept"},
    {"/debug/pprof/heap_deactivate", METHOD_GET, ROUTE_CHANGES_STATE, FAMILY_PPROF,
     handle_heap_deactivate, NULL, "", "", "stop heap profiling and delete the dumps"},
    {"/debug/pprof/heap_list", METHOD_GET, 0, FAMILY_PPROF, handle_heap_list, NULL, "", "",
     "periodic dumps, newest first; fetch one with heap?name=NNNNNN.heap"},

    {"/pprof/profile", METHOD_GET, ROUTE_WORKS | ROUTE_MANY, FAMILY_PPROF, handle_profile,
     &gperftools, CPU_PARAMETERS, "?seconds=30",
     "CPU profile in gperftools' format, for jeprof and google-pprof"},
    {"/pprof/heap", METHOD_GET, ROUTE_WORKS, FAMILY_PPROF, handle_heap_profile,
     &gperftools_heap, HEAP_PARAMETERS, NULL,
     "live heap in gperftools' format, for jeprof and google-pprof"},
    {"/pprof/symbol", BOTH, SYMBOL_FLAGS, FAMILY_PPROF, handle_symbol, NULL, "", NULL,
     "function names of addresses: POST 0x..+0x.."},
    {"/pprof/symbolz", BOTH, SYMBOL_FLAGS, FAMILY_PPROF, handle_symbol, NULL, "", NULL,
     "function names of addresses: POST 0x..+0x.."},
    {"/pprof/cmdline", METHOD_GET, 0, FAMILY_PPROF, handle_cmdline, NULL, "", NULL,
     "command line of the target"},
    {"/symbol", BOTH, SYMBOL_FLAGS, FAMILY_PLAIN, handle_symbol, NULL, "", NULL,
     "function names of addresses: POST 0x..+0x.."},
    {"/symbolz", BOTH, SYMBOL_FLAGS, FAMILY_PLAIN, handle_symbol, NULL, "", NULL,
     "function names of addresses: POST 0x..+0x.."},

    {"/debug/prof/cpu", METHOD_POST, ROUTE_WORKS | ROUTE_MANY, FAMILY_PROF, handle_profile,
     &debug_prof, CPU_PARAMETERS, "?seconds=5",
     "CPU profile; pprof unless output= names another format"},
    {"/debug/prof/mem", METHOD_POST, ROUTE_WORKS, FAMILY_PROF, handle_mem_dump, &mem,
     "heap_output " HEAP_PICTURE, "",
     "live heap; a jemalloc dump unless output= names another format"},
    {"/debug/prof/mem/status", METHOD_GET, 0, FAMILY_PROF, handle_mem_status, NULL, "", "",
     "whether heap profiling is active"},
    {"/debug/prof/mem/activate", METHOD_POST, ROUTE_CHANGES_STATE, FAMILY_PROF, handle_mem_activate,
     NULL, "interval keep backend", "", "start heap profiling"},
    {"/debug/prof/mem/deactivate", METHOD_POST, ROUTE_CHANGES_STATE, FAMILY_PROF,
     handle_mem_deactivate, NULL, "", "", "stop heap profiling"},
    {"/debug/prof/mem/gdump", BOTH, ROUTE_CHANGES_STATE | ROUTE_GET_READS, FAMILY_PROF,
     handle_mem_gdump, NULL, "", "",
     "dump at each new maximum of memory; POST activate=true or activate=false"},

    {"/profile", BOTH, ROUTE_SLASH | ROUTE_WORKS | ROUTE_MANY, FAMILY_JULIA,
     handle_julia_profile, &julia,
     "n delay duration mode counted period locks source max_overhead pprof output threads "
     "hide_idle",
     "?duration=10", "CPU profile as a gzipped pprof"},
    {"/profile_start", BOTH, ROUTE_SLASH | ROUTE_CHANGES_STATE | ROUTE_MANY, FAMILY_JULIA,
     handle_julia_start, NULL, "n delay mode source max_overhead", NULL,
     "start a CPU profiling session"},
    {"/profile_stop", BOTH, ROUTE_SLASH | ROUTE_CHANGES_STATE | ROUTE_MANY, FAMILY_JULIA,
     handle_julia_stop, &julia, "pprof output threads hide_idle", NULL,
     "stop the CPU profiling session and fetch its profile"},
    {"/allocs_profile", BOTH, ROUTE_SLASH | ROUTE_WORKS, FAMILY_JULIA, handle_julia_allocs,
     &julia_allocs, "sample_rate duration allocs_output " HEAP_PICTURE,
     "?sample_rate=0.01&duration=10",
     "memory allocated meanwhile as a gzipped pprof"},
    {"/allocs_profile_start", BOTH, ROUTE_SLASH | ROUTE_CHANGES_STATE, FAMILY_JULIA,
     handle_julia_allocs_start, NULL, "sample_rate allocator_frames", NULL,
     "start an allocation profiling session"},
    {"/allocs_profile_stop", BOTH, ROUTE_SLASH | ROUTE_CHANGES_STATE, FAMILY_JULIA,
     handle_julia_allocs_stop, &julia_allocs, "allocs_output threads", NULL,
     "stop the allocation profiling session and fetch its profile"},
    {"/heap_snapshot", BOTH, ROUTE_SLASH | ROUTE_WORKS, FAMILY_JULIA, handle_heap_snapshot,
     &heap_snapshot, "all_one heap_output " HEAP_PICTURE, "",
     "live heap for Chrome DevTools; save it as .heapsnapshot"},
    {"/task_backtraces", BOTH, ROUTE_SLASH | ROUTE_WORKS, FAMILY_JULIA, handle_task_backtraces,
     NULL, "", "", "stacks of all threads, with state and CPU time"},

    {"/v1/targets", METHOD_GET, ROUTE_NO_TARGET, FAMILY_V1, handle_targets, NULL, "all advice",
     "",
     "attached processes; ?all=true lists every process that could be profiled"},
    {"/v1/sd", METHOD_GET, ROUTE_NO_TARGET, FAMILY_V1, handle_discovery, NULL, "all", "",
     "the targets for Prometheus' HTTP service discovery: Parca, Grafana Alloy"},
    {"/v1/info", METHOD_GET, ROUTE_NO_TARGET, FAMILY_V1, handle_info, NULL, "", "",
     "version, limits and counters of the service"},
    {"/v1/heap", METHOD_GET | METHOD_PUT, ROUTE_CHANGES_STATE | ROUTE_GET_READS, FAMILY_V1,
     handle_v1_heap, NULL, "active interval keep backend sample_bytes delete_dumps", "",
     "state of heap profiling; PUT ?active=true turns it on"},
    {"/v1/threads", METHOD_GET, ROUTE_WORKS, FAMILY_V1, handle_v1_threads, NULL,
     "max_depth max_threads tid", "", "stacks of all threads as JSON"},
    {"/v1/code", METHOD_GET, ROUTE_NO_TARGET | ROUTE_WORKS, FAMILY_V1, handle_v1_code, NULL,
     "build_id code_address code_function code_start code_offset", NULL,
     "instructions and lines of a function: ?build_id=1f2a...&address=0x1234"},
    {"/v1/cpu/live", METHOD_GET, ROUTE_WORKS | ROUTE_MANY, FAMILY_V1, handle_cpu_live, NULL,
     "window frequency windows mode source max_overhead", "?windows=5",
     "live CPU samples, one line of JSON per window"},
    {"/v1/captures", BOTH,
     ROUTE_CHANGES_STATE | ROUTE_GET_READS | ROUTE_SCOPE_READ | ROUTE_MANY, FAMILY_V1,
     handle_v1_captures, NULL,
     "kind seconds frequency mode counted period locks source max_overhead sample_interval note",
     "",
     "saved captures; POST ?seconds=10 takes one; captures/7.svg, diff?base=6&new=7"},
    {"/v1/captures/{id}", METHOD_GET, ROUTE_NO_TARGET | ROUTE_TAIL, FAMILY_V1, handle_v1_capture,
     NULL, "id range_from range_until output threads hide_idle", NULL,
     "a saved capture in any format: 7, 7.svg, 7.pb.gz, 7.txt; ?from=2&until=3.5 is a part of it"},
    {"/v1/captures/{id}/timeline", METHOD_GET, ROUTE_NO_TARGET | ROUTE_TAIL, FAMILY_V1,
     handle_v1_capture_timeline, NULL,
     "capture_number range_from range_until bin_ms only_function", NULL,
     "values of a saved capture over its time: captures/7/timeline?bin_ms=100"},
    {"/v1/diff", METHOD_GET, ROUTE_NO_TARGET, FAMILY_V1, handle_v1_diff, NULL,
     "base_capture new_capture range_from range_until base_range_from base_range_until normalize "
     "growth difference_output threads", NULL,
     "difference of two saved captures: ?base=6&new=7"},
    {"/v1/render", METHOD_POST, ROUTE_NO_TARGET | ROUTE_LARGE_BODY | ROUTE_WORKS, FAMILY_V1,
     handle_v1_render, NULL,
     "render_output title sample_type threads hide_idle allocator_frames normalize growth", NULL,
     "the pprof file in the body in another format: ?output=collapsed"},
    {"/v1/history/profile", METHOD_GET, ROUTE_NO_TARGET, FAMILY_V1, handle_history_profile, NULL,
     SELECTION_PARAMETERS " output threads hide_idle", "?from=-1h",
     "what was recorded, summed, in any format: ?service=redis&from=-1h&until=now"},
    {"/v1/history/diff", METHOD_GET, ROUTE_NO_TARGET, FAMILY_V1, handle_history_diff, NULL,
     SELECTION_PARAMETERS " " BASE_PARAMETERS " growth difference_output threads", NULL,
     "difference of two selections: ?service=redis&from=-1h&base_from=-2h&base_until=-1h"},
    {"/v1/history/series", METHOD_GET, ROUTE_NO_TARGET, FAMILY_V1, handle_history_series, NULL,
     SELECTION_PARAMETERS " step group_by history_limit only_function", "?group_by=service",
     "values over time: ?group_by=host&step=60; ?function=malloc counts its stacks only"},
    {"/v1/history/top", METHOD_GET, ROUTE_NO_TARGET, FAMILY_V1, handle_history_top, NULL,
     SELECTION_PARAMETERS " history_limit by_total", "", "the most expensive functions"},
    {"/v1/history/function", METHOD_GET, ROUTE_NO_TARGET, FAMILY_V1, handle_history_function, NULL,
     "function event selector from until service history_limit", "?function=malloc",
     "which services spend time in a function: ?function=SSL_*&from=-24h"},
    {"/v1/history/services", METHOD_GET, ROUTE_NO_TARGET, FAMILY_V1, handle_history_services, NULL,
     "from until selector", "", "services that were recorded"},
    {"/v1/history/labels", METHOD_GET, ROUTE_NO_TARGET, FAMILY_V1, handle_history_labels, NULL,
     "from until selector", "", "labels for selectors; labels/NAME has the values of one"},
    {"/v1/history/labels/{name}", METHOD_GET, ROUTE_NO_TARGET | ROUTE_TAIL, FAMILY_V1,
     handle_history_label, NULL, "label_name from until selector", NULL, "values of a label"},
    {"/v1/history/changes", METHOD_GET, ROUTE_NO_TARGET, FAMILY_V1, handle_history_changes, NULL,
     "service from until history_limit", "",
     "functions whose cost changed, which sonded --watch found"},
    {"/v1/history/info", METHOD_GET, ROUTE_NO_TARGET, FAMILY_V1, handle_history_info, NULL, "", "",
     "what is kept, how complete it is and what it costs"},
    {"/v1/profile/ProfileTracing", METHOD_POST, ROUTE_NO_TARGET, FAMILY_TRACING,
     handle_profile_tracing, NULL, "", NULL,
     "DeepFlow's query of recorded profiles; needs a history store"},

    {"/querier.v1.QuerierService/ProfileTypes", METHOD_POST, ROUTE_NO_TARGET,
     FAMILY_CONNECT, handle_querier_profile_types, NULL, "", NULL,
     "Grafana: types of profiles"},
    {"/querier.v1.QuerierService/LabelNames", METHOD_POST, ROUTE_NO_TARGET,
     FAMILY_CONNECT, handle_querier_label_names, NULL, "", NULL,
     "Grafana: names of labels"},
    {"/querier.v1.QuerierService/LabelValues", METHOD_POST, ROUTE_NO_TARGET,
     FAMILY_CONNECT, handle_querier_label_values, NULL, "", NULL,
     "Grafana: values of a label"},
    {"/querier.v1.QuerierService/Series", METHOD_POST, ROUTE_NO_TARGET,
     FAMILY_CONNECT, handle_querier_series, NULL, "", NULL,
     "Grafana: services and their types of profiles"},
    {"/querier.v1.QuerierService/SelectSeries", METHOD_POST, ROUTE_NO_TARGET,
     FAMILY_CONNECT, handle_querier_select_series, NULL, "", NULL,
     "Grafana: values over time"},
    {"/querier.v1.QuerierService/SelectMergeStacktraces", METHOD_POST, ROUTE_NO_TARGET,
     FAMILY_CONNECT, handle_querier_stacktraces, NULL, "", NULL,
     "Grafana: a flame graph"},
    {"/querier.v1.QuerierService/SelectMergeProfile", METHOD_POST, ROUTE_NO_TARGET,
     FAMILY_CONNECT, handle_querier_profile, NULL, "", NULL,
     "Grafana: a profile as pprof"},
    {"/querier.v1.QuerierService/Diff", METHOD_POST, ROUTE_NO_TARGET,
     FAMILY_CONNECT, handle_querier_diff, NULL, "", NULL,
     "Grafana: a flame graph of a difference"},
    {"/querier.v1.QuerierService/SelectMergeSpanProfile", METHOD_POST, ROUTE_NO_TARGET,
     FAMILY_CONNECT, handle_querier_unimplemented, NULL, "", NULL,
     "profiles of spans: not implemented"},
    {"/querier.v1.QuerierService/SelectHeatmap", METHOD_POST, ROUTE_NO_TARGET,
     FAMILY_CONNECT, handle_querier_unimplemented, NULL, "", NULL,
     "heat maps: not implemented"},
    {"/pyroscope/render", METHOD_GET, ROUTE_NO_TARGET, FAMILY_CONNECT, handle_pyroscope_render,
     NULL, "query from until maxNodes format groupBy", NULL, "Pyroscope: a flame graph as JSON"},
    {"/pyroscope/render-diff", METHOD_GET, ROUTE_NO_TARGET, FAMILY_CONNECT, handle_pyroscope_diff,
     NULL, "leftQuery leftFrom leftUntil rightQuery rightFrom rightUntil maxNodes", NULL,
     "Pyroscope: a flame graph of a difference as JSON"},
    {"/pyroscope/label-values", METHOD_GET, ROUTE_NO_TARGET, FAMILY_CONNECT,
     handle_pyroscope_label_values, NULL, "label from until", NULL, "Pyroscope: values of a label"},

    {"/mcp", METHOD_POST, ROUTE_NO_TARGET | ROUTE_WORKS, FAMILY_MCP, handle_mcp, NULL, "", NULL,
     "Model Context Protocol: tools for agents"},

    {"/healthz", METHOD_GET, ROUTE_NO_TARGET, FAMILY_PLAIN, handle_healthz, NULL, "", "",
     "whether the gateway is alive"},
    {"/readyz", METHOD_GET, ROUTE_NO_TARGET, FAMILY_PLAIN, handle_readyz, NULL, "", "",
     "whether the service answers"},
    {"/metrics", METHOD_GET, ROUTE_NO_TARGET, FAMILY_PLAIN, handle_metrics, NULL, "", "",
     "counters of the service for Prometheus"},
};
/* clang-format on */

#define COUNT (sizeof table / sizeof table[0])

const struct route *route_table(size_t *count) {
    *count = COUNT;
    return table;
}

/* Whether path is the pattern with one segment instead of its {name}. */
static bool has_tail(struct sonde_slice path, const char *pattern) {
    size_t len = strcspn(pattern, "{");
    const char *brace = strchr(pattern, '}'), *suffix = brace ? brace + 1 : "";
    size_t suffix_len = strlen(suffix);
    return path.len > len + suffix_len && memcmp(path.data, pattern, len) == 0 &&
           memcmp(path.data + path.len - suffix_len, suffix, suffix_len) == 0 &&
           !memchr(path.data + len, '/', path.len - len - suffix_len);
}

/* Compares byte by byte, because most rows differ within the first few. */
static bool is_same(struct sonde_slice path, const char *pattern) {
    size_t i = 0;
    while (i < path.len && pattern[i] && pattern[i] == path.data[i])
        i++;
    return i == path.len && !pattern[i];
}

const struct route *route_find(struct sonde_slice path) {
    bool has_slash = path.len > 1 && path.data[path.len - 1] == '/';
    char second = path.len > 1 ? path.data[1] : 0;
    for (size_t i = 0; i < COUNT; i++) {
        const struct route *route = &table[i];
        struct sonde_slice shorter = path;
        if (route->path[1] && route->path[1] != second)
            continue;
        if (has_slash && (route->flags & ROUTE_SLASH))
            shorter.len--;
        bool fits = (route->flags & ROUTE_TAIL) ? has_tail(path, route->path)
                                                : is_same(shorter, route->path);
        if (fits)
            return route;
    }
    return NULL;
}

const struct route *route_find_extended(struct sonde_slice path, struct sonde_slice *extension) {
    const char *slash = memrchr(path.data, '/', path.len);
    size_t from = slash ? (size_t)(slash - path.data) : 0;
    const char *dot = memchr(path.data + from, '.', path.len - from);
    if (!dot)
        return NULL;
    size_t len = (size_t)(dot - path.data);
    const struct route *route = route_find((struct sonde_slice){path.data, len});
    *extension = (struct sonde_slice){dot, path.len - len};
    bool is_profile = route && strstr(route->parameters, "output") && !(route->flags & ROUTE_TAIL);
    return is_profile ? route : NULL;
}

static bool begins(struct sonde_slice path, const char *prefix) {
    size_t len = strlen(prefix);
    return path.len >= len && memcmp(path.data, prefix, len) == 0;
}

enum family route_family(struct sonde_slice path) {
    const struct route *route = route_find(path);
    if (route)
        return route->family;
    if (begins(path, "/debug/pprof/") || begins(path, "/pprof/"))
        return FAMILY_PPROF;
    if (begins(path, "/debug/prof/"))
        return FAMILY_PROF;
    if (begins(path, "/querier.v1.QuerierService/") || begins(path, "/pyroscope/"))
        return FAMILY_CONNECT;
    return begins(path, "/v1/profile/") ? FAMILY_TRACING : FAMILY_PLAIN;
}
