/* SPDX-License-Identifier: Apache-2.0
 *
 * targets: processes that can be profiled; captures: what was saved. */
#include "gateway/mcp/tool.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_ROWS 30
#define WHY_BYTES    200

/* ---- targets ---- */

static bool is_wanted(const Sonde__V1__Target *target, const char *name) {
    return !*name || strcasestr(target->name, name) || strcasestr(target->executable, name);
}

static void put_target(struct mcp_text *text, const Sonde__V1__Target *target) {
    char line[80];
    snprintf(line, sizeof line, "%8d %11.1f s  %-5s  ", target->pid, (double)target->cpu_ns / 1e9,
             target->unattached ? "no" : "yes");
    mcp_text_puts(text, line);
    mcp_text_put_name(text, target->user, 32);
    mcp_text_puts(text, "  ");
    mcp_text_put_name(text, target->name, MCP_NAME_BYTES);
    if (target->executable[0] && strcmp(target->executable, target->name) != 0) {
        mcp_text_puts(text, " (");
        mcp_text_put_name(text, target->executable, MCP_NAME_BYTES);
        mcp_text_puts(text, ")");
    }
    if (target->unavailable[0]) {
        mcp_text_puts(text, ": cannot be sampled: ");
        mcp_text_put_name(text, target->unavailable, WHY_BYTES);
    }
    mcp_text_puts(text, "\n");
}

static void on_targets(struct mcp_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__ListTargetsResponse *list = (const void *)message;
    uint64_t most = DEFAULT_ROWS;
    size_t count = 0;
    char *name = NULL;
    if (mcp_whole(call, "rows", &most, NULL) || mcp_string(call, "name", &name, NULL))
        return;
    mcp_text_puts(&call->text, "     PID     CPU time  guest  user  name (executable)\n");
    for (size_t i = 0; i < list->n_targets; i++) {
        if (!is_wanted(list->targets[i], name))
            continue;
        if (count++ < most)
            put_target(&call->text, list->targets[i]);
    }
    sonde_buf_printf(
        &call->text.head,
        "%zu of %zu processes, the most CPU time since their start first. To see who uses "
        "the CPU now, use record with target @all.\n",
        count < most ? count : (size_t)most, count);
}

static sonde_err start_targets(struct mcp_call *call, struct sonde_diag *diag) {
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    request.include_unattached = true;
    mcp_ask(call, &client_list_targets, &request.base, MCP_LONG_MS, on_targets, NULL);
    return SONDE_OK;
}

static const struct mcp_argument targets_arguments[] = {
    {"name", MCP_STRING, false, 1, 255, "only processes whose name contains this"},
    {"rows", MCP_WHOLE, false, 1, 200, "number of processes; default 30"},
};

const struct mcp_tool mcp_targets = {
    .name = "targets",
    .title = "Processes",
    .description =
        "The processes of this machine that can be profiled, with pid, CPU time since their start "
        "and user; for others, why they cannot. Processes with the guest (Sonde's library) also "
        "have profiles of memory.",
    .arguments = targets_arguments,
    .argument_count = sizeof targets_arguments / sizeof targets_arguments[0],
    .is_read_only = true,
    .start = start_targets,
};

/* ---- captures ---- */

static void put_capture(struct mcp_text *text, const Sonde__V1__Capture *capture) {
    char line[120];
    struct sonde_buf time = {0};
    mcp_put_time(&time, capture->start_unix_ns);
    snprintf(line, sizeof line, "%7llu  %s %7.1f s %8llu samples  pid %-8d",
             (unsigned long long)capture->id, sonde_buf_slice(&time).data,
             capture->duration_ms / 1000.0, (unsigned long long)capture->samples, capture->pid);
    mcp_text_puts(text, line);
    sonde_buf_finish(&time);
    mcp_text_put_name(text, capture->kind, 20);
    mcp_text_puts(text, "  ");
    mcp_text_put_name(text, capture->target, MCP_NAME_BYTES);
    if (capture->note[0]) {
        mcp_text_puts(text, ": ");
        mcp_text_put_name(text, capture->note, MCP_NAME_BYTES);
    }
    mcp_text_puts(text, "\n");
}

static void on_captures(struct mcp_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__ListCapturesResponse *list = (const void *)message;
    uint64_t most = DEFAULT_ROWS;
    if (mcp_whole(call, "rows", &most, NULL))
        return;
    for (size_t i = 0; i < list->n_captures && i < most; i++)
        put_capture(&call->text, list->captures[i]);
    sonde_buf_printf(&call->text.head, "%zu of %zu saved captures, newest first.\n",
                     list->n_captures < most ? list->n_captures : (size_t)most, list->n_captures);
}

static sonde_err start_captures(struct mcp_call *call, struct sonde_diag *diag) {
    Sonde__V1__ListCapturesRequest request = SONDE__V1__LIST_CAPTURES_REQUEST__INIT;
    sonde_err err = mcp_read_target(call, diag);
    if (err)
        return err;
    Sonde__V1__TargetSelector target = relay_selector(&call->target);
    request.target = &target;
    mcp_ask(call, &client_list_captures, &request.base, MCP_SHORT_MS, on_captures, NULL);
    return SONDE_OK;
}

static const struct mcp_argument captures_arguments[] = {
    {"target", MCP_STRING, false, 1, 255, "only captures of this pid or name"},
    {"rows", MCP_WHOLE, false, 1, 200, "number of captures; default 30"},
};

const struct mcp_tool mcp_captures = {
    .name = "captures",
    .title = "Saved captures",
    .description = "The saved captures, newest first, for top, callers_and_callees and diff.",
    .arguments = captures_arguments,
    .argument_count = sizeof captures_arguments / sizeof captures_arguments[0],
    .is_read_only = true,
    .start = start_captures,
};
