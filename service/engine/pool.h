/* SPDX-License-Identifier: Apache-2.0
 *
 * Worker threads with one queue. pool_submit refuses work when the queue is full; pool_add accepts
 * all, for work that is bounded elsewhere and must not be lost. Accepted work always runs, if
 * necessary during pool_destroy. Thread safety: any thread, except create and destroy. */
#ifndef SONDE_SERVICE_ENGINE_POOL_H
#define SONDE_SERVICE_ENGINE_POOL_H

#include "service/engine/engine.h"

struct pool;

/* name: the name of the threads, at most 15 bytes. */
SONDE_MUST_USE sonde_err pool_create(const char *name, uint32_t threads, uint32_t limit,
                                     struct pool **pool, struct sonde_diag *diag);
bool pool_submit(struct pool *pool, struct engine_work *work);
void pool_add(struct pool *pool, struct engine_work *work);
/* Runs the queued work and joins the threads. */
void pool_destroy(struct pool *pool);

#endif
