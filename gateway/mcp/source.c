/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/mcp/source.h"

#include "gateway/families/history/history_query.h"

bool mcp_is_history(const struct mcp_call *call) {
    return mcp_is_said(call, "service") || mcp_is_said(call, "selector") ||
           mcp_is_said(call, "from") || mcp_is_said(call, "until") || mcp_is_said(call, "event");
}

sonde_err mcp_selection(struct mcp_call *call, const char *prefix, Sonde__V1__Selection *selection,
                        struct sonde_diag *diag) {
    return history_read_selection(&call->arguments, prefix, &call->arena, selection, diag);
}

sonde_err mcp_check_source(const struct mcp_call *call, struct sonde_diag *diag) {
    bool is_capture = mcp_is_said(call, "capture"), is_history = mcp_is_history(call);
    if (is_capture && is_history)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "capture selects a saved capture and the others a range of history: "
                          "leave one out");
    if (!is_capture && !is_history)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "name a capture (the tools record and captures) or a service (the tool "
                          "history)");
    return SONDE_OK;
}

void mcp_end_history(struct mcp_call *call, sonde_err err, const struct sonde_diag *diag) {
    if (err)
        err = history_explain(err, &diag);
    mcp_end(call, err, diag);
}
