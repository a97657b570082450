/* SPDX-License-Identifier: Apache-2.0
 *
 * crowd THREADS: starts THREADS threads that wait at ten different depths of one function, every
 * seventh with an odd name; one that computes; one that polls; and one that keeps creating threads
 * that exit at once. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static NOINLINE void wait_deep(unsigned depth) {
    volatile char frame[64];
    frame[0] = (char)depth;
    if (depth > 0) {
        wait_deep(depth - 1);
    } else {
        pthread_mutex_lock(&mutex);
        for (;;)
            pthread_cond_wait(&never, &mutex);
    }
    frame[1] = frame[0];
}

static void *wait_here(void *context) {
    uintptr_t number = (uintptr_t)context;
    prctl(PR_SET_NAME, number % 7 == 0 ? "odd\n\xff) R 1" : "waiter");
    wait_deep(number % 10);
    return NULL;
}

static NOINLINE void work_hard(void) {
    for (volatile unsigned i = 0; i < 1u << 30; i++)
        ;
}

static void *work(void *context) {
    prctl(PR_SET_NAME, "worker");
    for (;;)
        work_hard();
    return context;
}

/* Waits in epoll_wait, which returns EINTR if the thread is stopped, and reports that. */
static __attribute__((noinline, optimize("no-omit-frame-pointer"))) void poll_events(int set) {
    struct epoll_event event;
    volatile char room[100];
    room[0] = 0;
    if (epoll_wait(set, &event, 1, 100) < 0)
        puts("interrupted"), fflush(stdout);
    room[1] = room[0];
}

static void *loop(void *context) {
    int set = epoll_create1(0);
    prctl(PR_SET_NAME, "looper");
    for (;;)
        poll_events(set);
    return context;
}

static void *end(void *context) {
    return context;
}

static void *churn(void *context) {
    pthread_t thread;
    for (;;)
        if (pthread_create(&thread, NULL, end, NULL) == 0)
            pthread_join(thread, NULL);
    return context;
}

int main(int argc, char **argv) {
    pthread_attr_t small;
    pthread_t thread;
    int failed = 0;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 32 << 10);
    failed += pthread_create(&thread, NULL, work, NULL) != 0;
    failed += pthread_create(&thread, NULL, loop, NULL) != 0;
    failed += pthread_create(&thread, NULL, churn, NULL) != 0;
    for (uintptr_t i = 0; argc > 1 && i < strtoul(argv[1], NULL, 10); i++)
        failed += pthread_create(&thread, &small, wait_here, (void *)i) != 0;
    printf("ready, %d failed\n", failed);
    fflush(stdout);
    for (;;)
        pause();
}
