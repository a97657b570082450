/* SPDX-License-Identifier: Apache-2.0
 *
 * why_no_data: what is missing on this machine, of a process and of history, and what would mend
 * it. A question that fails is one line of the answer, and the others are asked all the same,
 * unless sonded cannot be reached or does not accept the token. */
#include "gateway/mcp/tool.h"
#include "proto/sonde/v1/history.pb-c.h"

#include <stdio.h>
#include <string.h>

/* "before: text\n"; nothing if the text is empty. */
static void put_line(struct mcp_text *text, const char *before, const char *sentence) {
    if (!*sentence)
        return;
    mcp_text_puts(text, before);
    mcp_text_put_name(text, sentence, MCP_LINE_BYTES - 60);
    mcp_text_puts(text, "\n");
}

static void put_failure(struct mcp_call *call, const char *what, sonde_err err,
                        const struct sonde_diag *diag) {
    if (!err)
        return;
    mcp_text_puts(&call->text, what);
    put_line(&call->text, ": ", sonde_diag_text(diag, err));
}

/* ---- History ---- */

static void on_history(struct mcp_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__HistoryInfo *info = (const void *)message;
    struct mcp_text *text = &call->text;
    char line[160];
    snprintf(line, sizeof line,
             "history: %llu windows, %llu samples, %llu dropped, %llu windows lost; %u processes "
             "are being recorded\n",
             (unsigned long long)info->windows, (unsigned long long)info->samples,
             (unsigned long long)info->dropped, (unsigned long long)info->lost_windows,
             info->recording_targets);
    mcp_text_puts(text, line);
    put_line(text, "history: nothing is stored: ", info->trouble);
    put_line(text, "history: processes without the guest are not recorded: ", info->refusal);
}

static void end_history(struct mcp_call *call, sonde_err err, const struct sonde_diag *diag) {
    if (err == SONDE_UNIMPLEMENTED || err == SONDE_NOT_AVAILABLE)
        mcp_text_puts(&call->text,
                      "history: this service records none; start sonded with --history\n");
    else
        put_failure(call, "history", err, diag);
    mcp_end(call, SONDE_OK, NULL);
}

static void ask_history(struct mcp_call *call, sonde_err err, const struct sonde_diag *diag) {
    Sonde__V1__GetHistoryInfoRequest request = SONDE__V1__GET_HISTORY_INFO_REQUEST__INIT;
    put_failure(call, "memory", err, diag);
    mcp_ask(call, &client_get_history_info, &request.base, MCP_SHORT_MS, on_history, end_history);
}

/* ---- The process ---- */

static void on_heap(struct mcp_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__HeapState *state = (const void *)message;
    put_line(&call->text, "memory: ", mcp_heap_sentence(state));
    put_line(&call->text, "memory: ", state->note);
}

static void ask_heap(struct mcp_call *call, sonde_err err, const struct sonde_diag *diag) {
    Sonde__V1__HeapStatusRequest request = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    put_failure(call, "processes", err, diag);
    if (err || !path_is_said(&call->target) || call->target.all || call->step == 0) {
        ask_history(call, SONDE_OK, NULL);
        return;
    }
    Sonde__V1__TargetSelector target = relay_selector(&call->target);
    request.target = &target;
    mcp_ask(call, &client_heap_status, &request.base, MCP_SHORT_MS, on_heap, ask_history);
}

static bool is_meant(const struct mcp_call *call, const Sonde__V1__Target *target) {
    return call->target.pid ? target->pid == call->target.pid
                            : strcmp(target->name, call->target.name) == 0;
}

static void put_target(struct mcp_text *text, const Sonde__V1__Target *target) {
    char line[160];
    snprintf(line, sizeof line, "process: pid %d, %.1f s of CPU time since its start, %s\n",
             target->pid, (double)target->cpu_ns / 1e9,
             target->unattached ? "without the guest: it has profiles of CPU time, waits and "
                                  "events from outside"
                                : "with the guest");
    mcp_text_puts(text, line);
    put_line(text, "process: cannot be sampled: ", target->unavailable);
    put_line(text, "process: functions without names: ", target->advice);
    put_line(text, "process: clock: ", target->clock_note);
}

