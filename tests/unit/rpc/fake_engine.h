/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine without guests, for the tests of service/rpc: it implements engine.h, its captures
 * hold made-up samples of known content, and a test turns the screws below.
 *
 * The start: one target, "demo", pid 4242, with the command line "demo", "--port", "80". Every
 * window and every capture has `stacks` stacks (3) of 10 samples each: main → f<n>, thread
 * "worker", tid 7. */
#ifndef SONDE_TESTS_UNIT_RPC_FAKE_ENGINE_H
#define SONDE_TESTS_UNIT_RPC_FAKE_ENGINE_H

#include "service/engine/engine.h"

#define FAKE_PID 4242

struct engine *fake_engine_create(void);

void fake_engine_attach(struct engine *engine, const char *name, pid_t pid);
/* Ends the target's captures as an engine does: a result, facts.target_gone. */
void fake_engine_detach(struct engine *engine, pid_t pid);

/* The session of allocations was never started. */
void fake_allocs_forget(void);

/* Stacks of every profile from now on; with `fresh`, other ones in every window. */
void fake_engine_stacks(struct engine *engine, uint32_t stacks, bool fresh);
/* Bytes of every function name; 0 = short. */
void fake_engine_name_len(struct engine *engine, uint32_t name_len);
/* engine_submit says no. */
void fake_engine_refuse_work(struct engine *engine, bool refuse);
/* When the client of the last capture gives up, as the engine was told. */
uint64_t fake_engine_result_by_ns(struct engine *engine);
/* How many captures ended by engine_capture_cancel. */
uint32_t fake_engine_cancelled(struct engine *engine);
/* Handles given out and not released. */
uint32_t fake_engine_unreleased(struct engine *engine);

#endif
