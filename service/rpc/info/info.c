/* SPDX-License-Identifier: Apache-2.0
 *
 * GetInfo and GetCommandLine. */
#include "api/os/process_usage.h"
#include "api/settings/options.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/collect/collect.h"
#include "service/function_times/function_times.h"
#include "service/host/counters.h"
#include "service/host/rights.h"
#include "service/rpc/base/text.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/request/params.h"
#include "service/rpc/targets/target_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void fill_usage(Sonde__V1__Info *info) {
    struct process_usage usage;
    process_usage_read(&usage);
    info->cpu_ns = usage.cpu_ns;
    info->resident_bytes = usage.resident_bytes;
    info->virtual_bytes = usage.virtual_bytes;
    info->open_fds = usage.open_fds;
    info->max_fds = usage.max_fds;
}

/* ---- Functions ---- */

struct function_list {
    struct sonde_arena *arena;
    Sonde__V1__Info *info;
};

static void add_function_time(void *context, const struct function_time *from) {
    struct function_list *list = context;
    Sonde__V1__FunctionTime *time = sonde_arena_alloc(list->arena, sizeof *time);
    if (!time || list->info->n_function_times == FUNCTION_TIMES_SUMS)
        return;
    sonde__v1__function_time__init(time);
    time->target = (char *)rpc_text(list->arena, from->target);
    time->function = (char *)rpc_text(list->arena, from->function);
    time->cpu_ns = from->cpu_ns;
    list->info->function_times[list->info->n_function_times++] = time;
}

/* Names of targets are those of all users' processes. */
static void fill_function_times(struct rpc_call *call, Sonde__V1__Info *info) {
    struct function_list list = {rpc_call_arena(call), info};
    struct function_times *times = rpc_call_server(call)->functions;
    if (!times || rpc_call_is_limited(call))
        return;
    info->function_times =
        sonde_arena_alloc(list.arena, FUNCTION_TIMES_SUMS * sizeof *info->function_times);
    if (info->function_times)
        function_times_list(times, add_function_time, &list);
}

/* ---- Rights ---- */

/* Rights and events are tried on a worker. */
struct info_job {
    struct rpc_job job;
    bool has_rights, has_events; /* asked for */
    struct host_right rights[RIGHT_KINDS];
    struct host_counter counters[HOST_COUNTERS];
};

static void fill_events(struct sonde_arena *arena, const struct host_counter *counters,
                        Sonde__V1__Info *info) {
    info->events = sonde_arena_alloc(arena, HOST_COUNTERS * sizeof *info->events);
    for (size_t i = 0; info->events && i < HOST_COUNTERS; i++) {
        const struct sonde_event *row = &sonde_events[counters[i].event];
        Sonde__V1__Event *event = sonde_arena_alloc(arena, sizeof *event);
        if (!event)
            return;
        sonde__v1__event__init(event);
        event->name = (char *)(uintptr_t)row->name;
        event->type = (char *)(uintptr_t)row->amount.type.type;
        event->is_available = counters[i].is_available;
        event->reason = (char *)rpc_text(arena, counters[i].reason);
        info->events[info->n_events++] = event;
    }
}

static void fill_rights(struct sonde_arena *arena, const struct host_right *rights,
                        Sonde__V1__Info *info) {
    info->rights = sonde_arena_alloc(arena, RIGHT_KINDS * sizeof *info->rights);
    for (size_t i = 0; info->rights && i < RIGHT_KINDS; i++) {
        Sonde__V1__Right *right = sonde_arena_alloc(arena, sizeof *right);
        if (!right)
            return;
        sonde__v1__right__init(right);
        right->name = (char *)rights[i].name;
        right->is_granted = rights[i].is_granted;
        right->lost = (char *)rights[i].lost;
        right->command = (char *)rpc_text(arena, rights[i].command);
        right->reason = (char *)rpc_text(arena, rights[i].reason);
        info->rights[info->n_rights++] = right;
    }
}

static Sonde__V1__Export *make_export(struct sonde_arena *arena,
                                      const struct rpc_export_state *state) {
    struct engine_drop lost[RPC_MAX_EXPORT_CAUSES];
    Sonde__V1__Export *export = sonde_arena_alloc(arena, sizeof *export);
    if (!export)
        return NULL;
    sonde__v1__export__init(export);
    export->destination = (char *)state->destination;
    export->receiver = (char *)rpc_text(arena, state->receiver);
    export->sent = state->sent;
    export->retries = state->retries;
    for (size_t i = 0; i < state->lost_count; i++)
        lost[i] = (struct engine_drop){state->lost[i].cause, state->lost[i].count};
    export->lost = rpc_drops(arena, lost, state->lost_count, &export->n_lost);
    export->queue_bytes = state->queue_bytes;
    export->trouble = (char *)rpc_text(arena, state->trouble);
    return export;
}

/* The message refers to texts in the states. */
static void fill_exports(const struct rpc_server *server, struct sonde_arena *arena,
                         Sonde__V1__Info *info) {
    struct rpc_export_state *states = sonde_arena_alloc(arena, RPC_MAX_EXPORTS * sizeof *states);
    info->exports = sonde_arena_alloc(arena, RPC_MAX_EXPORTS * sizeof *info->exports);
    if (!states || !info->exports || !server->export_info)
        return;
    size_t count = server->export_info(server->export_context, states);
    for (size_t i = 0; i < count; i++) {
        Sonde__V1__Export *export = make_export(arena, &states[i]);
        if (export)
            info->exports[info->n_exports++] = export;
    }
}

