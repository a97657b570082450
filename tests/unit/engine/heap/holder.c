/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that holds memory on known paths, and does as it is told, one letter a line on stdin,
 * each answered by the same letter on stdout:
 *
 *     s  hold 64 MB in blocks of 1 KiB more (hold_small), of 1 MiB (hold_large), mixed (hold_mixed)
 *     f  free all of it
 *     d  hold 20 MB at the end of a recursion of 100; D of 1000
 *     t  hold from 4 new threads
 *     w  let 8 threads allocate and free without end; W ends that, once each has made progress
 *     p  see that each of those threads makes progress
 *     h  wait until no hooks are installed in jemalloc (of the one that contains it)
 *     c  chroot to the folder TMPDIR, which has no /proc
 *     q  sonde_stop; r  sonde_start (of the one that links the guest, which starts it first) */
#ifdef HOLDER_LINKED
#include "api/sonde.h"
#endif
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 400000

static void *held[MOST];
static int count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void keep(void *block) {
    pthread_mutex_lock(&lock);
    if (count < MOST)
        held[count++] = block;
    pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) static void hold_small(void) {
    for (int i = 0; i < 64000; i++)
        keep(malloc(1000));
}

__attribute__((noinline)) static void hold_large(void) {
    for (int i = 0; i < 50; i++)
        keep(malloc(1 << 20));
}

/* Mixed sizes, 7 to 1, on one stack. */
__attribute__((noinline)) static void hold_mixed(void) {
    for (int i = 0; i < 160000; i++)
        keep(malloc(i % 8 ? 32 : 2048));
}

__attribute__((noinline)) static void hold_deep(int depth) {
    if (depth > 0)
        hold_deep(depth - 1);
    else
        for (int i = 0; i < 20; i++)
            keep(malloc(1 << 20));
    __asm__ volatile("" ::: "memory"); /* no tail call */
}

static void *hold_in_thread(void *unused) {
    hold_deep(20);
    return NULL;
}

static void hold_in_threads(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, hold_in_thread, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

#define STORM_THREADS 8

static pthread_t storm_threads[STORM_THREADS];
static _Atomic unsigned long storm_rounds[STORM_THREADS];
static _Atomic int is_storming;

static void *storm(void *number) {
    void *blocks[64] = {0};
    for (size_t i = 0; is_storming; i++) {
        size_t at = i % 64;
        free(blocks[at]);
        blocks[at] = i % 7 ? malloc(16 + i % 3000) : calloc(1, 1 << 15);
        storm_rounds[(size_t)number]++;
    }
    for (size_t i = 0; i < 64; i++)
        free(blocks[i]);
    return NULL;
}

static void start_storm(void) {
    is_storming = 1;
    for (size_t i = 0; i < STORM_THREADS; i++) {
        storm_rounds[i] = 0;
        pthread_create(&storm_threads[i], NULL, storm, (void *)i);
    }
}

static void wait_for_progress(void) {
    for (size_t i = 0; i < STORM_THREADS; i++)
        for (unsigned long before = storm_rounds[i]; storm_rounds[i] < before + 100;)
            sched_yield();
}

static void end_storm(void) {
    wait_for_progress();
    is_storming = 0;
    for (size_t i = 0; i < STORM_THREADS; i++)
        pthread_join(storm_threads[i], NULL);
}

#ifdef HOLDER_STATIC
int mallctl(const char *name, void *old, size_t *old_bytes, void *value, size_t bytes);

/* jemalloc has room for four hooks. */
static int free_hooks(void) {
    void *hooks[4] = {NULL}, *handles[4];
    size_t bytes = sizeof handles[0];
    int got = 0;
    while (got < 4 &&
           mallctl("experimental.hooks.install", &handles[got], &bytes, hooks, sizeof hooks) == 0)
        got++;
    for (int i = 0; i < got; i++)
        mallctl("experimental.hooks.remove", NULL, NULL, &handles[i], sizeof handles[i]);
    return got;
}

static void wait_without_hooks(void) {
    while (free_hooks() < 4)
        sched_yield();
}
#else
static void wait_without_hooks(void) {
}
#endif

static void free_all(void) {
    for (int i = 0; i < count; i++)
        free(held[i]);
    count = 0;
}

static void start_guest(void) {
#ifdef HOLDER_LINKED
    (void)sonde_start(NULL);
#endif
}

static void stop_guest(void) {
#ifdef HOLDER_LINKED
    sonde_stop();
#endif
}

static void enter_chroot(void) {
    const char *folder = getenv("TMPDIR");
    if (chroot(folder ? folder : "/tmp") || chdir("/"))
        exit(1);
}

int main(void) {
    char line[16];
    start_guest();
    while (fgets(line, sizeof line, stdin)) {
        if (line[0] == 's') {
            hold_small();
            hold_large();
            hold_mixed();
        }
        if (line[0] == 'd')
            hold_deep(100);
        if (line[0] == 'D')
            hold_deep(1000);
        if (line[0] == 't')
            hold_in_threads();
        if (line[0] == 'f')
            free_all();
        if (line[0] == 'w')
            start_storm();
        if (line[0] == 'W')
            end_storm();
        if (line[0] == 'p')
            wait_for_progress();
        if (line[0] == 'h')
            wait_without_hooks();
        if (line[0] == 'c')
            enter_chroot();
        if (line[0] == 'q')
            stop_guest();
        if (line[0] == 'r')
            start_guest();
        putchar(line[0]);
        fflush(stdout);
    }
    return 0;
}
