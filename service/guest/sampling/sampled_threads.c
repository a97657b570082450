/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/sampled_threads.h"

#include "service/guest/raw.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#define CHUNK 64u /* caches mapped together: 1 MiB */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct walk_cache *chunks[ROOM_SEATS / CHUNK];
static uint32_t first_free; /* number + 1; the next one is in `scanned` */
static uint32_t limit, taken, last_incarnation;
static struct seats_handlers gone;

static void *reserve(size_t bytes) {
    void *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return place == MAP_FAILED ? NULL : place;
}

int seats_open(void) {
    if (room.seats)
        return 0;
    struct room_seat *seats = reserve(ROOM_SEATS * sizeof *seats);
    void *by_tid = reserve(ROOM_TIDS * sizeof(uint16_t));
    if (!seats || !by_tid) {
        if (seats)
            munmap(seats, ROOM_SEATS * sizeof *seats);
        if (by_tid)
            munmap(by_tid, ROOM_TIDS * sizeof(uint16_t));
        return ENOMEM;
    }
    uint32_t secret = 0;
    if (getrandom(&secret, sizeof secret, GRND_NONBLOCK) != sizeof secret)
        secret = (uint32_t)room_clock_ns(CLOCK_MONOTONIC);
    room.secret = (secret & 0xffffff) | 1;
    room.seat_of = by_tid;
    room.seats = seats;
    return 0;
}

/* Our own ticks stay as they are: they do not take the lock, and one that is masked comes too late
 * to be told from one that the application had masked. */
void seats_lock(uint64_t *old_mask) {
    uint64_t others = ~(1ull << (SIGTRAP - 1));
    if (room.timer_signal)
        others &= ~(1ull << (room.timer_signal - 1));
    raw_call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&others, (long)old_mask, 8, 0);
    pthread_mutex_lock(&lock);
}

void seats_unlock(const uint64_t *old_mask) {
    pthread_mutex_unlock(&lock);
    raw_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)old_mask, 0, 8, 0);
}

void seats_after_fork(void) {
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static struct walk_cache *cache_of(uint32_t number) {
    struct walk_cache **chunk = &chunks[number / CHUNK];
    if (!*chunk)
        *chunk = reserve(CHUNK * sizeof **chunk);
    return *chunk ? *chunk + number % CHUNK : NULL;
}

static uint32_t next_incarnation(void) {
    last_incarnation = (last_incarnation + 1) & 0xffffff;
    last_incarnation += last_incarnation == 0;
    return last_incarnation;
}

static uint32_t free_number(void) {
    uint32_t number = first_free;
    if (number) {
        first_free = room.seats[number - 1].scanned;
        return number;
    }
    return limit < ROOM_SEATS ? ++limit : 0;
}

/* Threads that begin together must not tick together: two rounds of multiply and shift spread time
 * and tid over all bits. */
static uint64_t seed_of(uint32_t tid) {
    uint64_t seed = (uint64_t)room_clock_ns(CLOCK_MONOTONIC) + tid * 0x9e3779b97f4a7c15ull;
    seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9ull;
    seed = (seed ^ seed >> 27) * 0x94d049bb133111ebull;
    return (seed ^ seed >> 31) | 1;
}

struct room_seat *seats_take(uint32_t tid) {
    uint32_t number = tid < ROOM_TIDS ? free_number() : 0;
    if (!number)
        return NULL;
    struct room_seat *seat = &room.seats[number - 1];
    memset(seat, 0, offsetof(struct room_seat, inside));
    memset((char *)seat + offsetof(struct room_seat, until_renewal), 0,
           sizeof *seat - offsetof(struct room_seat, until_renewal));
    seat->tid = tid;
    seat->fd = seat->timer = -1;
    seat->cache = cache_of(number - 1);
    seat->random = seed_of(tid);
    taken++;
    atomic_store(&seat->incarnation, next_incarnation());
    atomic_store_explicit(&room.seat_of[tid], (uint16_t)number, memory_order_release);
    return seat;
}

void seats_give(struct room_seat *seat) {
    atomic_store(&room.seat_of[seat->tid], 0);
    atomic_store(&seat->incarnation, 0);
    gone.ns += atomic_load(&seat->handler_ns);
    gone.count += atomic_load(&seat->handler_count);
    gone.preempted += atomic_load(&seat->handler_long);
    seat->handler_ns = seat->handler_count = seat->handler_long = 0;
    seat->tid = 0;
    seat->scanned = first_free;
    first_free = seats_number(seat) + 1;
    taken--;
}

uint32_t seats_limit(void) {
    return limit;
}

uint32_t seats_count(void) {
    return taken;
}

struct seats_handlers seats_handlers(void) {
    struct seats_handlers sum = gone;
    for (uint32_t i = 0; i < limit; i++) {
        sum.ns += atomic_load_explicit(&room.seats[i].handler_ns, memory_order_relaxed);
        sum.count += atomic_load_explicit(&room.seats[i].handler_count, memory_order_relaxed);
        sum.preempted += atomic_load_explicit(&room.seats[i].handler_long, memory_order_relaxed);
    }
    return sum;
}

uint64_t seats_handler_ns(const struct seats_handlers *since, const struct seats_handlers *now) {
    uint64_t ns = now->ns - since->ns, preempted = now->preempted - since->preempted;
    uint64_t count = now->count - since->count;
    if (count <= preempted)
        return count * ROOM_LONG_NS;
    return (uint64_t)((__uint128_t)ns * count / (count - preempted));
}

/* The seats themselves keep their incarnations: late signals must not meet zeroed memory with a
 * matching number; 0 never matches, so the pages may go. */
void seats_trim(void) {
    for (uint32_t i = 0; i < ROOM_SEATS / CHUNK; i++)
        if (chunks[i])
            madvise(chunks[i], CHUNK * sizeof *chunks[i], MADV_DONTNEED);
    if (room.seats && taken == 0) {
        madvise(room.seats, ROOM_SEATS * sizeof *room.seats, MADV_DONTNEED);
        madvise(room.seat_of, ROOM_TIDS * sizeof *room.seat_of, MADV_DONTNEED);
        first_free = limit = 0;
    }
}
