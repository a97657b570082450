/* SPDX-License-Identifier: Apache-2.0
 *
 * The handlers that the method table (method_table.c) names. */
#ifndef SONDE_SERVICE_RPC_CORE_HANDLERS_H
#define SONDE_SERVICE_RPC_CORE_HANDLERS_H

#include "service/rpc/core/call.h"

typedef void rpc_handler(struct rpc_call *call, const ProtobufCMessage *request);

rpc_handler rpc_get_info, rpc_get_command_line;                    /* info.c */
rpc_handler rpc_list_targets;                                      /* target_list.c */
rpc_handler rpc_watch_targets;                                     /* targets.c */
rpc_handler rpc_capture_cpu, rpc_finish_capture, rpc_stop_cpu;     /* capture_call.c */
rpc_handler rpc_start_cpu;                                         /* info.c */
rpc_handler rpc_capture_allocs, rpc_start_allocs, rpc_stop_allocs; /* allocs.c */
rpc_handler rpc_stream_cpu;                                        /* stream.c */
rpc_handler rpc_collect;                                           /* collect_call.c */
rpc_handler rpc_get_backtraces;                                    /* backtraces.c */
rpc_handler rpc_check_unwind;                                      /* unwind_check.c */
rpc_handler rpc_symbolize, rpc_symbolize_stream; /* symbolize.c, symbolize_stream.c */
rpc_handler rpc_upload_debug_file;               /* upload.c */
rpc_handler rpc_list_symbol_files;               /* symbol_files.c */
rpc_handler rpc_evict_symbols;                   /* symbol_files.c */
rpc_handler rpc_heap_status, rpc_heap_activate;  /* heap.c, like the next five */
rpc_handler rpc_heap_deactivate, rpc_heap_reset;
rpc_handler rpc_list_heap_dumps;
rpc_handler rpc_get_heap_gdump, rpc_set_heap_gdump;
rpc_handler rpc_heap_snapshot, rpc_get_heap_dump; /* heap_result.c */
rpc_handler rpc_list_captures, rpc_get_capture;   /* saved_capture_methods.c, like the next */
rpc_handler rpc_diff_captures;
rpc_handler rpc_render_profile;                 /* render_profile.c */
rpc_handler rpc_get_capture_timeline;           /* capture_timeline.c */
rpc_handler rpc_history_write;                  /* write.c */
rpc_handler rpc_otlp_export;                    /* export.c */
rpc_handler rpc_query_profile, rpc_query_diff;  /* query_profile.c */
rpc_handler rpc_query_tree;                     /* query_tree.c */
rpc_handler rpc_query_series;                   /* query_series.c */
rpc_handler rpc_query_top;                      /* query_top.c */
rpc_handler rpc_list_services, rpc_list_labels; /* lists.c, like the next two */
rpc_handler rpc_list_label_values, rpc_get_history_info;
rpc_handler rpc_renew_lease, rpc_query_function;
rpc_handler rpc_health_check, rpc_health_watch; /* health.c */
rpc_handler rpc_reflect;                        /* reflection.c */

#endif
