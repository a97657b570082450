/* SPDX-License-Identifier: Apache-2.0
 *
 * record: takes a capture and saves it. */
#include "api/profile/event.h"
#include "gateway/mcp/tool.h"
#include "gateway/reply/profile_reply.h"

#define DEFAULT_SECONDS 5
#define DEFAULT_HZ      99
#define ROWS            15
#define ALLOCS          "allocs"
#define MAX_NOTE        200

/* "off-cpu" is a mode, "page-faults" an event. */
static sonde_err read_what(struct sonde_slice what, Sonde__V1__CaptureCpuRequest *request,
                           struct sonde_diag *diag) {
    char quoted[QUERY_QUOTED_SIZE];
    size_t mode = sonde_event_find_mode(what);
    enum sonde_event_id event = sonde_event_find_counted(what);
    if (mode == SONDE_MODES && event == SONDE_EVENTS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "what: \"%.60s\" is not one of cpu, wall, off-cpu, " ALLOCS
                          ", " SONDE_COUNTED_NAMES,
                          query_quote(what, quoted));
    if (mode < SONDE_MODES)
        request->mode = (Sonde__V1__CpuMode)mode;
    else
        request->event = (char *)(uintptr_t)sonde_events[event].name;
    return SONDE_OK;
}

static void end_all(struct mcp_call *call, sonde_err err, const struct sonde_diag *diag) {
    sonde_buf_puts(&call->text.tail,
                   "Next: callers_and_callees with this capture and a process's name as the "
                   "function; top for the functions of all processes; record with one process.\n");
    mcp_end(call, err, diag);
}

static void end(struct mcp_call *call, sonde_err err, const struct sonde_diag *diag) {
    sonde_buf_puts(&call->text.tail,
                   "Next: callers_and_callees with this capture and a function's name; top with "
                   "sort=total; diff with an earlier capture as base_capture.\n");
    mcp_end(call, err, diag);
}

static void ask(struct mcp_call *call, const struct client_method *method,
                const ProtobufCMessage *request, uint64_t seconds) {
    mcp_ask_text(call, method, request, (uint32_t)seconds * 1000 + PROFILE_GRACE_MS);
    call->then = call->target.all ? end_all : end;
}

static sonde_err ask_allocs(struct mcp_call *call, Sonde__V1__TargetSelector *target,
                            Sonde__V1__Rendering *rendering, uint64_t seconds, char *note) {
    Sonde__V1__CaptureAllocsRequest request = SONDE__V1__CAPTURE_ALLOCS_REQUEST__INIT;
    request.target = target;
    request.rendering = rendering;
    request.duration_ms = (uint32_t)seconds * 1000;
    request.keep = request.no_progress = true;
    request.note = note;
    ask(call, &client_capture_allocs, &request.base, seconds);
    return SONDE_OK;
}

static sonde_err ask_cpu(struct mcp_call *call, Sonde__V1__CaptureCpuRequest *request,
                         uint64_t seconds, struct sonde_diag *diag) {
    uint64_t frequency = DEFAULT_HZ;
    sonde_err err = mcp_whole(call, "frequency", &frequency, diag);
    if (err)
        return err;
    request->duration_ms = (uint32_t)seconds * 1000;
    request->frequency_hz = (uint32_t)frequency;
    request->keep = request->no_progress = true;
    ask(call, &client_capture_cpu, &request->base, seconds);
    return SONDE_OK;
}

static sonde_err start(struct mcp_call *call, struct sonde_diag *diag) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct sonde_slice what = {"cpu", 3};
    uint64_t seconds = DEFAULT_SECONDS;
    char *note = NULL;
    rendering.format = SONDE__V1__FORMAT__TEXT_TOP;
    rendering.max_rows = ROWS;
    sonde_err err = mcp_read_target(call, diag);
    if (!err)
        err = mcp_whole(call, "seconds", &seconds, diag);
    if (!err)
        err = mcp_string(call, "note", &note, diag);
    if (err)
        return err;
    Sonde__V1__TargetSelector target = relay_selector(&call->target);
    (void)query_get(&call->arguments, "what", &what);
    if (sonde_slice_equals(what, ALLOCS))
        return ask_allocs(call, &target, &rendering, seconds, note);
    request.target = &target;
    request.rendering = &rendering;
    request.note = note;
    rendering.function = (char *)(uintptr_t)(target.all ? "all" : "");
    err = read_what(what, &request, diag);
    return err ? err : ask_cpu(call, &request, seconds, diag);
}

static const struct mcp_argument arguments[] = {
    {"target", MCP_STRING, true, 1, 255,
     "a pid, a process name, @all for the whole machine, or @all:NAME for all processes of a name"},
    {"seconds", MCP_WHOLE, false, 1, MCP_MAX_SECONDS, "duration; default 5"},
    {"what", MCP_STRING, false, 1, 40,
     "cpu (default): CPU time; off-cpu: time that threads wait; wall: both; allocs: memory "
     "allocated, if the process has the guest; growth: resident memory that came; or an event to "
     "count, such as page-faults, context-switches, cache-misses"},
    {"frequency", MCP_WHOLE, false, 1, 10000, "samples per second and thread; default 99"},
    {"note", MCP_STRING, false, 1, MAX_NOTE, "a comment, shown in the list of captures"},
};

const struct mcp_tool mcp_record = {
    .name = "record",
    .title = "Record a profile",
    .description =
        "Samples a running process, or all, for some seconds, saves the result as a capture and "
        "returns its number and its hottest functions; of several processes their shares. The "
        "processes need no preparation and are not stopped.",
    .arguments = arguments,
    .argument_count = sizeof arguments / sizeof arguments[0],
    .start = start,
};
