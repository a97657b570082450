/* SPDX-License-Identifier: Apache-2.0
 *
 * A target for userlands.sh, compiled in each user land in three ways. By itself it has one thread
 * and, before glibc 2.34, neither libpthread nor libdl. With -DOPENED it opens libsonde.so itself.
 * With -DMANY it creates threads, opens libraries, forks and executes programs, and prints what
 * fails. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) static unsigned leaf(unsigned count) {
    volatile unsigned sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += i * i;
    return sum;
}

__attribute__((noinline)) static unsigned caller(unsigned count) {
    unsigned result = leaf(count);
    __asm__ volatile(""); /* prevents a tail call */
    return result + 1;
}

__attribute__((noinline)) static void work(void) {
    for (unsigned sum = 0;;) {
        sum += caller(100000);
        void *volatile block = malloc(1000 + sum % 1000);
        if (sum % 7)
            free(block);
    }
}

#if defined OPENED

#include <dlfcn.h>

int main(void) {
    void *library = dlopen("/usr/lib/libsonde.so", RTLD_NOW);
    int (*start)(const void *) =
        library ? (int (*)(const void *))dlsym(library, "sonde_start") : NULL;
    if (!start || start(NULL) != 0)
        return 1;
    work();
}

#elif !defined MANY

int main(void) {
    work();
}

#else

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void *endless(void *unused) {
    work();
    return NULL;
}

static void *brief(void *argument) {
    caller(1000);
    return argument;
}

static void start_thread(const pthread_attr_t *attr) {
    pthread_t thread;
    void *result = NULL;
    if (pthread_create(&thread, attr, brief, &thread) != 0)
        puts("pthread_create fails");
    else if (pthread_join(thread, &result) != 0 || result != &thread)
        puts("pthread_join fails");
}

static void open_library(void) {
    void *library = dlopen("libm.so.6", RTLD_NOW);
    double (*cosine)(double) = library ? (double (*)(double))dlsym(library, "cos") : NULL;
    if (!cosine || cosine(0) != 1)
        puts("dlopen fails");
    if (library && dlclose(library) != 0)
        puts("dlclose fails");
}

static void expect_success(pid_t child) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        puts("a child fails");
}

static void start_programs(void) {
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    expect_success(child);
    child = fork();
    if (child == 0) {
        start_thread(NULL);
        _exit(0);
    }
    expect_success(child);
    if (system("exit 0") != 0)
        puts("system fails");
}

int main(void) {
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 18);
    if (pthread_create(&thread, NULL, endless, NULL) != 0)
        puts("pthread_create fails");
    for (;;) {
        start_thread(NULL);
        start_thread(&small);
        open_library();
        start_programs();
        if (setuid(getuid()) != 0)
            puts("setuid fails");
        fflush(stdout);
        usleep(2000);
        caller(100000);
    }
}

#endif
