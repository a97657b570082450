/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools of the Model Context Protocol. A tool is a row of a table (tools.c): its name, its
 * arguments, from which its JSON schema comes, and the function that starts it. A tool makes RPCs
 * one after the other and collects its answer in call->text. In the loop only. */
#ifndef SONDE_GATEWAY_MCP_TOOL_H
#define SONDE_GATEWAY_MCP_TOOL_H

#include "gateway/mcp/text.h"
#include "gateway/reply/relay.h"

#define MCP_MAX_FUNCTION 1024
#define MCP_MAX_SECONDS  50 /* most clients wait for an answer for 60 s */
#define MCP_NAME_BYTES   120
#define MCP_SESSION_SIZE 65
#define MCP_SHORT_MS     5000
#define MCP_LONG_MS      60000

enum mcp_type { MCP_STRING, MCP_WHOLE, MCP_FLAG };

/* low, high: bounds of a whole number's value, or of a string's length in bytes. */
struct mcp_argument {
    const char *name;
    enum mcp_type type;
    bool is_required;
    uint64_t low, high;
    const char *description;
};

struct mcp_call;

struct mcp_tool {
    const char *name, *title, *description;
    const char *if_unavailable; /* what to do if sonded is; NULL = ask why_no_data */
    const struct mcp_argument *arguments;
    size_t argument_count;
    size_t size;       /* of the call's state, which begins with the call; 0 = it has no more */
    bool is_read_only; /* it costs the target nothing */
    /* Reads the arguments, which have been checked against the rows, and makes the first RPC. */
    sonde_err (*start)(struct mcp_call *call, struct sonde_diag *diag);
    void (*finish)(struct mcp_call *call); /* frees what the state owns; NULL = nothing */
};

const struct mcp_tool *const *mcp_tools(size_t *count);
/* NULL if there is no such tool. */
const struct mcp_tool *mcp_tool_find(const char *name);

/* The rows of the table, by file. */
extern const struct mcp_tool mcp_targets, mcp_captures; /* tool_lists.c */
extern const struct mcp_tool mcp_record;                /* tool_record.c */
extern const struct mcp_tool mcp_top, mcp_calls;        /* tool_profiles.c */
extern const struct mcp_tool mcp_annotate;              /* tool_annotate.c */
extern const struct mcp_tool mcp_diff;                  /* tool_diff.c */
extern const struct mcp_tool mcp_history;               /* tool_history.c */
extern const struct mcp_tool mcp_threads;               /* tool_threads.c */
extern const struct mcp_tool mcp_heap;                  /* tool_heap.c */
extern const struct mcp_tool mcp_why;                   /* tool_why.c */

typedef void mcp_on_message(struct mcp_call *call, const ProtobufCMessage *message);
typedef void mcp_then(struct mcp_call *call, sonde_err err, const struct sonde_diag *diag);

struct mcp_call {
    struct relay relay;
    const struct mcp_tool *tool;
    struct query arguments;
    struct sonde_arena arena; /* texts of requests */
    struct mcp_text text;
    mcp_on_message *on_message;
    mcp_then *then;
    bool is_streaming, is_cancelled;
    struct target_choice target;
    int step; /* the tool's own */
    /* For cancelling: the session and the request's id as JSON. */
    char session[MCP_SESSION_SIZE];
    const char *id;
    struct mcp_call *next, **self; /* of gateway->tool_calls */
};

/* Makes an RPC. on_message gets each message. `then` runs when it has ended, and may make the next
 * RPC or end the call; NULL = mcp_end. */
void mcp_ask(struct mcp_call *call, const struct client_method *method,
             const ProtobufCMessage *request, uint32_t deadline_ms, mcp_on_message *on_message,
             mcp_then *then);
/* The same for an RPC that sends CaptureEvents: the result becomes the data, and its numbers a line
 * of the head. */
void mcp_ask_text(struct mcp_call *call, const struct client_method *method,
                  const ProtobufCMessage *request, uint32_t deadline_ms);
/* Answers with call->text, or with the error if there is one. */
void mcp_end(struct mcp_call *call, sonde_err err, const struct sonde_diag *diag);

/* Readers of arguments. An absent one leaves its value unchanged. */
SONDE_MUST_USE sonde_err mcp_whole(const struct mcp_call *call, const char *name, uint64_t *value,
                                   struct sonde_diag *diag);
/* A text in the arena; "" if it is absent. */
SONDE_MUST_USE sonde_err mcp_string(struct mcp_call *call, const char *name, char **text,
                                    struct sonde_diag *diag);
/* Reads the argument "target", which is a pid, a name, "@all" or "@all:NAME", into call->target.
 */
SONDE_MUST_USE sonde_err mcp_read_target(struct mcp_call *call, struct sonde_diag *diag);
bool mcp_is_said(const struct mcp_call *call, const char *name);

/* "heap profiling is on", or why it is not. */
const char *mcp_heap_sentence(const Sonde__V1__HeapState *state);

/* "2026-11-23T03:42:02Z" */
void mcp_put_time(struct sonde_buf *out, int64_t unix_ns);

#endif
