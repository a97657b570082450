/* SPDX-License-Identifier: Apache-2.0 */
#include "service/locks.h"

#include <stdio.h>
#include <stdlib.h>

#ifndef NDEBUG
static const char *const names[LOCK_RANK_COUNT] = {
    [LOCK_NONE] = "none",
    [LOCK_SESSION] = "session",
    [LOCK_WATCH] = "watch",
    [LOCK_RECORDER] = "recorder",
    [LOCK_TARGETS] = "targets",
    [LOCK_MESSAGES] = "messages",
    [LOCK_POOL] = "pool",
    [LOCK_RIGHTS] = "rights",
    [LOCK_PROC_MAPS] = "mappings of a process",
    [LOCK_UNWIND_CACHE] = "unwind cache",
    [LOCK_UNWIND_VIEWS] = "unwind views",
    [LOCK_SYMBOL_STORE] = "symbol store",
    [LOCK_SYMBOL_MODULE] = "symbol module",
    [LOCK_JIT_FILES] = "jit files",
    [LOCK_MAINTENANCE] = "maintenance",
    [LOCK_WATCHER] = "watcher",
    [LOCK_WEBHOOK] = "webhook",
    [LOCK_HISTORY_NAMES] = "history names",
    [LOCK_STORE_PUT] = "store put",
    [LOCK_STORE] = "store",
    [LOCK_STORE_LINKS] = "store links",
    [LOCK_STORE_WRITER] = "store writer",
    [LOCK_STORE_READERS] = "store readers",
    [LOCK_STORE_NAMES] = "store names",
    [LOCK_STORE_LATE] = "store that is not open yet",
    [LOCK_COLLECT] = "collect",
    [LOCK_RPC_LOOP] = "rpc loop",
    [LOCK_RECORDING] = "recording",
    [LOCK_EXPORT] = "export",
    [LOCK_OUTGOING] = "outgoing",
    [LOCK_FUNCTION_RECORDER] = "function recorder",
    [LOCK_FUNCTION_TIMES] = "function times",
    [LOCK_SAMPLER] = "sampler",
    [LOCK_FOREIGN_MEMORY] = "foreign memory",
    [LOCK_MEMORY_SHARE] = "memory share",
    [LOCK_POD_NAMES] = "pod names",
};

/* Number of locks of each rank that this thread holds. */
static __thread unsigned held[LOCK_RANK_COUNT];

static void check_rank(enum lock_rank rank) {
    for (int other = LOCK_RANK_COUNT - 1; other >= (int)rank; other--) {
        if (held[other] == 0)
            continue;
        fprintf(stderr, "lock order: \"%s\" taken while \"%s\" is held\n", names[rank],
                names[other]);
        abort();
    }
}

static void note_taken(enum lock_rank rank) {
    held[rank]++;
}

static void note_dropped(enum lock_rank rank) {
    held[rank]--;
}
#else
static void check_rank(enum lock_rank rank) {
    (void)rank;
}

static void note_taken(enum lock_rank rank) {
    (void)rank;
}

static void note_dropped(enum lock_rank rank) {
    (void)rank;
}
#endif

void lock_init(struct lock *lock, enum lock_rank rank) {
    pthread_mutex_init(&lock->mutex, NULL);
    lock->rank = rank;
}

void lock_finish(struct lock *lock) {
    if (lock->rank != LOCK_NONE)
        pthread_mutex_destroy(&lock->mutex);
    lock->rank = LOCK_NONE;
}

void lock_take(struct lock *lock) {
    check_rank(lock->rank);
    pthread_mutex_lock(&lock->mutex);
    note_taken(lock->rank);
}

void lock_drop(struct lock *lock) {
    note_dropped(lock->rank);
    pthread_mutex_unlock(&lock->mutex);
}

void lock_wait(struct lock *lock, pthread_cond_t *condition) {
    note_dropped(lock->rank);
    pthread_cond_wait(condition, &lock->mutex);
    note_taken(lock->rank);
}

bool lock_wait_until(struct lock *lock, pthread_cond_t *condition, const struct timespec *until) {
    note_dropped(lock->rank);
    int os_error = pthread_cond_clockwait(condition, &lock->mutex, CLOCK_MONOTONIC, until);
    note_taken(lock->rank);
    return os_error == 0;
}
