/* SPDX-License-Identifier: Apache-2.0
 *
 * heap: the state of a process's heap profile, and the functions whose memory it holds. */
#include "gateway/mcp/tool.h"

#include <string.h>

#define DEFAULT_ROWS 20

const char *mcp_heap_sentence(const Sonde__V1__HeapState *state) {
    return state->active      ? "heap profiling is on"
           : state->available ? "heap profiling is off, and can be turned on by `sonde heap on`"
                              : "heap profiling is not available";
}

static void put_since(struct sonde_buf *head, const Sonde__V1__HeapState *state) {
    if (!state->active)
        return;
    if (state->active_since_unix_ns) {
        sonde_buf_puts(head, " since ");
        mcp_put_time(head, state->active_since_unix_ns);
    }
    if (state->sample_bytes)
        sonde_buf_printf(head, "; a sample stands for %llu bytes on average",
                         (unsigned long long)state->sample_bytes);
    if (state->dropped)
        sonde_buf_printf(head, "; %llu samples did not fit and were dropped",
                         (unsigned long long)state->dropped);
    if (state->dumps)
        sonde_buf_printf(head, "; %u dumps are saved", state->dumps);
}

static void on_state(struct mcp_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__HeapState *state = (const void *)message;
    struct mcp_text *text = &call->text;
    call->step = state->active;
    sonde_buf_printf(&text->head, "State: %s", mcp_heap_sentence(state));
    put_since(&text->head, state);
    sonde_buf_puts(&text->head, ".\n");
    if (!state->note[0])
        return;
    mcp_text_put_name(text, state->note, MCP_LINE_BYTES);
    mcp_text_puts(text, "\n");
}

static void on_event(struct mcp_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_RESULT)
        sonde_buf_printf(&call->text.head, "%llu stacks hold memory.\n",
                         (unsigned long long)event->result->samples);
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK)
        mcp_text_add(&call->text, (const char *)event->chunk.data, event->chunk.len);
}

static void ask_table(struct mcp_call *call, sonde_err err, const struct sonde_diag *diag) {
    Sonde__V1__HeapSnapshotRequest request = SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct sonde_diag why = {0};
    uint64_t rows = DEFAULT_ROWS;
    if (!err && call->step)
        err = mcp_whole(call, "rows", &rows, &why);
    if (!err && call->step)
        err = mcp_string(call, "value", &request.sample_type, &why);
    if (err || !call->step) {
        mcp_end(call, err, diag && diag->text[0] ? diag : &why);
        return;
    }
    Sonde__V1__TargetSelector target = relay_selector(&call->target);
    rendering.format = SONDE__V1__FORMAT__TEXT_TOP;
    rendering.max_rows = (uint32_t)rows;
    request.target = &target;
    request.rendering = &rendering;
    mcp_ask(call, &client_heap_snapshot, &request.base, MCP_LONG_MS, on_event, NULL);
}

static sonde_err start(struct mcp_call *call, struct sonde_diag *diag) {
    Sonde__V1__HeapStatusRequest request = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    sonde_err err = mcp_read_target(call, diag);
    if (err)
        return err;
    Sonde__V1__TargetSelector target = relay_selector(&call->target);
    request.target = &target;
    mcp_ask(call, &client_heap_status, &request.base, MCP_SHORT_MS, on_state, ask_table);
    return SONDE_OK;
}

static const struct mcp_argument arguments[] = {
    {"target", MCP_STRING, true, 1, 255, "a pid or the name of a process"},
    {"value", MCP_STRING, false, 1, 40,
     "inuse_space (default): bytes in use; inuse_objects: how many objects; alloc_space and "
     "alloc_objects: all that was allocated, if the process's allocator counts it"},
    {"rows", MCP_WHOLE, false, 1, 100, "number of functions; default 20"},
};

const struct mcp_tool mcp_heap = {
    .name = "heap",
    .title = "Memory in use",
    .description =
        "Whether the heap of a process is profiled, and if it is, the functions that allocated "
        "what is in use. Otherwise the answer says what is missing. flat is what a function "
        "allocated itself, cum includes what it calls.",
    .arguments = arguments,
    .argument_count = sizeof arguments / sizeof arguments[0],
    .is_read_only = true,
    .start = start,
};
