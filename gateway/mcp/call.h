/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a tool's call: from a request to its answer, or to its end by the client. In the loop
 * only. */
#ifndef SONDE_GATEWAY_MCP_CALL_H
#define SONDE_GATEWAY_MCP_CALL_H

#include "gateway/mcp/message.h"
#include "gateway/mcp/tool.h"

/* Checks the arguments and starts the tool, which answers the request. Takes the message's
 * arguments and texts. */
void mcp_call_start(const struct request_context *context, const struct mcp_tool *tool,
                    struct mcp_message *message);
/* Ends the running call of the session with that id; nothing if there is none. */
void mcp_call_cancel(struct gateway *gateway, const char *session, const char *id);
/* The id of the client's session; "" = it has none. */
void mcp_session(const struct request_context *context, char session[MCP_SESSION_SIZE]);

#endif
