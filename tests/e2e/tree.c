/* SPDX-License-Identifier: Apache-2.0
 *
 * tree MS: burns MS of CPU time in burn_parent, then as much in burn_child of a child process.
 * Exits with 3. */
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned sink;

static double cpu_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void work(void) {
    for (unsigned i = 0; i < 20000; i++)
        sink += i;
}

__attribute__((noinline)) void burn_parent(double ms) {
    while (cpu_ms() < ms)
        work();
}

__attribute__((noinline)) void burn_child(double ms) {
    while (cpu_ms() < ms)
        work();
}

int main(int argc, char **argv) {
    double ms = argc > 1 ? atof(argv[1]) : 0;
    burn_parent(ms);
    if (fork() == 0) {
        burn_child(ms);
        _exit(0);
    }
    wait(NULL);
    return 3;
}
