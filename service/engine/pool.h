/* SPDX-License-Identifier: Apache-2.0
 *
 * A few worker threads and one bounded queue. pool_submit refuses when the queue is full; pool_add
 * is for work whose number is bounded elsewhere and must not be lost. What was accepted always
 * runs, also during pool_destroy. Thread safety: any thread, except create and destroy. */
#ifndef SONDE_SERVICE_ENGINE_POOL_H
#define SONDE_SERVICE_ENGINE_POOL_H

#include "service/engine/engine.h"

struct pool;

/* name: at most 15 bytes, shown as the threads' name. */
SONDE_MUST_USE sonde_err pool_create(const char *name, uint32_t threads, uint32_t limit,
                                     struct pool **pool, struct sonde_diag *diag);
bool pool_submit(struct pool *pool, struct engine_work *work);
void pool_add(struct pool *pool, struct engine_work *work);
/* Runs what is queued, joins the threads. */
void pool_destroy(struct pool *pool);

#endif