static void on_targets(struct mcp_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__ListTargetsResponse *list = (const void *)message;
    for (size_t i = 0; i < list->n_targets; i++)
        if (is_meant(call, list->targets[i])) {
            call->step++;
            put_target(&call->text, list->targets[i]);
        }
    if (call->step == 0)
        mcp_text_puts(&call->text,
                      "process: none has that pid or name; the tool targets lists them\n");
}

static void ask_targets(struct mcp_call *call, sonde_err err, const struct sonde_diag *diag) {
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    if (err == SONDE_UNAVAILABLE || err == SONDE_UNAUTHENTICATED) {
        mcp_end(call, err, diag);
        return;
    }
    put_failure(call, "service", err, diag);
    if (!call->target.pid && !call->target.name[0]) {
        ask_heap(call, SONDE_OK, NULL);
        return;
    }
    request.include_unattached = request.include_advice = true;
    mcp_ask(call, &client_list_targets, &request.base, MCP_LONG_MS, on_targets, ask_heap);
}

/* ---- The machine ---- */

static void put_right(struct mcp_text *text, const Sonde__V1__Right *right) {
    mcp_text_puts(text, "right: ");
    mcp_text_put_name(text, right->name, 80);
    mcp_text_puts(text, right->is_granted ? ": granted\n" : ": refused\n");
    put_line(text, "    lost: ", right->lost);
    put_line(text, "    the kernel said: ", right->reason);
    put_line(text, "    grant it with: ", right->command);
}

static void put_event(struct mcp_text *text, const Sonde__V1__Event *event) {
    if (event->is_available)
        return;
    mcp_text_puts(text, "event: ");
    mcp_text_put_name(text, event->name, 40);
    put_line(text, " is not counted: ", event->reason);
}

static void on_info(struct mcp_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__Info *info = (const void *)message;
    struct mcp_text *text = &call->text;
    sonde_buf_printf(&text->head,
                     "%u processes have the guest, %u captures are running; since its start the "
                     "service took %llu samples.\n",
                     info->targets, info->captures_running,
                     (unsigned long long)info->samples_total);
    for (size_t i = 0; i < info->n_drops_total; i++) {
        char line[60];
        snprintf(line, sizeof line, "dropped samples: %llu ",
                 (unsigned long long)info->drops_total[i]->count);
        put_line(text, line, info->drops_total[i]->cause);
    }
    for (size_t i = 0; i < info->n_rights; i++)
        put_right(text, info->rights[i]);
    for (size_t i = 0; i < info->n_events; i++)
        put_event(text, info->events[i]);
}

static sonde_err start(struct mcp_call *call, struct sonde_diag *diag) {
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    sonde_err err = mcp_read_target(call, diag);
    if (err)
        return err;
    request.include_rights = request.include_events = true;
    mcp_ask(call, &client_get_info, &request.base, MCP_LONG_MS, on_info, ask_targets);
    return SONDE_OK;
}

static const struct mcp_argument arguments[] = {
    {"target", MCP_STRING, false, 1, 255, "a pid or the name of a process"},
};

const struct mcp_tool mcp_why = {
    .name = "why_no_data",
    .title = "What is missing, and why",
    .description =
        "Why profiles are empty, incomplete or without names: rights that the kernel refuses, "
        "events that this machine does not count, the state of a process and of its memory "
        "profile, and whether history is recorded; with what would mend it.",
    .arguments = arguments,
    .argument_count = sizeof arguments / sizeof arguments[0],
    .is_read_only = true,
    .if_unavailable = "sonded cannot be reached: start it, or start `sonde mcp` again.\n",
    .start = start,
};