/* Sessions show names of processes and controllers, so only to callers who may see all. */
static void fill_collect(struct rpc_call *call, Sonde__V1__Info *info) {
    struct collect *collect = rpc_call_server(call)->collect;
    struct sonde_arena *arena = rpc_call_arena(call);
    Sonde__V1__CollectSession *sessions =
        sonde_arena_alloc(arena, COLLECT_MAX_SESSIONS * sizeof *sessions);
    info->collect_sessions =
        sonde_arena_alloc(arena, COLLECT_MAX_SESSIONS * sizeof *info->collect_sessions);
    info->no_collect = !collect;
    info->api_min = info->api_max = COLLECT_API;
    if (!collect || !sessions || !info->collect_sessions || rpc_call_is_limited(call))
        return;
    for (size_t i = 0; i < COLLECT_MAX_SESSIONS; i++)
        sonde__v1__collect_session__init(&sessions[i]);
    info->n_collect_sessions = collect_sessions(collect, arena, sessions, COLLECT_MAX_SESSIONS);
    for (size_t i = 0; i < info->n_collect_sessions; i++)
        info->collect_sessions[i] = &sessions[i];
}

static void try_all(struct rpc_job *job) {
    struct info_job *own = container_of(job, struct info_job, job);
    struct engine *engine = rpc_call_server(job->call)->engine;
    if (own->has_rights)
        engine_rights(engine, own->rights);
    if (own->has_events)
        engine_counters_of_machine(engine, own->counters);
}

/* tried: NULL = neither rights nor events were asked for. */
static void answer(struct rpc_call *call, const struct info_job *tried) {
    struct rpc_server *server = rpc_call_server(call);
    struct engine_counters counters = {0};
    char host[256] = "";
    Sonde__V1__Info info = SONDE__V1__INFO__INIT;
    gethostname(host, sizeof host - 1);
    engine_counters(server->engine, &counters);
    info.version = (char *)SONDE_VERSION;
    info.host = (char *)rpc_text(rpc_call_arena(call), host);
    info.pid = getpid();
    info.start_unix_ns = server->start_unix_ns;
    info.targets = counters.targets;
    info.captures_running = counters.captures_running;
    info.captures_limit_per_target = ENGINE_CAPTURES_PER_TARGET;
    info.captures_total = counters.captures_total;
    info.samples_total = counters.samples_total;
    info.drops_total =
        rpc_drops(rpc_call_arena(call), counters.drops, counters.drop_count, &info.n_drops_total);
    info.streams_running = counters.streams_running;
    fill_exports(server, rpc_call_arena(call), &info);
    fill_collect(call, &info);
    fill_usage(&info);
    fill_function_times(call, &info);
    if (tried && tried->has_rights)
        fill_rights(rpc_call_arena(call), tried->rights, &info);
    if (tried && tried->has_events)
        fill_events(rpc_call_arena(call), tried->counters, &info);
    rpc_reply(call, &info.base);
}

static void on_tried(struct rpc_job *job) {
    struct info_job *own = container_of(job, struct info_job, job);
    struct rpc_call *call = job->call;
    answer(call, own);
    free(own);
    rpc_call_drop(call);
}

void rpc_get_info(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__GetInfoRequest *request = (const void *)message;
    if (!request->include_rights && !request->include_events) {
        answer(call, NULL);
        return;
    }
    struct info_job *own = calloc(1, sizeof *own);
    if (!own) {
        rpc_finish(call, SONDE_OUT_OF_MEMORY, NULL);
        return;
    }
    own->has_rights = request->include_rights;
    own->has_events = request->include_events;
    own->job = (struct rpc_job){.call = call, .run = try_all, .on_done = on_tried};
    rpc_call_take(call);
    rpc_job_start(&own->job);
}

/* Splits the engine's NUL-separated argv into a list. */
static sonde_err split_arguments(struct sonde_arena *arena, struct sonde_slice joined,
                                 Sonde__V1__CommandLine *line) {
    size_t count = 1;
    for (size_t i = 0; i < joined.len; i++)
        count += joined.data[i] == 0;
    char *copy = sonde_arena_dup(arena, joined.data, joined.len);
    line->arguments = sonde_arena_alloc(arena, count * sizeof *line->arguments);
    if (!copy || !line->arguments)
        return SONDE_OUT_OF_MEMORY;
    for (const char *at = copy; line->n_arguments < count; at += strlen(at) + 1)
        line->arguments[line->n_arguments++] = (char *)rpc_text(arena, at);
    return SONDE_OK;
}

void rpc_get_command_line(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__GetCommandLineRequest *request = (const void *)message;
    struct rpc_server *server = rpc_call_server(call);
    Sonde__V1__CommandLine line = SONDE__V1__COMMAND_LINE__INIT;
    struct engine_selector selector;
    struct sonde_diag diag = {0};
    struct sonde_buf joined = {.limit = RPC_MAX_REQUEST_BYTES / 2};
    sonde_err err = rpc_selector(request->target, &selector, &diag);
    if (!err)
        err = engine_command_line(server->engine, &selector, &joined, &diag);
    if (!err)
        err = split_arguments(rpc_call_arena(call), sonde_buf_slice(&joined), &line);
    sonde_buf_finish(&joined);
    if (server->redact_command_line && line.n_arguments > 1)
        line.n_arguments = 1;
    if (err)
        rpc_finish(call, err, &diag);
    else
        rpc_reply(call, &line.base);
}
