/* SPDX-License-Identifier: Apache-2.0
 *
 * spin SECONDS: a thread burns CPU time in a leaf below a caller, without frame pointers, while the
 * main thread waits for it. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static volatile unsigned sink;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

__attribute__((noinline, noclone)) void spin_leaf(void);
void spin_leaf(void) {
    unsigned value = sink;
    for (int i = 0; i < 200000; i++)
        value = value * 1664525u + 1013904223u;
    sink = value;
}

__attribute__((noinline, noclone)) void spin_caller(double end_s);
void spin_caller(double end_s) {
    do
        spin_leaf();
    while (now_s() < end_s);
    __asm__ volatile("");
}

__attribute__((noinline, noclone)) void *spin_worker(void *seconds);
void *spin_worker(void *seconds) {
    spin_caller(now_s() + *(double *)seconds);
    __asm__ volatile("");
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    double seconds = argc > 1 ? atof(argv[1]) : 10;
    if (pthread_create(&thread, NULL, spin_worker, &seconds) != 0)
        return 1;
    return pthread_join(thread, NULL);
}
