/* SPDX-License-Identifier: Apache-2.0
 *
 * The gRPC service: sonde.v1.Profiler over an engine, sonde.v1.History over a store,
 * grpc.health.v1.Health and server reflection.
 *
 * One thread runs everything (loop.h); slow work runs on workers. Addresses are `unix:PATH` and
 * `HOST:PORT` (port 0 = the kernel chooses).
 *
 * Access control: unix sockets (guarded by their permissions) and loopback accept the service's own
 * user and root. Other users of the machine need a token. Other addresses require a token, a client
 * certificate, or the explicit `insecure`. A server with a token file checks every token it
 * receives, on any address, so that a gateway can pass on the tokens of its clients.
 *
 * Life: the engine must outlive the server. Thread safety: one thread at a time per server. */
#ifndef SONDE_SERVICE_RPC_CORE_SERVER_H
#define SONDE_SERVICE_RPC_CORE_SERVER_H

#include "api/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct collect;
struct engine;
struct function_times;
struct history_namer;
struct rpc_server;
struct store;

/* What the recorder of this service knows about itself. */
struct rpc_recorder_state {
    uint32_t targets;      /* processes that are being recorded */
    uint64_t lost_windows; /* that could not be stored */
    char trouble[256];     /* why nothing is stored at the moment; "" = all is well */
};
typedef void rpc_recorder_info(void *context, struct rpc_recorder_state *state);

/* A receiver of recorded profiles. Texts that are pointers are static. */
#define RPC_MAX_EXPORTS       2
#define RPC_MAX_EXPORT_CAUSES 8
struct rpc_export_state {
    const char *destination; /* "otlp" */
    char receiver[320];
    uint64_t sent, retries, queue_bytes;
    struct {
        const char *cause;
        uint64_t count;
    } lost[RPC_MAX_EXPORT_CAUSES];
    size_t lost_count;
    char trouble[256]; /* why nothing is sent at the moment; "" = all is well */
};
/* Returns the number of receivers. */
typedef size_t rpc_export_info(void *context, struct rpc_export_state states[RPC_MAX_EXPORTS]);

struct rpc_server_options {
    struct engine *engine; /* NULL: Profiler is not served */
    const char *const *addresses;
    size_t address_count; /* 1..16 */
    /* Lines `TOKEN` or `TOKEN read` or `TOKEN read,control`, '#' comments; not readable by others.
     * Without a scope a token may do everything. read: view and capture; control: also start and
     * stop sessions. */
    const char *token_file;
    bool token_everywhere; /* ask for a token on unix sockets and loopback too */
    /* PEM. TLS on every TCP address if cert_file is set; with client_ca_file, clients need a
     * certificate that it signed. These files and token_file are read again when they change:
     * connections and calls that begin later use the new contents. */
    const char *cert_file, *key_file, *client_ca_file;
    /* With client_ca_file: only certificates with one of these common or DNS names. They must
     * outlive the server. */
    const char *const *client_names;
    size_t client_name_count; /* 0 = any name */
    bool insecure;            /* allow other addresses than loopback without token or certificate */
    bool redact_command_line; /* GetCommandLine returns only argument 0 */
    bool separates_users;     /* calls for another user reach only that user's processes */
    /* Where captures are saved (NULL = nowhere), how many (0 = 64) and how many bytes (0 = 256
     * MiB). See captures/saved_captures.h. */
    const char *captures_dir;
    uint32_t captures;
    uint64_t capture_bytes;
    /* What the History service reads and writes; NULL = its methods answer SONDE_NOT_AVAILABLE. It
     * must outlive the server. */
    struct store *history;
    /* Stopped when running calls are cancelled; the store's `end` (store.h), or NULL. */
    struct store_stop *history_end;
    const struct history_namer *namer; /* history/names.h; NULL = the engine */
    rpc_recorder_info *recorder_info;  /* any thread; NULL = nothing is recorded here */
    void *recorder_context;
    rpc_export_info *export_info; /* any thread; NULL = nothing is sent from here */
    void *export_context;
    struct collect *collect;          /* Collect; it must outlive the server. NULL = refused */
    struct function_times *functions; /* for GetInfo; it must outlive the server. NULL = none */
    /* Called on the server's thread with one line, without newline, per finished call; may be
     * NULL. */
    void (*log)(void *context, const char *line);
    void *log_context;
    const atomic_bool *log_switch; /* log only while it is true; NULL = always */
    const char
        *unix_group; /* that may use unix sockets, too; NULL = nobody but their mode's users */
    /* Called with one line, without newline: the audit (core/audit.h), and what became of files
     * that have changed. Any thread; may be NULL. */
    void (*report)(const char *line);
};

/* Binds every address and starts to serve. SONDE_INVALID_ARGUMENT (an address, a file),
 * SONDE_PERMISSION_DENIED (an address that others can reach, without token, certificate or
 * `insecure`), SONDE_NOT_AVAILABLE (another process serves that unix socket), SONDE_IO. */
SONDE_MUST_USE sonde_err rpc_server_create(const struct rpc_server_options *options,
                                           struct rpc_server **server, struct sonde_diag *diag);

/* The bound address, in the form it was given: "unix:/run/x.sock", "127.0.0.1:41234". NULL past the
 * last. Valid until rpc_server_destroy. */
const char *rpc_server_address(const struct rpc_server *server, size_t index);

/* Refuses new calls, ends endless streams at once (UNAVAILABLE) and cancels the other calls after
 * grace_ms. Returns when no call is left and the sockets have been removed. */
void rpc_server_stop(struct rpc_server *server, unsigned grace_ms);

/* Stops without grace if rpc_server_stop has not been called. NULL is fine. */
void rpc_server_destroy(struct rpc_server *server);

#endif
