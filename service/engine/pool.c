/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/pool.h"

#include "service/locks.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define POOL_MAX_THREADS 64u

/* One thread, and whose work it is running. */
struct worker {
    struct pool *pool;
    pthread_t thread;
    bool is_busy;
    uid_t uid;
};

struct pool {
    struct lock lock;
    pthread_cond_t wake;
    struct pool_queue *queues; /* those with work */
    struct pool_queue own;     /* work without a target */
    uint64_t turns;            /* how often a queue was served or became nonempty */
    uint32_t queued, limit, thread_count;
    bool is_ending;
    struct worker workers[POOL_MAX_THREADS];
};

static bool is_before(const struct pool_queue *a, const struct pool_queue *b) {
    return a->user_turn != b->user_turn ? a->user_turn < b->user_turn : a->turn < b->turn;
}

/* Whether the user may have one more worker. */
static bool is_allowed(const struct pool *pool, uid_t uid) {
    uint32_t busy = 0;
    if (uid == pool->own.uid || uid == 0 || pool->thread_count == 1 || pool->is_ending)
        return true;
    for (uint32_t i = 0; i < pool->thread_count; i++)
        busy += pool->workers[i].is_busy && pool->workers[i].uid == uid;
    return busy + 1 < pool->thread_count;
}

/* The queue whose turn it is; NULL when there is no work that a worker may take. */
static struct pool_queue *choose(const struct pool *pool) {
    struct pool_queue *best = NULL;
    for (struct pool_queue *queue = pool->queues; queue; queue = queue->next) {
        if ((!best || is_before(queue, best)) && is_allowed(pool, queue->uid))
            best = queue;
    }
    return best;
}

/* The user and the queue go to the end of their rounds. */
static void note_turn(struct pool *pool, struct pool_queue *served) {
    served->turn = ++pool->turns;
    served->user_turn = pool->turns;
    for (struct pool_queue *queue = pool->queues; queue; queue = queue->next) {
        if (queue->uid == served->uid)
            queue->user_turn = pool->turns;
    }
}

static void remove_queue(struct pool *pool, const struct pool_queue *queue) {
    struct pool_queue **at = &pool->queues;
    while (*at != queue)
        at = &(*at)->next;
    *at = queue->next;
}

/* A user's first queue is served after all users that wait already, and not at once: otherwise one
 * who adds work by work would never let the others have a turn. */
static void add_queue(struct pool *pool, struct pool_queue *added) {
    added->turn = added->user_turn = ++pool->turns;
    for (const struct pool_queue *queue = pool->queues; queue; queue = queue->next) {
        if (queue->uid == added->uid)
            added->user_turn = queue->user_turn;
    }
    added->next = pool->queues;
    pool->queues = added;
}

static struct engine_work *take(struct pool *pool, struct pool_queue *queue) {
    struct engine_work *work = queue->first;
    queue->first = work->next;
    if (!queue->first)
        remove_queue(pool, queue);
    note_turn(pool, queue);
    pool->queued--;
    return work;
}

/* NULL when the pool is being destroyed and all queues are empty. */
static struct engine_work *next_work(struct worker *worker) {
    struct pool *pool = worker->pool;
    struct pool_queue *queue;
    struct engine_work *work = NULL;
    lock_take(&pool->lock);
    worker->is_busy = false;
    while (!(queue = choose(pool)) && !pool->is_ending)
        lock_wait(&pool->lock, &pool->wake);
    if (queue) {
        worker->is_busy = true;
        worker->uid = queue->uid;
        work = take(pool, queue);
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
static int start_thread(struct pool *pool, struct worker *worker, const char *name) {
    sigset_t all, old;
    worker->pool = pool;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int os_error = pthread_create(&worker->thread, NULL, run_worker, worker);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!os_error)
        pthread_setname_np(worker->thread, name);
    return os_error;
}

/* With the lock, because workers that run already count the threads. */
static int start_threads(struct pool *pool, const char *name, uint32_t threads) {
    int os_error = 0;
    lock_take(&pool->lock);
    for (uint32_t i = 0; i < threads && i < POOL_MAX_THREADS && !os_error; i++) {
        os_error = start_thread(pool, &pool->workers[i], name);
        pool->thread_count += !os_error;
    }
    lock_drop(&pool->lock);
    return os_error;
}

sonde_err pool_create(const char *name, uint32_t threads, uint32_t limit, struct pool **created,
                      struct sonde_diag *diag) {
    struct pool *pool = calloc(1, sizeof *pool);
    *created = NULL;
    if (!pool)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    lock_init(&pool->lock, LOCK_POOL);
    pthread_cond_init(&pool->wake, NULL);
    pool->own.uid = geteuid();
    pool->limit = limit;
    int os_error = start_threads(pool, name, threads);
    if (os_error) {
        pool_destroy(pool);
        return sonde_fail_os(diag, os_error, "cannot start a worker thread");
    }
    *created = pool;
    return SONDE_OK;
}

static bool enqueue(struct pool *pool, struct pool_queue *queue, struct engine_work *work,
                    bool is_bounded) {
    lock_take(&pool->lock);
    bool accepted = !is_bounded || (pool->queued < pool->limit && !pool->is_ending);
    if (accepted) {
        if (!queue->first) {
            queue->last = &queue->first;
            add_queue(pool, queue);
        }
        work->next = NULL;
        *queue->last = work;
        queue->last = &work->next;
        pool->queued++;
        pthread_cond_signal(&pool->wake);
    }
    lock_drop(&pool->lock);
    return accepted;
}

bool pool_submit(struct pool *pool, struct engine_work *work) {
    return enqueue(pool, &pool->own, work, true);
}

void pool_add(struct pool *pool, struct engine_work *work) {
    enqueue(pool, &pool->own, work, false);
}

void pool_add_to(struct pool *pool, struct pool_queue *queue, struct engine_work *work) {
    enqueue(pool, queue, work, false);
}

void pool_destroy(struct pool *pool) {
    if (!pool)
        return;
    lock_take(&pool->lock);
    pool->is_ending = true;
    pthread_cond_broadcast(&pool->wake);
    lock_drop(&pool->lock);
    for (uint32_t i = 0; i < pool->thread_count; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->wake);
    lock_finish(&pool->lock);
    free(pool);
}
