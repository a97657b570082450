/* SPDX-License-Identifier: Apache-2.0
 *
 * threads: what all threads of a process do at this moment. */
#include "gateway/mcp/tool.h"

#define DEPTH       32
#define MAX_THREADS 1000

static void on_backtraces(struct mcp_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__Backtraces *backtraces = (const void *)message;
    sonde_buf_printf(&call->text.head,
                     "%zu threads, %u of them without a stack; the longest stop of one was %.0f "
                     "microseconds. Threads with the same stack are together.\n",
                     backtraces->n_threads, backtraces->not_walked,
                     (double)backtraces->longest_stop_ns / 1000);
    if (backtraces->note[0]) {
        mcp_text_put_name(&call->text, backtraces->note, MCP_LINE_BYTES);
        mcp_text_puts(&call->text, "\n");
    }
    mcp_text_puts(&call->text, backtraces->text);
}

static sonde_err start(struct mcp_call *call, struct sonde_diag *diag) {
    Sonde__V1__GetBacktracesRequest request = SONDE__V1__GET_BACKTRACES_REQUEST__INIT;
    sonde_err err = mcp_read_target(call, diag);
    if (err)
        return err;
    Sonde__V1__TargetSelector target = relay_selector(&call->target);
    request.target = &target;
    request.max_depth = DEPTH;
    request.max_threads = MAX_THREADS;
    request.as_text = request.readable_names = true;
    mcp_ask(call, &client_get_backtraces, &request.base, MCP_LONG_MS, on_backtraces, NULL);
    return SONDE_OK;
}

static const struct mcp_argument arguments[] = {
    {"target", MCP_STRING, true, 1, 255, "a pid or the name of a process"},
};

const struct mcp_tool mcp_threads = {
    .name = "threads",
    .title = "Stacks of all threads",
    .description =
        "The stacks of all threads of a process at this moment, with their states, the locks that "
        "they wait for and who holds these: for hangs and deadlocks. Threads that wait are not "
        "stopped, others for some microseconds.",
    .arguments = arguments,
    .argument_count = sizeof arguments / sizeof arguments[0],
    .start = start,
};
