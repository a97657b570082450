/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/pool.h"

#include "service/locks.h"

#include <signal.h>
#include <stdlib.h>

#define POOL_MAX_THREADS 64u

struct pool {
    struct lock lock;
    pthread_cond_t wake;
    struct engine_work *first, **last;
    uint32_t queued, limit, thread_count;
    bool is_ending;
    pthread_t threads[POOL_MAX_THREADS];
};

/* NULL when the pool is being destroyed and the queue is empty. */
static struct engine_work *next_work(struct pool *pool) {
    lock_take(&pool->lock);
    while (!pool->first && !pool->is_ending)
        lock_wait(&pool->lock, &pool->wake);
    struct engine_work *work = pool->first;
    if (work) {
        pool->first = work->next;
        if (!pool->first)
            pool->last = &pool->first;
        pool->queued--;
    }
    lock_drop(&pool->lock);
    return work;
}

static void *run_worker(void *context) {
    struct engine_work *work;
    while ((work = next_work(context)) != NULL)
        work->run(work);
    return NULL;
}

/* With all signals blocked, because sonded's main thread waits for them. */
static int start_thread(struct pool *pool, const char *name) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t *thread = &pool->threads[pool->thread_count];
    int os_error = pthread_create(thread, NULL, run_worker, pool);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (os_error)
        return os_error;
    pthread_setname_np(*thread, name);
    pool->thread_count++;
    return 0;
}

sonde_err pool_create(const char *name, uint32_t threads, uint32_t limit, struct pool **created,
                      struct sonde_diag *diag) {
    struct pool *pool = calloc(1, sizeof *pool);
    *created = NULL;
    if (!pool)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    lock_init(&pool->lock, LOCK_POOL);
    pthread_cond_init(&pool->wake, NULL);
    pool->last = &pool->first;
    pool->limit = limit;
    for (uint32_t i = 0; i < threads && i < POOL_MAX_THREADS; i++) {
        int os_error = start_thread(pool, name);
        if (os_error) {
            pool_destroy(pool);
            return sonde_fail_os(diag, os_error, "cannot start a worker thread");
        }
    }
    *created = pool;
    return SONDE_OK;
}

static bool enqueue(struct pool *pool, struct engine_work *work, bool is_bounded) {
    lock_take(&pool->lock);
    bool accepted = !is_bounded || (pool->queued < pool->limit && !pool->is_ending);
    if (accepted) {
        work->next = NULL;
        *pool->last = work;
        pool->last = &work->next;
        pool->queued++;
        pthread_cond_signal(&pool->wake);
    }
    lock_drop(&pool->lock);
    return accepted;
}

bool pool_submit(struct pool *pool, struct engine_work *work) {
    return enqueue(pool, work, true);
}

void pool_add(struct pool *pool, struct engine_work *work) {
    enqueue(pool, work, false);
}

void pool_destroy(struct pool *pool) {
    if (!pool)
        return;
    lock_take(&pool->lock);
    pool->is_ending = true;
    pthread_cond_broadcast(&pool->wake);
    lock_drop(&pool->lock);
    for (uint32_t i = 0; i < pool->thread_count; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->wake);
    lock_finish(&pool->lock);
    free(pool);
}
