/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes of every kind for kinds_test.py. Each mode burns SECONDS of CPU time in all:
 *
 *     burn SECONDS                one process
 *     threads SECONDS COUNT       threads, four at a time, one after the other
 *     fork SECONDS COUNT          children, four at a time
 *     spawn SECONDS COUNT PATH    the same of another program, which is started COUNT times
 *     chain SECONDS PATH...       each program is replaced by the next one
 *     rename SECONDS NAME         it is called NAME in the second half
 *     names SECONDS COUNT PREFIX  COUNT programs, called PREFIX and a number, four at a time */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { AT_ONCE = 4 };

static volatile unsigned sink;

static double cpu_s(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void burn_until(clockid_t clock, double seconds) {
    while (cpu_s(clock) < seconds)
        for (unsigned i = 0; i < 20000; i++)
            sink += i;
}

static void *run_thread(void *share) {
    burn_until(CLOCK_THREAD_CPUTIME_ID, *(const double *)share);
    return NULL;
}

static void run_threads(double seconds, int count) {
    double share = seconds / count;
    for (int started = 0; started < count; started += AT_ONCE) {
        pthread_t threads[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++)
            if (pthread_create(&threads[i], NULL, run_thread, &share) != 0)
                abort();
        for (int i = 0; i < AT_ONCE; i++)
            pthread_join(threads[i], NULL);
    }
}

/* A child, which runs the program at `path`; "" = none. */
static void start_child(double share, const char *path) {
    char text[32];
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (pid > 0)
        return;
    snprintf(text, sizeof text, "%.6f", share);
    if (path[0])
        execl(path, path, "burn", text, (char *)NULL);
    else
        burn_until(CLOCK_PROCESS_CPUTIME_ID, share);
    _exit(path[0] != 0);
}

static void run_children(double seconds, int count, const char *path, bool is_prefix) {
    char name[4096];
    for (int started = 0; started < count; started++) {
        if (started >= AT_ONCE)
            wait(NULL);
        snprintf(name, sizeof name, "%s%.0d", path, is_prefix ? started + 1 : 0);
        start_child(seconds / count, name);
    }
    while (wait(NULL) > 0)
        continue;
}

/* An exec keeps the clock of the process. */
static void run_chain(double seconds, int count, char **paths) {
    char *words[16] = {paths[0], "chain", NULL};
    char text[32];
    burn_until(CLOCK_PROCESS_CPUTIME_ID, cpu_s(CLOCK_PROCESS_CPUTIME_ID) + seconds / (count + 1));
    if (count == 0)
        return;
    snprintf(text, sizeof text, "%.6f", seconds * count / (count + 1));
    words[2] = text;
    for (int i = 1; i < count && i < 12; i++)
        words[2 + i] = paths[i];
    execv(paths[0], words);
    abort();
}

int main(int argc, char **argv) {
    const char *mode = argc > 2 ? argv[1] : "";
    double seconds = argc > 2 ? atof(argv[2]) : 0;
    int count = argc > 3 ? atoi(argv[3]) : 1;
    if (strcmp(mode, "burn") == 0)
        burn_until(CLOCK_PROCESS_CPUTIME_ID, seconds);
    else if (strcmp(mode, "threads") == 0)
        run_threads(seconds, count);
    else if (strcmp(mode, "fork") == 0)
        run_children(seconds, count, "", false);
    else if (strcmp(mode, "spawn") == 0)
        run_children(seconds, count, argv[4], false);
    else if (strcmp(mode, "chain") == 0)
        run_chain(seconds, argc - 3, argv + 3);
    else if (strcmp(mode, "names") == 0)
        run_children(seconds, count, argv[4], true);
    else if (strcmp(mode, "rename") == 0) {
        burn_until(CLOCK_PROCESS_CPUTIME_ID, seconds / 2);
        prctl(PR_SET_NAME, argv[3]);
        burn_until(CLOCK_PROCESS_CPUTIME_ID, seconds);
    } else
        return 2;
    return 0;
}
