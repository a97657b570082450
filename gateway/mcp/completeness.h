/* SPDX-License-Identifier: Apache-2.0
 *
 * How complete an answer is, in numbers. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_MCP_COMPLETENESS_H
#define SONDE_GATEWAY_MCP_COMPLETENESS_H

#include "gateway/mcp/text.h"
#include "proto/sonde/v1/profiler.pb-c.h"

/* A line of the head; `of` is what it is about ("Base"). NULL: nothing. */
void mcp_put_completeness(struct mcp_text *text, const char *of,
                          const Sonde__V1__Completeness *known);
/* The same of a capture or of an answer of history, and what it was saved as. */
void mcp_put_result(struct mcp_text *text, const Sonde__V1__ResultStart *result);

#endif
