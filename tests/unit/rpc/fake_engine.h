/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine without guests, for the tests of service/rpc: it implements engine.h with made-up
 * samples, which a test can change with the functions below.
 *
 * At the start there is one target, "demo" with pid 4242 and the command line "demo", "--port",
 * "80". Every window and every capture has 3 stacks (see fake_engine_stacks) of 10 samples each:
 * main → f<n>, thread "worker", tid 7. */
#ifndef SONDE_TESTS_UNIT_RPC_FAKE_ENGINE_H
#define SONDE_TESTS_UNIT_RPC_FAKE_ENGINE_H

#include "service/engine/engine.h"

#define FAKE_PID 4242

struct engine *fake_engine_create(void);

void fake_engine_attach(struct engine *engine, const char *name, pid_t pid);
/* The same for a process of that user, which has a guest or can only be sampled from outside. */
void fake_engine_add(struct engine *engine, const char *name, pid_t pid, uid_t uid, bool has_guest);
/* Detaches the target and ends its captures as the engine does: with a result that says
 * target_gone. */
void fake_engine_detach(struct engine *engine, pid_t pid);

/* Resets the allocation session: it was never started. */
void fake_allocs_forget(void);

/* Sets the number of stacks in each profile; with `fresh`, each window has new ones. */
void fake_engine_stacks(struct engine *engine, uint32_t stacks, bool fresh);
/* Sets the length of every function name in bytes; 0 means short names. */
void fake_engine_name_len(struct engine *engine, uint32_t name_len);
/* Makes engine_submit refuse all work. */
void fake_engine_refuse_work(struct engine *engine, bool refuse);
/* What the last capture or session was asked to be: its source and its selector. */
struct fake_request {
    enum engine_source source;
    bool all, has_owner;
    uid_t owner;
};
struct fake_request fake_engine_last_request(void);
/* The result_by_ns of the last capture: when its client gives up. */
uint64_t fake_engine_result_by_ns(struct engine *engine);
/* Number of captures that engine_capture_cancel ended. */
uint32_t fake_engine_cancelled(struct engine *engine);
/* Number of capture handles that have not been released. */
uint32_t fake_engine_unreleased(struct engine *engine);

#endif
