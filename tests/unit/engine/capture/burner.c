/* SPDX-License-Identifier: Apache-2.0
 *
 * Burns CPU in known shares, 70 : 20 : 10, on three threads, until it is killed. Each turn is
 * measured by the thread's own CPU clock, so the shares hold on a busy machine; the turns' lengths
 * vary, so that no tick can keep step with them. */
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

/* Makes one call of work() last as long as 20 readings of the clock, on whatever CPU this is: then
 * nearly all time passes in work(). */
static void calibrate(void) {
    int64_t begin = cpu_ns();
    for (int i = 0; i < 20; i++)
        cpu_ns();
    int64_t wanted_ns = cpu_ns() - begin, took_ns = 0;
    while (took_ns < wanted_ns) {
        turns *= 2;
        begin = cpu_ns();
        work();
        took_ns = cpu_ns() - begin;
    }
}

/* Burns ns of CPU time since `edge`, on the average of many turns, and returns the clock then: what
 * a turn took too much, the next one takes less. The function's name is what the test looks for. */
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
    alarm(60); /* should its test die */
    calibrate();
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run, names[i]) != 0)
            return 1;
    }
    for (;;)
        pause();
}
