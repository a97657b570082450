/* SPDX-License-Identifier: Apache-2.0
 *
 * top, and callers_and_callees: of a saved capture or a range of history. */
#include "gateway/mcp/source.h"

static sonde_err read_rendering(struct mcp_call *call, Sonde__V1__Rendering *rendering,
                                uint64_t rows, struct sonde_diag *diag) {
    char *function = NULL;
    struct sonde_slice sort = {"", 0};
    sonde_err err = mcp_whole(call, "rows", &rows, diag);
    if (!err)
        err = mcp_string(call, "function", &function, diag);
    if (err)
        return err;
    (void)query_get(&call->arguments, "sort", &sort);
    if (sort.len && !sonde_slice_equals(sort, "self") && !sonde_slice_equals(sort, "total"))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "sort: must be self or total");
    rendering->format = SONDE__V1__FORMAT__TEXT_TOP;
    rendering->max_rows = (uint32_t)rows;
    rendering->function = function;
    rendering->by_total = sonde_slice_equals(sort, "total");
    return SONDE_OK;
}

static sonde_err ask_profile(struct mcp_call *call, uint64_t rows, struct sonde_diag *diag) {
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    sonde_err err = mcp_check_source(call, diag);
    if (!err)
        err = read_rendering(call, &rendering, rows, diag);
    return err ? err : mcp_ask_profile(call, &rendering, diag);
}

/* ---- top ---- */

static sonde_err start_top(struct mcp_call *call, struct sonde_diag *diag) {
    return ask_profile(call, 20, diag);
}

static const struct mcp_argument top_arguments[] = {
    MCP_CAPTURE,
    MCP_SELECTION,
    {"rows", MCP_WHOLE, false, 1, 100, "number of functions; default 20"},
    {"sort", MCP_STRING, false, 1, 10,
     "self (default): what functions spend themselves; total: with what they call"},
};

const struct mcp_tool mcp_top = {
    .name = "top",
    .title = "Hottest functions",
    .description =
        "The functions with the largest values in a saved capture or in a range of history. flat "
        "is what a function spends itself, cum includes what it calls; both have their share in "
        "percent, and ±flat and ±cum are 95 % intervals in points if they are wide. Lines with # "
        "say how complete the profile is.",
    .arguments = top_arguments,
    .argument_count = sizeof top_arguments / sizeof top_arguments[0],
    .is_read_only = true,
    .start = start_top,
};

/* ---- callers_and_callees ---- */

static sonde_err start_calls(struct mcp_call *call, struct sonde_diag *diag) {
    return ask_profile(call, 10, diag);
}

static const struct mcp_argument calls_arguments[] = {
    {"function", MCP_STRING, true, 1, MCP_MAX_FUNCTION,
     "name as in the answer of top, shortened or not; * stands for any characters"},
    MCP_CAPTURE,
    MCP_SELECTION,
    {"rows", MCP_WHOLE, false, 1, 100, "number of callers, and of called functions; default 10"},
};

const struct mcp_tool mcp_calls = {
    .name = "callers_and_callees",
    .title = "Callers and callees",
    .description =
        "Who calls a function, what it calls, and the heaviest call paths to it, in a saved "
        "capture or in a range of history. Shares are of the function's total, with 95 % "
        "intervals in points.",
    .arguments = calls_arguments,
    .argument_count = sizeof calls_arguments / sizeof calls_arguments[0],
    .is_read_only = true,
    .start = start_calls,
};
