/* SPDX-License-Identifier: Apache-2.0
 *
 * diff: what changed between two captures, or between two ranges of history. */
#include "gateway/families/history/history_query.h"
#include "gateway/mcp/source.h"

static void render(struct mcp_call *call, Sonde__V1__Rendering *rendering, uint64_t rows) {
    rendering->format = SONDE__V1__FORMAT__TEXT_TOP;
    rendering->max_rows = (uint32_t)rows;
    sonde_buf_puts(&call->text.head,
                   "Each function has a verdict: more and less are certain at 95 %, within noise "
                   "(~) and not enough samples (?) are not.\n");
}

static sonde_err ask_history(struct mcp_call *call, Sonde__V1__Rendering *rendering,
                             struct sonde_diag *diag) {
    Sonde__V1__QueryDiffRequest request = SONDE__V1__QUERY_DIFF_REQUEST__INIT;
    Sonde__V1__Selection selection = history_default_selection(), base;
    sonde_err err = mcp_selection(call, "", &selection, diag);
    base = selection;
    if (mcp_is_said(call, "base_from") && !mcp_is_said(call, "base_until"))
        base.until_unix_ns = selection.from_unix_ns;
    if (!err)
        err = mcp_selection(call, "base_", &base, diag);
    if (err)
        return err;
    request.base_selection = &base;
    request.selection = &selection;
    request.rendering = rendering;
    mcp_ask_text(call, &client_query_diff, &request.base, HISTORY_DEADLINE_MS);
    call->then = mcp_end_history;
    return SONDE_OK;
}

static sonde_err check(const struct mcp_call *call, struct sonde_diag *diag) {
    bool has_base = mcp_is_said(call, "base_from") || mcp_is_said(call, "base_until") ||
                    mcp_is_said(call, "base_service") || mcp_is_said(call, "base_selector");
    bool is_capture = mcp_is_said(call, "capture");
    if (is_capture != mcp_is_said(call, "base_capture") || (is_capture && has_base))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "captures are compared with captures: base_capture and capture");
    sonde_err err = mcp_check_source(call, diag);
    if (!err && !is_capture && !has_base)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "name what to compare with: base_from and base_until, base_service or "
                         "base_selector");
    return err;
}

static sonde_err start(struct mcp_call *call, struct sonde_diag *diag) {
    Sonde__V1__DiffCapturesRequest request = SONDE__V1__DIFF_CAPTURES_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    uint64_t rows = 20;
    sonde_err err = check(call, diag);
    if (!err)
        err = mcp_whole(call, "rows", &rows, diag);
    if (!err)
        err = mcp_whole(call, "base_capture", &request.base_id, diag);
    if (!err)
        err = mcp_whole(call, "capture", &request.new_id, diag);
    if (err)
        return err;
    render(call, &rendering, rows);
    if (!request.new_id)
        return ask_history(call, &rendering, diag);
    request.rendering = &rendering;
    sonde_buf_puts(&call->text.head, "New: ");
    mcp_ask_text(call, &client_diff_captures, &request.base, MCP_LONG_MS);
    return SONDE_OK;
}

static const struct mcp_argument arguments[] = {
    {"base_capture", MCP_WHOLE, false, 1, INT64_MAX, "number of the earlier capture"},
    {"capture", MCP_WHOLE, false, 1, INT64_MAX, "number of the later capture"},
    MCP_SELECTION,
    {"base_from", MCP_STRING, false, 1, 40, "begin of the range of history to compare with"},
    {"base_until", MCP_STRING, false, 1, 40,
     "end of that range; default: where the other range begins"},
    {"base_service", MCP_STRING, false, 1, 255, "service to compare with; default: the same"},
    {"base_selector", MCP_STRING, false, 1, 4096,
     "labels to compare with; default: the same condition"},
    {"rows", MCP_WHOLE, false, 1, 100, "number of functions; default 20"},
};

const struct mcp_tool mcp_diff = {
    .name = "diff",
    .title = "Difference with verdicts",
    .description =
        "What changed between two saved captures (base_capture, capture) or two ranges of history "
        "(service, from, until against base_from, base_until, ...), by function, with 95 % "
        "intervals and a verdict for each. Do not report a change whose verdict is within noise "
        "or not enough samples as a change: record for longer instead.",
    .arguments = arguments,
    .argument_count = sizeof arguments / sizeof arguments[0],
    .is_read_only = true,
    .start = start,
};
