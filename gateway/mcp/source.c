/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/mcp/source.h"

#include "gateway/families/history/history_query.h"
#include "gateway/mcp/arguments.h"

bool mcp_is_history(const struct mcp_call *call) {
    return mcp_is_said(call, "service") || mcp_is_said(call, "selector") ||
           mcp_is_said(call, "from") || mcp_is_said(call, "until") || mcp_is_said(call, "event");
}

sonde_err mcp_selection(struct mcp_call *call, const char *prefix, Sonde__V1__Selection *selection,
                        struct sonde_diag *diag) {
    return history_read_selection(&call->arguments, prefix, &call->arena, selection, diag);
}

sonde_err mcp_check_source(const struct mcp_call *call, struct sonde_diag *diag) {
    int said = mcp_is_said(call, "capture") + mcp_is_said(call, "target") + mcp_is_history(call);
    bool has_target = mcp_argument_find(call->tool, sonde_slice_of("target")) != NULL;
    if (said > 1)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "capture selects a saved capture%s and the others a range of history: "
                          "leave one out",
                          has_target ? ", target a process" : "");
    if (said == 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "name a capture (the tools record and captures)%s or a service (the tool "
                          "history)",
                          has_target ? ", a target" : "");
    return SONDE_OK;
}

static sonde_err ask_history(struct mcp_call *call, Sonde__V1__Rendering *rendering,
                             struct sonde_diag *diag) {
    Sonde__V1__QueryProfileRequest request = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    Sonde__V1__Selection selection = history_default_selection();
    sonde_err err = mcp_selection(call, "", &selection, diag);
    if (err)
        return err;
    request.selection = &selection;
    request.rendering = rendering;
    mcp_ask_text(call, &client_query_profile, &request.base, HISTORY_DEADLINE_MS);
    call->then = mcp_end_history;
    return SONDE_OK;
}

sonde_err mcp_ask_profile(struct mcp_call *call, Sonde__V1__Rendering *rendering,
                          struct sonde_diag *diag) {
    Sonde__V1__GetCaptureRequest request = SONDE__V1__GET_CAPTURE_REQUEST__INIT;
    if (mcp_is_history(call))
        return ask_history(call, rendering, diag);
    request.rendering = rendering;
    sonde_err err = mcp_whole(call, "capture", &request.id, diag);
    if (!err)
        mcp_ask_text(call, &client_get_capture, &request.base, MCP_LONG_MS);
    return err;
}

void mcp_end_history(struct mcp_call *call, sonde_err err, const struct sonde_diag *diag) {
    if (err)
        err = history_explain(err, &diag);
    mcp_end(call, err, diag);
}
