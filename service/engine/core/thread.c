/* SPDX-License-Identifier: Apache-2.0
 *
 * How other threads reach the engine thread, and how jobs reach workers and return. */
#include "api/base/clock.h"
#include "service/engine/core/engine_state.h"

#include <time.h>
#include <unistd.h>

uint64_t now_monotonic_ns(void) {
    return (uint64_t)clock_ns(CLOCK_MONOTONIC);
}

int64_t now_unix_ns(void) {
    return clock_ns(CLOCK_REALTIME);
}

uint64_t thread_cpu_ns(void) {
    return (uint64_t)clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t engine_random(struct engine *engine) {
    engine->random += 0x9e3779b97f4a7c15ull;
    uint64_t word = engine->random;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ull;
    word = (word ^ word >> 27) * 0x94d049bb133111ebull;
    return word ^ word >> 31;
}

void engine_wake(struct engine *engine) {
    uint64_t one = 1;
    ssize_t written = write(engine->event_fd, &one, sizeof one);
    (void)written; /* fails if the counter is full; the thread is awake then */
}

void engine_post(struct engine *engine, struct message *message) {
    lock_take(&engine->messages_lock);
    message->next = NULL;
    *engine->last_message = message;
    engine->last_message = &message->next;
    lock_drop(&engine->messages_lock);
    engine_wake(engine);
}

static void on_job_done(struct engine *engine, struct message *message) {
    struct job *job = container_of(message, struct job, message);
    atomic_fetch_sub(&engine->jobs_running, 1);
    job->complete(engine, job);
}

static void perform_job(struct engine_work *work) {
    struct job *job = container_of(work, struct job, work);
    job->perform(job);
    job->message.run = on_job_done;
    engine_post(job->engine, &job->message);
}

void engine_prepare_job(struct engine *engine, struct job *job) {
    job->engine = engine;
    job->work.run = perform_job;
    atomic_fetch_add(&engine->jobs_running, 1);
}

void engine_start_job(struct engine *engine, struct pool *pool, struct job *job) {
    engine_prepare_job(engine, job);
    pool_add(pool, &job->work);
}
