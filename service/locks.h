/* SPDX-License-Identifier: Apache-2.0
 *
 * Every lock of the service, by rank. A thread may take a lock only when its rank is higher than
 * that of every lock it holds: so two threads can never wait for each other. Builds without NDEBUG
 * check it and end the program with both names.
 *
 * A lock is zeroed memory plus lock_init. Thread safety: that is the point. */
#ifndef SONDE_SERVICE_LOCKS_H
#define SONDE_SERVICE_LOCKS_H

#include <pthread.h>

/* Lowest first. A new lock is a new row here. */
enum lock_rank {
    LOCK_NONE = 0,
    LOCK_RPC,           /* service/rpc: calls and streams */
    LOCK_SESSION,       /* engine: StartCpu/StopCpu of all targets */
    LOCK_WATCH,         /* engine: the list of watches; held while their events run */
    LOCK_TARGETS,       /* engine: the registry of targets */
    LOCK_MESSAGES,      /* engine: messages to the engine thread */
    LOCK_POOL,          /* engine: a worker pool's queue */
    LOCK_UNWIND_CACHE,  /* service/unwind: tables by build-id */
    LOCK_SYMBOL_STORE,  /* service/symbol: modules by identity */
    LOCK_SYMBOL_MODULE, /* service/symbol: one module's tables */
    LOCK_RANK_COUNT
};

struct lock {
    pthread_mutex_t mutex;
    enum lock_rank rank;
};

void lock_init(struct lock *lock, enum lock_rank rank);
void lock_finish(struct lock *lock);
void lock_take(struct lock *lock);
void lock_drop(struct lock *lock);
/* Waits on a condition with the lock dropped meanwhile, as pthread_cond_wait. */
void lock_wait(struct lock *lock, pthread_cond_t *condition);

#endif
