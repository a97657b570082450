/* SPDX-License-Identifier: Apache-2.0
 *
 * One JSON-RPC 2.0 message of the Model Context Protocol, as a client sends it. Thread safety: any
 * thread. */
#ifndef SONDE_GATEWAY_MCP_MESSAGE_H
#define SONDE_GATEWAY_MCP_MESSAGE_H

#include "api/bytes.h"
#include "gateway/request/query.h"

#define MCP_MAX_ID        256 /* bytes of an id as JSON */
#define MCP_MAX_ARGUMENTS 32

/* JSON-RPC's codes. */
enum mcp_code {
    MCP_OK = 0,
    MCP_PARSE_ERROR = -32700,
    MCP_INVALID_REQUEST = -32600,
    MCP_UNKNOWN_METHOD = -32601,
    MCP_INVALID_PARAMS = -32602,
};

struct mcp_message {
    struct sonde_arena arena;
    const char *id;     /* as JSON: 7, "a"; NULL = the client expects no answer */
    const char *method; /* NULL = the client's answer to a request, which nobody made */
    /* From `params`; NULL = absent or of another type. */
    const char *version;   /* protocolVersion */
    const char *name;      /* of a tool */
    const char *cancelled; /* requestId, as JSON */
    /* The tool's arguments as parameters of a query: numbers and booleans are texts, null is
     * absent. */
    struct query arguments;
};

/* Reads a body; *problem is a static sentence on an error. Finish the message in any case; an id
 * that was read is in it even then. Texts live until then. */
enum mcp_code mcp_message_read(struct sonde_slice body, struct mcp_message *message,
                               const char **problem);
void mcp_message_finish(struct mcp_message *message);

#endif
