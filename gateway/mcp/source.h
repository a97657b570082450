/* SPDX-License-Identifier: Apache-2.0
 *
 * The profile that a tool is about: a saved capture, or a range of history. In the loop only. */
#ifndef SONDE_GATEWAY_MCP_SOURCE_H
#define SONDE_GATEWAY_MCP_SOURCE_H

#include "gateway/mcp/tool.h"
#include "proto/sonde/v1/history.pb-c.h"

/* Rows for the table of arguments. */
#define MCP_CAPTURE                                                       \
    {                                                                     \
        "capture", MCP_WHOLE, false, 1, INT64_MAX,                        \
            "number of a saved capture, from record or captures; or use " \
            "service for a range of history"                              \
    }
#define MCP_SELECTION                                                                            \
    {"service", MCP_STRING, false, 1, 255, "name of a recorded service, from the tool history"}, \
        {"from",                                                                                 \
         MCP_STRING,                                                                             \
         false,                                                                                  \
         1,                                                                                      \
         40,                                                                                     \
         "begin of the range: -1h, -30m, 2026-11-23T03:42:02Z or Unix seconds; default -1h"},    \
        {"until", MCP_STRING, false, 1, 40, "end of the range; default now"},                    \
        {"selector", MCP_STRING,                                                                 \
         false,      1,                                                                          \
         4096,       "condition on labels, for example host = 'web-2' AND version != '1.4'"},    \
    {                                                                                            \
        "event", MCP_STRING, false, 1, 40,                                                       \
            "what was recorded: on-cpu (default), off-cpu, mem-alloc, mem-inuse"                 \
    }

/* Whether the call selects a range of history. */
bool mcp_is_history(const struct mcp_call *call);
/* Reads the range; the last hour of everything by default. Texts live in call->arena. `prefix` is
 * "" or "base_". */
SONDE_MUST_USE sonde_err mcp_selection(struct mcp_call *call, const char *prefix,
                                       Sonde__V1__Selection *selection, struct sonde_diag *diag);
/* Refuses a call that names none of a capture, a range and, if the tool has that argument, a
 * target; or more than one. */
SONDE_MUST_USE sonde_err mcp_check_source(const struct mcp_call *call, struct sonde_diag *diag);
/* Asks for the profile of the capture or range as the rendering says. The call ends with it, unless
 * the caller sets call->on_message and call->then afterwards. */
SONDE_MUST_USE sonde_err mcp_ask_profile(struct mcp_call *call, Sonde__V1__Rendering *rendering,
                                         struct sonde_diag *diag);
/* For mcp_ask's `then` of an RPC of History: explains a missing store. */
void mcp_end_history(struct mcp_call *call, sonde_err err, const struct sonde_diag *diag);

#endif
