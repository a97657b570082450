/* SPDX-License-Identifier: Apache-2.0
 *
 * A service with the fake engine, on a unix socket in a temporary folder, and a C client of it. */
#ifndef SONDE_TESTS_RPC_SETUP_H
#define SONDE_TESTS_RPC_SETUP_H

#include "clients/c/client.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/server.h"
#include "tests/unit/rpc/fake_engine.h"

#define SETUP_CAPTURES 4 /* the service saves at most this many */

struct setup {
    char folder[32], address[64], captures[64];
    struct engine *engine;         /* NULL = Profiler is not served */
    bool separates_users;          /* for setup_serve */
    rpc_export_info *export_info;  /* for setup_serve; NULL = nothing is sent */
    struct store *history;         /* NULL = none; the test closes it */
    rpc_recorder_refresh *refresh; /* for setup_serve, with NULL; NULL = nothing is recorded */
    struct rpc_server *server;
    struct client *client;
};

void setup_begin(struct setup *setup);
/* With a History service, of a recorder if there is `refresh`. */
void setup_begin_recorder(struct setup *setup, struct store *history, rpc_recorder_refresh *refresh,
                          bool has_engine);
void setup_begin_history(struct setup *setup, struct store *history, bool has_engine);
void setup_serve(struct setup *setup); /* starts the service again after setup_stop */
void setup_stop(struct setup *setup, unsigned grace_ms);
void setup_end(struct setup *setup);

/* A stream that a test waits for: the client's thread counts messages and calls on_message. */
struct watcher {
    struct client_call *call;
    bool (*on_message)(struct watcher *watcher, const ProtobufCMessage *message); /* may be NULL */
    const struct client_caller *caller; /* NULL = the client itself */
    bool holds;                         /* reads the next message only after client_call_next */
    struct watcher_state *state;
};

void watcher_start(struct watcher *watcher, struct client *client,
                   const struct client_method *method, const ProtobufCMessage *request,
                   uint32_t deadline_ms);
/* Waits for that many messages in all; false if the stream ends or 10 s pass before. */
bool watcher_wait(struct watcher *watcher, uint32_t messages);
uint32_t watcher_count(struct watcher *watcher);
bool watcher_is_over(struct watcher *watcher); /* watcher_end returns at once */
/* Waits for the end of the stream and frees it. SONDE_INTERNAL if it does not end within 20 s. */
sonde_err watcher_end(struct watcher *watcher, struct sonde_diag *diag);

/* Waits at most 10 s until condition(context) holds, and returns whether it does. */
bool eventually(bool (*condition)(void *context), void *context);

#endif
