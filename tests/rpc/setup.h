/* SPDX-License-Identifier: Apache-2.0
 *
 * A service over the fake engine on a unix socket in a folder of its own, and a C client of it. */
#ifndef SONDE_TESTS_RPC_SETUP_H
#define SONDE_TESTS_RPC_SETUP_H

#include "clients/c/client.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/core/server.h"
#include "tests/unit/rpc/fake_engine.h"

#define SETUP_CAPTURES 4 /* that are kept */

struct setup {
    char folder[32], address[64], captures[64];
    struct engine *engine;
    struct rpc_server *server;
    struct client *client;
};

void setup_begin(struct setup *setup);
void setup_serve(struct setup *setup); /* again, after setup_stop */
void setup_stop(struct setup *setup, unsigned grace_ms);
void setup_end(struct setup *setup);

/* A stream as a test watches it: the client's thread fills it, the test waits. */
struct watcher {
    struct client_call *call;
    bool (*on_message)(struct watcher *watcher, const ProtobufCMessage *message); /* may be NULL */
    bool holds; /* read one message at a time, by watcher_next */
    struct watcher_state *state;
};

void watcher_start(struct watcher *watcher, struct client *client,
                   const struct client_method *method, const ProtobufCMessage *request,
                   uint32_t deadline_ms);
/* Waits until so many messages came; false when the end or 10 s came first. */
bool watcher_wait(struct watcher *watcher, uint32_t messages);
uint32_t watcher_count(struct watcher *watcher);
/* Waits for the end and frees; SONDE_INTERNAL with a text when none comes in 20 s. */
sonde_err watcher_end(struct watcher *watcher, struct sonde_diag *diag);

/* Waits until condition(context), 10 s at most. */
bool eventually(bool (*condition)(void *context), void *context);

#endif
