/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine thread, and what an event leads to: targets come, tick and go. This folder knows all
 * others. Thread safety: engine thread only, unless a comment says otherwise. */
#ifndef SONDE_SERVICE_ENGINE_LOOP_LOOP_H
#define SONDE_SERVICE_ENGINE_LOOP_LOOP_H

#include "service/engine/guest/guest_link.h"

/* --- engine.c: everything except the thread, for tests and fuzzers. */

SONDE_MUST_USE sonde_err engine_open(const struct engine_options *options, struct engine **engine,
                                     struct sonde_diag *diag);
void engine_close(struct engine *engine);

/* --- loop.c */

/* One round of the loop; waits at most timeout_ms (-1 = no limit). False when the engine has shut
 * down. */
bool engine_round(struct engine *engine, int timeout_ms);
void *engine_run(void *engine);

/* --- target_life.c */

/* Closes the connection, if there is one; the captures end with what they have sampled. */
void target_detach(struct target *target);
/* Handles all deadlines of the target and sets wake_ns. */
void target_tick(struct target *target, uint64_t now_ns);

/* --- attach.c */

/* Registers the target. False: refused, and the link is marked broken. */
bool target_attach(struct target *target, const sonde_guest_v1_Hello *hello);

/* --- guest_messages.c */

/* A frames_on_message, with the target as context. */
sonde_err guest_on_message(void *target, const frames_from_guest *message);

#endif
