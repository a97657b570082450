/* SPDX-License-Identifier: Apache-2.0
 *
 * Verbs that wait in known functions, each in a section of its own. */
#include "tests/unit/guest/subject/subject.h"

#include <alloca.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define PLACE(name)                                            \
    extern const char __start_at_##name[], __stop_at_##name[]; \
    __attribute__((noinline, noclone, section("at_" #name)))
#define SAY_PLACE(name) \
    subject_say(#name, (long long)__start_at_##name, (long long)__stop_at_##name)

static _Atomic int over;

/* A frame of variable size. Its caller is found only by rbp, which poll does not save. */
PLACE(place_poll)
static int place_poll(int ms) {
    volatile char *room = alloca((size_t)ms * 8 + 100);
    memset((char *)room, ms, (size_t)ms * 8);
    int result = poll(NULL, 0, ms);
    return result + room[3];
}

PLACE(place_sleep)
static int place_sleep(int ms) {
    struct timespec span = {0, ms * SUBJECT_MS};
    int result = nanosleep(&span, NULL);
    return result + 1;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int ends[2];

PLACE(place_mutex)
static int place_mutex(void) {
    pthread_mutex_lock(&mutex);
    return pthread_mutex_unlock(&mutex);
}

PLACE(place_read)
static int place_read(void) {
    char byte;
    ssize_t got = read(ends[0], &byte, 1);
    return (int)got + 1;
}

PLACE(place_condition)
static int place_condition(void) {
    pthread_mutex_lock(&guard);
    while (!over)
        pthread_cond_wait(&condition, &guard);
    return pthread_mutex_unlock(&guard);
}

/* How long a thread took. */
struct stay {
    pthread_t thread;
    long long tid, wall_ns;
};

static int64_t wall(void) {
    return subject_clock(CLOCK_MONOTONIC);
}

static void begin_stay(struct stay *stay) {
    stay->tid = syscall(SYS_gettid);
    stay->wall_ns = -wall();
}

static void *stay_in_mutex(void *stay) {
    begin_stay(stay);
    place_mutex();
    ((struct stay *)stay)->wall_ns += wall();
    return NULL;
}

static void *stay_in_read(void *stay) {
    begin_stay(stay);
    place_read();
    ((struct stay *)stay)->wall_ns += wall();
    return NULL;
}

static void *stay_in_condition(void *stay) {
    begin_stay(stay);
    place_condition();
    ((struct stay *)stay)->wall_ns += wall();
    return NULL;
}

/* Spends 3/4 of the time in poll and 1/4 in a sleep. */
static void *stay_in_two(void *argument) {
    struct stay *stay = argument;
    begin_stay(stay);
    while (!over) {
        place_poll(15);
        place_sleep(5);
    }
    stay->wall_ns += wall();
    return NULL;
}

/* Spends half of the time on the CPU. */
static void *stay_half(void *argument) {
    struct stay *stay = argument;
    begin_stay(stay);
    while (!over) {
        subject_work(3 * SUBJECT_MS);
        place_sleep(3);
    }
    stay->wall_ns += wall();
    return NULL;
}

static void end_all(void) {
    over = 1;
    pthread_mutex_unlock(&mutex);
    if (write(ends[1], "x", 1) != 1)
        abort();
    pthread_mutex_lock(&guard);
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&guard);
}

/* Prints the functions' addresses, then each thread's tid and wall time. */
void verb_waits(int ms) {
    static void *(*const stays[])(void *) = {stay_in_mutex, stay_in_read, stay_in_condition,
                                             stay_in_two, stay_half};
    static struct stay threads[5];
    SAY_PLACE(place_mutex);
    SAY_PLACE(place_read);
    SAY_PLACE(place_condition);
    SAY_PLACE(place_poll);
    SAY_PLACE(place_sleep);
    subject_wait();
    if (pipe(ends) != 0)
        abort();
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < 5; i++)
        pthread_create(&threads[i].thread, NULL, stays[i], &threads[i]);
    usleep((useconds_t)ms * 1000);
    end_all();
    for (int i = 0; i < 5; i++) {
        pthread_join(threads[i].thread, NULL);
        subject_say("stay", threads[i].tid, threads[i].wall_ns);
    }
    subject_wait();
}

static void *sleep_at_depth(void *depth);

static __attribute__((noinline)) int descend(long depth) {
    volatile int more = depth > 0 ? descend(depth - 1) : place_sleep(900) + place_sleep(900);
    return more + 1;
}

static void *sleep_at_depth(void *depth) {
    descend((long)depth);
    return NULL;
}

/* places N: threads that sleep since before the capture, each with a deeper stack than the last. */
void verb_places(int count) {
    pthread_t thread;
    SAY_PLACE(place_sleep);
    for (long i = 0; i < count; i++)
        pthread_create(&thread, NULL, sleep_at_depth, (void *)(i * 50));
    usleep(50000);
    subject_say("asleep", 0, 0);
    subject_wait();
    int64_t begin = wall();
    usleep(800000);
    subject_say("slept", wall() - begin, 0);
    subject_wait();
}
