/* SPDX-License-Identifier: Apache-2.0
 *
 * A thousand threads, each of which alternates between a little work and a short wait. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define THREADS 1000
#define WORK_NS 150000 /* of CPU time, about three times a second */

static long cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

static void *work(void *number) {
    unsigned value = (unsigned)(long)number;
    for (;;) {
        for (long end = cpu_ns() + WORK_NS; cpu_ns() < end;)
            for (volatile int i = 0; i < 4000; i++)
                value = value * 1664525u + 1013904223u;
        usleep(200000 + value % 200000);
    }
    return NULL;
}

int main(void) {
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 << 10);
    for (long i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attr, work, (void *)i) != 0)
            return 1;
    }
    puts("ready");
    fflush(stdout);
    pause();
}
