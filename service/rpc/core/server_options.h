/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of a server (service/rpc/server.h), and the facts that its program reports. */
#ifndef SONDE_SERVICE_RPC_CORE_SERVER_OPTIONS_H
#define SONDE_SERVICE_RPC_CORE_SERVER_OPTIONS_H

#include "api/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct collect;
struct engine;
struct function_times;
struct history_namer;
struct store;

/* What the recorder of this service knows about itself. */
struct rpc_recorder_state {
    uint32_t targets, guests; /* processes that are being recorded; of them by their guests */
    int64_t since_unix_ns;    /* since when the others are; 0 = they are not */
    uint64_t lost_windows;    /* that could not be stored */
    uint32_t waits_left_out;  /* processes without off-CPU time, because too many others have it */
    char trouble[256];        /* why nothing is stored at the moment; "" = all is well */
    char refusal[256];        /* why processes without a guest are not recorded; "" = they are */
};
typedef void rpc_recorder_info(void *context, struct rpc_recorder_state *state);
/* Stores what was recorded until now, so that a query finds it. Waits for a second or two at most.
 * On a worker. */
typedef void rpc_recorder_refresh(void *context);

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

/* What the watcher of this service knows about itself; the fields of sonde.v1.WatchInfo. */
struct rpc_watch_state {
    uint32_t services;
    uint64_t functions, changes, repeated, failed, skipped_slots, skipped_services;
    int64_t until_unix_s;
    char trouble[256];
    bool has_webhook;
    struct rpc_export_state webhook;
};
typedef void rpc_watch_info(void *context, struct rpc_watch_state *state);

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
     * MiB). See saved/saved_captures.h. */
    const char *captures_dir;
    uint32_t captures;
    uint64_t capture_bytes;
    /* What the History service reads and writes; NULL = its methods answer SONDE_NOT_AVAILABLE. It
     * must outlive the server. */
    struct store *history;
    /* Stopped when running calls are cancelled; the store's `end` (store.h), or NULL. */
    struct store_stop *history_end;
    const struct history_namer *namer;      /* history/names.h; NULL = the engine */
    rpc_recorder_info *recorder_info;       /* any thread; NULL = nothing is recorded here */
    rpc_recorder_refresh *recorder_refresh; /* NULL = nothing waits to be stored here */
    void *recorder_context;
    rpc_watch_info *watch_info; /* any thread; NULL = nothing looks for changes here */
    void *watch_context;
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

#endif
