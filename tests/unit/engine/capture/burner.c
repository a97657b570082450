/* SPDX-License-Identifier: Apache-2.0
 *
 * Burns CPU time in the shares 70 : 20 : 10 on three threads until it is killed. Each turn is
 * measured by the thread's CPU clock, so the shares hold on a busy machine. The lengths of the
 * turns vary, so that no tick is in phase with them. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t sink;

static int64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static int turns = 1000;

__attribute__((noinline)) static void work(void) {
    for (int i = 0; i < turns; i++)
        sink += (uint64_t)i * sink;
}

static int64_t work_ns(void) {
    int64_t begin = cpu_ns();
    work();
    return cpu_ns() - begin;
}

/* Calibrates work() to last as long as 20 readings of the clock, so that on any CPU nearly all time
 * is spent in work(). The shortest of five runs counts: a guest's CPU clock includes what the host
 * takes from it. */
static void calibrate(void) {
    int64_t begin = cpu_ns();
    for (int i = 0; i < 20; i++)
        cpu_ns();
    int64_t wanted_ns = cpu_ns() - begin, took_ns = 0;
    while (took_ns < wanted_ns) {
        turns *= 2;
        took_ns = work_ns();
        for (int i = 0; i < 4; i++) {
            int64_t again_ns = work_ns();
            took_ns = again_ns < took_ns ? again_ns : took_ns;
        }
    }
}

/* Burns CPU time until `ns` after `edge`, and returns that time. A turn that took too long shortens
 * the next one, so the average is right. The test looks for the function by its name. */
#define BURN(name)                                                     \
    __attribute__((noinline)) int64_t name(int64_t edge, int64_t ns);  \
    __attribute__((noinline)) int64_t name(int64_t edge, int64_t ns) { \
        static __thread int64_t over_ns;                               \
        int64_t until = edge + ns - over_ns, now = edge;               \
        while (now < until) {                                          \
            work();                                                    \
            now = cpu_ns();                                            \
        }                                                              \
        over_ns = now - until;                                         \
        return now;                                                    \
    }
BURN(burn_seventy)
BURN(burn_twenty)
BURN(burn_ten)

static void *run(void *name) {
    unsigned seed = (unsigned)(uintptr_t)name;
    int64_t edge = cpu_ns();
    pthread_setname_np(pthread_self(), name);
    for (;;) {
        int64_t unit = 500000 + rand_r(&seed) % 1000000;
        edge = burn_seventy(edge, 7 * unit);
        edge = burn_twenty(edge, 2 * unit);
        edge = burn_ten(edge, unit);
    }
    return NULL;
}

int main(int argc, char **argv) {
    static char *const names[] = {"alpha", "beta", "gamma"};
    alarm(60); /* ends by itself if its test dies */
    calibrate();
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run, names[i]) != 0)
            return 1;
    }
    for (;;)
        pause();
}
