/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/sampled_threads.h"

#include "service/guest/process/address_space.h"
#include "service/guest/raw.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#define CHUNK 64u /* walk caches reserved together, 1 MiB */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct walk_cache *chunks[SAMPLED_THREADS_MAX / CHUNK];
static uint32_t first_free; /* index + 1; the next one is in `last_scan` */
static uint32_t limit, used, last_incarnation;
static struct handler_cost removed; /* of entries that were removed */

int sampled_threads_open(void) {
    if (handler_state.threads)
        return 0;
    struct sampled_thread *threads = address_space_reserve(SAMPLED_THREADS_MAX * sizeof *threads);
    void *by_tid = address_space_reserve(HANDLER_TIDS * sizeof(uint16_t));
    if (!threads || !by_tid) {
        if (threads)
            munmap(threads, SAMPLED_THREADS_MAX * sizeof *threads);
        if (by_tid)
            munmap(by_tid, HANDLER_TIDS * sizeof(uint16_t));
        return ENOMEM;
    }
    uint32_t secret = 0;
    if (system_call3(SYS_getrandom, (long)&secret, sizeof secret, GRND_NONBLOCK) != sizeof secret)
        secret = (uint32_t)handler_clock_ns(CLOCK_MONOTONIC);
    handler_state.secret = (secret & 0xffffff) | 1;
    handler_state.thread_by_tid = by_tid;
    handler_state.threads = threads;
    return 0;
}

/* Our ticks stay unmasked. They do not take the lock, and a tick that we delay would look like one
 * that the application has blocked. */
void sampled_threads_lock(uint64_t *old_mask) {
    uint64_t others = ~(1ull << (SIGTRAP - 1));
    if (handler_state.timer_signal)
        others &= ~(1ull << (handler_state.timer_signal - 1));
    system_call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&others, (long)old_mask, 8, 0);
    pthread_mutex_lock(&lock);
}

void sampled_threads_unlock(const uint64_t *old_mask) {
    pthread_mutex_unlock(&lock);
    system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)old_mask, 0, 8, 0);
}

void sampled_threads_after_fork(void) {
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static struct walk_cache *cache_of(uint32_t number) {
    struct walk_cache **chunk = &chunks[number / CHUNK];
    if (!*chunk)
        *chunk = address_space_reserve(CHUNK * sizeof **chunk);
    return *chunk ? *chunk + number % CHUNK : NULL;
}

static uint32_t next_incarnation(void) {
    last_incarnation = (last_incarnation + 1) & 0xffffff;
    last_incarnation += last_incarnation == 0;
    return last_incarnation;
}

static uint32_t take_free_entry(void) {
    uint32_t number = first_free;
    if (number) {
        first_free = handler_state.threads[number - 1].last_scan;
        return number;
    }
    return limit < SAMPLED_THREADS_MAX ? ++limit : 0;
}

/* Threads that start together must not tick together. Two rounds of multiply and shift spread time
 * and tid over all bits. */
static uint64_t seed_of(uint32_t tid) {
    uint64_t seed = (uint64_t)handler_clock_ns(CLOCK_MONOTONIC) + tid * 0x9e3779b97f4a7c15ull;
    seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9ull;
    seed = (seed ^ seed >> 27) * 0x94d049bb133111ebull;
    return (seed ^ seed >> 31) | 1;
}

struct sampled_thread *sampled_threads_add(uint32_t tid) {
    uint32_t number = tid < HANDLER_TIDS ? take_free_entry() : 0;
    if (!number)
        return NULL;
    struct sampled_thread *thread = &handler_state.threads[number - 1];
    memset(thread, 0, offsetof(struct sampled_thread, in_handler));
    memset((char *)thread + offsetof(struct sampled_thread, until_renewal), 0,
           sizeof *thread - offsetof(struct sampled_thread, until_renewal));
    thread->tid = tid;
    thread->fd = thread->timer = -1;
    thread->cache = cache_of(number - 1);
    thread->random = seed_of(tid);
    used++;
    atomic_store(&thread->incarnation, next_incarnation());
    atomic_store_explicit(&handler_state.thread_by_tid[tid], (uint16_t)number,
                          memory_order_release);
    return thread;
}

void sampled_threads_remove(struct sampled_thread *thread) {
    atomic_store(&handler_state.thread_by_tid[thread->tid], 0);
    atomic_store(&thread->incarnation, 0);
    removed.ns += atomic_load(&thread->handler_ns);
    removed.runs += atomic_load(&thread->handler_runs);
    removed.preempted += atomic_load(&thread->preempted_runs);
    thread->handler_ns = thread->handler_runs = thread->preempted_runs = 0;
    thread->tid = 0;
    thread->last_scan = first_free;
    first_free = sampled_threads_index(thread) + 1;
    used--;
}

uint32_t sampled_threads_limit(void) {
    return limit;
}

uint32_t sampled_threads_count(void) {
    return used;
}

struct handler_cost sampled_threads_handler_cost(void) {
    struct handler_cost sum = removed;
    for (uint32_t i = 0; i < limit; i++) {
        sum.ns += atomic_load_explicit(&handler_state.threads[i].handler_ns, memory_order_relaxed);
        sum.runs +=
            atomic_load_explicit(&handler_state.threads[i].handler_runs, memory_order_relaxed);
        sum.preempted +=
            atomic_load_explicit(&handler_state.threads[i].preempted_runs, memory_order_relaxed);
    }
    return sum;
}

uint64_t handler_cost_ns(const struct handler_cost *since, const struct handler_cost *now) {
    uint64_t ns = now->ns - since->ns, preempted = now->preempted - since->preempted;
    uint64_t runs = now->runs - since->runs;
    if (runs <= preempted)
        return runs * HANDLER_PREEMPTED_NS;
    return (uint64_t)((__uint128_t)ns * runs / (runs - preempted));
}

/* A late signal may still find a freed entry, whose incarnation is 0 then and never matches. */
void sampled_threads_trim(void) {
    for (uint32_t i = 0; i < SAMPLED_THREADS_MAX / CHUNK; i++)
        if (chunks[i])
            madvise(chunks[i], CHUNK * sizeof *chunks[i], MADV_DONTNEED);
    if (handler_state.threads && used == 0) {
        madvise(handler_state.threads, SAMPLED_THREADS_MAX * sizeof *handler_state.threads,
                MADV_DONTNEED);
        madvise(handler_state.thread_by_tid, HANDLER_TIDS * sizeof *handler_state.thread_by_tid,
                MADV_DONTNEED);
        first_free = limit = 0;
    }
}
