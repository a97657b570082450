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

__attribute__((noinline)) static void work(void) {
    for (int i = 0; i < 20000; i++)
        sink += (uint64_t)i * sink;
}

/* The function's name is what the test looks for. */
#define BURN(name)                                    \
    __attribute__((noinline)) void name(int64_t ns);  \
    __attribute__((noinline)) void name(int64_t ns) { \
        int64_t until = cpu_ns() + ns;                \
        while (cpu_ns() < until)                      \
            work();                                   \
        __asm__ volatile("");                         \
    }
BURN(burn_seventy)
BURN(burn_twenty)
BURN(burn_ten)

static void *run(void *name) {
    unsigned seed = (unsigned)(uintptr_t)name;
    pthread_setname_np(pthread_self(), name);
    for (;;) {
        int64_t unit = 500000 + rand_r(&seed) % 1000000;
        burn_seventy(7 * unit);
        burn_twenty(2 * unit);
        burn_ten(unit);
    }
    return NULL;
}

int main(int argc, char **argv) {
    static char *const names[] = {"alpha", "beta", "gamma"};
    alarm(60); /* should its test die */
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run, names[i]) != 0)
            return 1;
    }
    for (;;)
        pause();
}
