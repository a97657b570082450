/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of tools: their JSON schemas, and the check of a call's. Thread safety: any thread.
 */
#ifndef SONDE_GATEWAY_MCP_ARGUMENTS_H
#define SONDE_GATEWAY_MCP_ARGUMENTS_H

#include "gateway/mcp/tool.h"

/* NULL if the tool has no such argument. */
const struct mcp_argument *mcp_argument_find(const struct mcp_tool *tool, struct sonde_slice name);
/* SONDE_INVALID_ARGUMENT: an argument is unknown, missing, or not of its type and bounds. */
SONDE_MUST_USE sonde_err mcp_arguments_check(const struct mcp_tool *tool,
                                             const struct query *arguments,
                                             struct sonde_diag *diag);
/* The tool as an element of the answer to tools/list. */
void mcp_tool_write(const struct mcp_tool *tool, struct sonde_buf *out);

#endif
