/* SPDX-License-Identifier: Apache-2.0
 *
 * Worker threads and the work that waits for them, in one queue per target. The workers take from
 * the users in turn, and for each user from the targets in turn, so that a target with much work
 * only delays itself. Running work cannot be interrupted. So a user other than sonded's own gets
 * all workers but one, if there are several.
 *
 *     user 0:    target 12 ── work, work              ┐
 *     user 1000: target 40 ── work, work, work, ...   ├─▶ next: user 0, 12; user 1000, 40;
 *                target 41 ── work                    ┘         user 0, 12; user 1000, 41; ...
 *
 * pool_submit refuses work when too much is queued; pool_add accepts all, for work that is bounded
 * elsewhere and must not be lost. Accepted work always runs, if necessary during pool_destroy.
 * Thread safety: any thread, except create and destroy. */
#ifndef SONDE_SERVICE_ENGINE_POOL_H
#define SONDE_SERVICE_ENGINE_POOL_H

#include "service/engine/engine.h"

struct pool;

/* The work of one target that waits in a pool. Zeroed memory plus the uid is an empty queue. Must
 * exist until the last work that was added to it has begun. */
struct pool_queue {
    uid_t uid;
    struct engine_work *first, **last;
    struct pool_queue *next; /* of those with work */
    uint64_t turn;           /* when the queue was served last; the smallest is next */
    uint64_t user_turn;      /* when any queue of this user was */
};

/* name: the name of the threads, at most 15 bytes. */
SONDE_MUST_USE sonde_err pool_create(const char *name, uint32_t threads, uint32_t limit,
                                     struct pool **pool, struct sonde_diag *diag);
/* Both without a target, on behalf of sonded's own user: */
bool pool_submit(struct pool *pool, struct engine_work *work);
void pool_add(struct pool *pool, struct engine_work *work);
/* For the queue's target. */
void pool_add_to(struct pool *pool, struct pool_queue *queue, struct engine_work *work);
/* Runs the queued work and joins the threads. */
void pool_destroy(struct pool *pool);

#endif
