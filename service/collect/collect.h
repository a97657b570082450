/* SPDX-License-Identifier: Apache-2.0
 *
 * Continuous collection for fleet controllers: sessions that record targets and keep what was not
 * acknowledged. The protocol is Profiler.Collect (proto/sonde/v1/profiler.proto); this folder
 * speaks its messages and knows nothing of gRPC.
 *
 *     engine's recorder ── records ──▶ session: tables of stacks, windows that are kept (ring.h)
 *                                        │ collect_next          ▲ collect_receive
 *                                        ▼                       │
 *                            CollectResponse                CollectRequest      a call
 *
 * A session outlives its link. A link is one call: it numbers definitions for itself. Two links of
 * a session: the later one displaces the earlier.
 *
 * Thread safety: any thread, except collect_create, finish and destroy. `wake` is called on any
 * thread, with a lock held, and must only post a message. */
#ifndef SONDE_SERVICE_COLLECT_COLLECT_H
#define SONDE_SERVICE_COLLECT_COLLECT_H

#include "api/bytes.h"
#include "api/error.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#include <stdbool.h>

#define COLLECT_MAX_SESSIONS  4
#define COLLECT_KEEP_BYTES    (16ull << 20) /* per session */
#define COLLECT_MAX_HZ        99
#define COLLECT_MESSAGE_BYTES (1u << 20)
#define COLLECT_DRAIN_S       2 /* a controller that acknowledges later loses the last windows */
#define COLLECT_STATUS_S      60
#define COLLECT_API           1 /* version of the API; Info.api_min and api_max */

struct engine;
struct collect;
struct collect_link;

struct collect_options {
    struct engine *engine;
    const char *dir;               /* exists; for the delivery identity */
    uint64_t keep_bytes;           /* 0 = COLLECT_KEEP_BYTES */
    uint32_t max_hz;               /* 0 = COLLECT_MAX_HZ */
    void (*log)(const char *line); /* also the audit: sessions that begin, change and end */
    bool is_manual;                /* without the thread, for tests */
};

SONDE_MUST_USE sonde_err collect_create(const struct collect_options *options,
                                        struct collect **collect, struct sonde_diag *diag);
/* Ends the recorders, whose last windows are sent to open links. Before engine_destroy. May be
 * called again. */
void collect_finish(struct collect *collect);
/* After collect_finish: waits until open links have acknowledged everything, COLLECT_DRAIN_S at
 * most. NULL is fine. */
void collect_drain(struct collect *collect);
void collect_destroy(struct collect *collect); /* after engine_destroy; NULL is fine */

/* Who this is, without a session: source and first_seq are 0. Fills the message; its texts are in
 * the arena or live as long as `collect`. */
void collect_identify(struct collect *collect, struct sonde_arena *arena,
                      Sonde__V1__CollectHello *hello);

/* Opens a session's link with the first request, which must have `start`. wake(context):
 * collect_next may have something, or the link was displaced. SONDE_INVALID_ARGUMENT,
 * SONDE_TOO_MANY_CAPTURES (4 sessions that have a link), SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err collect_open(struct collect *collect,
                                      const Sonde__V1__CollectRequest *start,
                                      void (*wake)(void *context), void *context,
                                      struct collect_link **link, struct sonde_diag *diag);
/* A later request. SONDE_INVALID_ARGUMENT: end the call. SONDE_SESSION_BUSY: displaced. */
SONDE_MUST_USE sonde_err collect_receive(struct collect_link *link,
                                         const Sonde__V1__CollectRequest *request,
                                         struct sonde_diag *diag);
/* The next answer, packed; *is_empty: there is nothing now, wait for wake. Call it again after each
 * answer has left. now_ns: CLOCK_MONOTONIC, for max_bytes_per_s and the status. */
SONDE_MUST_USE sonde_err collect_next(struct collect_link *link, int64_t now_ns,
                                      struct sonde_buf *answer, bool *is_empty,
                                      struct sonde_diag *diag);
/* After this, wake is not called any more. NULL is fine. */
void collect_close(struct collect_link *link);
/* Starts and ends what is due; a thread of collect's own calls it every second. */
void collect_tick(struct collect *collect, int64_t now_monotonic_ns);

/* For GetInfo: fills at most `capacity` initialized messages, with texts in the arena; returns how
 * many there are. */
size_t collect_sessions(struct collect *collect, struct sonde_arena *arena,
                        Sonde__V1__CollectSession *sessions, size_t capacity);

#endif
