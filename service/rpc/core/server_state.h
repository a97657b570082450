/* SPDX-License-Identifier: Apache-2.0
 *
 * Internal to service/rpc: the server and its calls. */
#ifndef SONDE_SERVICE_RPC_CORE_SERVER_STATE_H
#define SONDE_SERVICE_RPC_CORE_SERVER_STATE_H

#include "api/os/secrets/token_file.h"
#include "api/text/line_limit.h"
#include "service/rpc/core/audit.h"
#include "service/rpc/core/call.h"
#include "service/rpc/core/listen.h"
#include "service/rpc/core/server_options.h"

#include <pthread.h>

#define RPC_MAX_CALLS 4096
#define RPC_CALLS_OF_CALLER \
    (RPC_MAX_CALLS / 2) /* the same address, token and, of a gateway, user */
#define RPC_MAX_REQUEST_BYTES (4u << 20)
#define RPC_MAX_DECODED_BYTES (32u << 20) /* a decoded request with all its submessages */

struct code_work;
struct rpc_history;
struct rpc_request;

struct rpc_server {
    struct engine *engine;
    struct loop *loop;
    grpc_server *core;
    struct token_file *tokens;       /* NULL = none */
    struct tls_files *tls;           /* NULL = plaintext */
    const char *const *client_names; /* of certificates; any if there are none */
    size_t client_name_count;
    struct saved_captures *saved;
    struct rpc_history *history;      /* NULL = none is kept */
    struct collect *collect;          /* NULL = Collect is refused */
    struct function_times *functions; /* NULL = none are listed */
    struct rpc_listeners listeners;
    const struct rpc_method *methods;
    size_t method_count;
    struct rpc_request *requests; /* one per method, and one for unknown methods */
    size_t request_count;
    struct rpc_call *calls;
    uint32_t call_count, streams_running, heap_deltas;
    struct store_stop *history_end; /* NULL = none */
    struct code_work *code;         /* annotate/get_code.c: the first one runs, the others wait */
    char *spool_dir;                /* for large results; NULL = none */
    pthread_t thread;
    bool thread_runs;
    bool stopping, core_is_down, loop_is_closed;
    bool token_everywhere, redact_command_line, separates_users;
    bool is_open; /* without a token file: strangers need nothing, or have shown a certificate */
    unsigned grace_ms;
    struct loop_message stop_message;
    struct loop_tag down_tag;
    struct loop_timer grace_timer;
    int64_t start_unix_ns;
    struct user_names *user_names; /* targets/user_names.h */
    void (*log)(void *context, const char *line);
    void *log_context;
    const atomic_bool *log_switch;
    void (*report)(const char *line); /* NULL = no audit */
    struct line_limit audit_limit;
    struct loop_timer audit_timer;
    rpc_export_info *export_info; /* NULL = nothing is sent from here */
    void *export_context;
};

/* An incoming request; it is moved into its call. */
struct rpc_arrival {
    grpc_call *call;
    grpc_metadata_array metadata;
    uint64_t deadline_ns; /* on the monotonic clock; 0 = none */
};

/* accept.c */
SONDE_MUST_USE sonde_err rpc_accept_register(struct rpc_server *server, struct sonde_diag *diag);
void rpc_accept_start(struct rpc_server *server);
void rpc_accept_finish(struct rpc_server *server);

/* call.c. method NULL: unknown. */
void rpc_call_begin(struct rpc_server *server, const struct rpc_method *method,
                    struct rpc_arrival *arrival);
void rpc_call_stop(struct rpc_call *call);

struct rpc_call *rpc_call_next(struct rpc_call *call);

/* On whose behalf a call is made. */
struct rpc_caller {
    bool is_limited; /* only to processes of the user `uid` */
    /* To these, and to the guests of any user, but only the user's own processes are sampled from
     * outside. Set whenever is_limited is. */
    bool is_limited_outside;
    bool asks_for_guest; /* the call is about a guest that may be another user's */
    uid_t uid;
    bool has_token;
    bool is_own_user;               /* sonded's own user or root, whom the kernel vouches for */
    struct sonde_token_match token; /* scopes 0 = unknown */
};

/* access.c: whether the client's certificate is listed, if the server has a list. Comes before
 * anything else of a call is looked at. */
SONDE_MUST_USE sonde_err rpc_access_certificate(const struct rpc_server *server, grpc_call *call,
                                                struct sonde_diag *diag);
/* What the client sent under this key, borrowed; data NULL = nothing. */
struct sonde_slice rpc_metadata_find(const grpc_metadata_array *metadata, const char *key);
/* Checks whether this call is allowed, and fills in its caller. */
SONDE_MUST_USE sonde_err rpc_access(const struct rpc_server *server, grpc_call *call,
                                    const grpc_metadata_array *metadata,
                                    const struct rpc_method *method, struct rpc_caller *caller,
                                    struct sonde_diag *diag);

/* caller.c: if the caller is limited, refuses what they may not do, and makes the request's
 * selector name exactly one process that they may see. A selector of several processes stays as it
 * is: rpc_call_owner limits it. */
SONDE_MUST_USE sonde_err rpc_caller_limit(struct rpc_caller *caller, struct engine *engine,
                                          const struct rpc_method *method,
                                          ProtobufCMessage *request, struct sonde_arena *arena,
                                          struct sonde_diag *diag);

/* decode.c: decodes with bounds; the message lives in the arena. */
SONDE_MUST_USE sonde_err rpc_decode(grpc_byte_buffer *payload,
                                    const ProtobufCMessageDescriptor *type,
                                    struct sonde_arena *arena, ProtobufCMessage **message,
                                    struct sonde_diag *diag);
SONDE_MUST_USE sonde_err rpc_decode_bytes(const uint8_t *bytes, size_t len,
                                          const ProtobufCMessageDescriptor *type,
                                          struct sonde_arena *arena, ProtobufCMessage **message,
                                          struct sonde_diag *diag);

/* serve.c: binds the addresses of the options and starts the server's thread. After an error, close
 * and finish the server all the same. */
SONDE_MUST_USE sonde_err rpc_serve(struct rpc_server *server,
                                   const struct rpc_server_options *options,
                                   struct sonde_diag *diag);
/* Refuses new calls, and returns when the last call has ended, which is soon after grace_ms at the
 * latest. */
void rpc_serve_stop(struct rpc_server *server, unsigned grace_ms);
/* Stops without grace, and closes the addresses. */
void rpc_serve_close(struct rpc_server *server);
/* Frees the rest, when nothing posts to the loop any more. */
void rpc_serve_finish(struct rpc_server *server);
/* A call was freed. */
void rpc_server_call_gone(struct rpc_server *server);

#endif
