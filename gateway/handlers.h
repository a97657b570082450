/* SPDX-License-Identifier: Apache-2.0
 *
 * The handlers that the route table names, by the file of families/ that defines them, and the
 * settings of rows that send profiles. A handler answers the request or starts a relay. In the loop
 * only. */
#ifndef SONDE_GATEWAY_HANDLERS_H
#define SONDE_GATEWAY_HANDLERS_H

#include "gateway/gateway.h"
#include "gateway/request/formats.h"

/* How a path sends profiles. */
enum {
    PROFILE_NEGOTIATES = 1, /* without `output=` the client's headers choose the format */
    PROFILE_GZIP_BODY = 2,  /* pprof is sent as a gzip file, without Content-Encoding */
    PROFILE_STRICT = 4,     /* a bad or repeated `output=` is refused in GreptimeDB's words */
    PROFILE_LOCKS = 8,      /* of all waits, only those for locks */
};

struct profile_setup {
    uint32_t seconds;           /* default duration */
    int format;                 /* sonde.v1.Format, unless the client chooses another */
    unsigned flags;             /* PROFILE_* */
    enum format_family offered; /* values that `output=` may have */
    const char *file;           /* Content-Disposition of formats that are files; NULL = none */
};

/* greptime_memory.c */
void handle_mem_dump(const struct request_context *context);
void handle_mem_status(const struct request_context *context);
void handle_mem_activate(const struct request_context *context);
void handle_mem_deactivate(const struct request_context *context);
void handle_mem_gdump(const struct request_context *context);
/* health.c */
void handle_healthz(const struct request_context *context);
void handle_readyz(const struct request_context *context);
/* grafana/pyroscope.c */
void handle_pyroscope_render(const struct request_context *context);
void handle_pyroscope_diff(const struct request_context *context);
void handle_pyroscope_label_values(const struct request_context *context);
/* grafana/querier_lists.c */
void handle_querier_profile_types(const struct request_context *context);
void handle_querier_label_names(const struct request_context *context);
void handle_querier_label_values(const struct request_context *context);
void handle_querier_series(const struct request_context *context);
/* grafana/querier_profiles.c */
void handle_querier_select_series(const struct request_context *context);
void handle_querier_stacktraces(const struct request_context *context);
void handle_querier_diff(const struct request_context *context);
void handle_querier_profile(const struct request_context *context);
void handle_querier_unimplemented(const struct request_context *context);
/* history/deepflow.c */
void handle_profile_tracing(const struct request_context *context);
/* history/v1_history.c */
void handle_history_profile(const struct request_context *context);
void handle_history_diff(const struct request_context *context);
void handle_history_series(const struct request_context *context);
void handle_history_top(const struct request_context *context);
void handle_history_function(const struct request_context *context);
void handle_history_services(const struct request_context *context);
void handle_history_labels(const struct request_context *context);
void handle_history_label(const struct request_context *context);
void handle_history_changes(const struct request_context *context);
void handle_history_info(const struct request_context *context);
/* index.c */
void handle_index(const struct request_context *context);
void handle_openapi(const struct request_context *context);
/* iox_allocs.c */
void handle_allocs(const struct request_context *context); /* delta_heap if setup->seconds is 0 */
/* julia_cpu.c */
void handle_julia_profile(const struct request_context *context);
void handle_julia_start(const struct request_context *context);
void handle_julia_stop(const struct request_context *context);
void handle_task_backtraces(const struct request_context *context);
/* julia_memory.c */
void handle_julia_allocs(const struct request_context *context);
void handle_julia_allocs_start(const struct request_context *context);
void handle_julia_allocs_stop(const struct request_context *context);
void handle_heap_snapshot(const struct request_context *context);
/* gateway/mcp/mcp.c */
void handle_mcp(const struct request_context *context);
/* page.c */
void handle_page(const struct request_context *context);
void handle_ui_file(const struct request_context *context);
void handle_speedscope(const struct request_context *context);
/* pprof/cmdline.c */
void handle_cmdline(const struct request_context *context);
/* pprof/cpu.c */
void handle_profile(const struct request_context *context);
/* pprof/heap.c */
void handle_heap_profile(const struct request_context *context);
/* pprof/threads.c */
void handle_goroutine(const struct request_context *context);
void handle_threadcreate(const struct request_context *context);
/* pprof/waits.c */
void handle_waits(const struct request_context *context);
/* prometheus/discovery.c */
void handle_discovery(const struct request_context *context);
/* prometheus/metrics.c */
void handle_metrics(const struct request_context *context);
/* pprof/symbol.c */
void handle_symbol(const struct request_context *context);
/* tikv_heap.c */
void handle_heap_activate(const struct request_context *context);
void handle_heap_deactivate(const struct request_context *context);
void handle_heap_list(const struct request_context *context);
/* v1/captures.c */
void handle_v1_captures(const struct request_context *context);
/* v1/heap.c */
void handle_v1_heap(const struct request_context *context);
/* v1/info.c */
void handle_info(const struct request_context *context);
void handle_targets(const struct request_context *context);
/* v1/live.c */
void handle_cpu_live(const struct request_context *context);
/* v1/render.c */
void handle_v1_render(const struct request_context *context);
/* v1/saved_capture.c */
void handle_v1_capture(const struct request_context *context);
void handle_v1_capture_timeline(const struct request_context *context);
void handle_v1_diff(const struct request_context *context);
/* v1/code.c */
void handle_v1_code(const struct request_context *context);
/* v1/threads.c */
void handle_v1_threads(const struct request_context *context);

#endif
