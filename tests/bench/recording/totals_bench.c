/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU time of a scan of all processes, next to reading every thread's stat: with this machine's
 * threads, and with idle and busy ones of its own.
 *
 *     totals_bench [THREADS [BUSY]] */
#include "service/recording/totals.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define SCANS 5

static double cpu_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void *run(void *is_busy) {
    volatile unsigned work = 0;
    for (;;) {
        if (!is_busy)
            pause();
        for (int i = 0; i < 1000000; i++)
            work = work + 1;
        usleep(100000);
    }
    return NULL;
}

/* The obvious way: the number of threads read. */
static unsigned read_all(void) {
    unsigned count = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc)) != NULL;) {
        char path[512], text[1024];
        snprintf(path, sizeof path, "/proc/%s/task", entry->d_name);
        DIR *tasks = atoi(entry->d_name) > 0 ? opendir(path) : NULL;
        for (struct dirent *task; tasks && (task = readdir(tasks)) != NULL;) {
            snprintf(path, sizeof path, "/proc/%s/task/%s/stat", entry->d_name, task->d_name);
            int fd = atoi(task->d_name) > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
            if (fd < 0)
                continue;
            count += read(fd, text, sizeof text) > 0;
            close(fd);
        }
        if (tasks)
            closedir(tasks);
    }
    if (proc)
        closedir(proc);
    return count;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 0, busy = argc > 2 ? atoi(argv[2]) : 0;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &small, run, i < busy ? "busy" : NULL) != 0)
            return 1;
    }
    struct totals *totals = totals_create("/proc", NULL);
    double scan_ms = 0, all_ms = 0;
    unsigned seen = 0;
    size_t count = 0;
    for (int i = 0; i <= SCANS; i++) {
        const struct totals_row *rows;
        double start_ms = cpu_ms();
        if (!totals || totals_scan(totals, &rows, &count, NULL) != SONDE_OK)
            return 1;
        double middle_ms = cpu_ms();
        seen = read_all();
        scan_ms += i ? middle_ms - start_ms : 0; /* the first one reads everything */
        all_ms += i ? cpu_ms() - middle_ms : 0;
        sleep(1);
    }
    printf("threads %u, rows %zu: a scan %.2f ms, reading every stat %.2f ms\n", seen, count,
           scan_ms / SCANS, all_ms / SCANS);
    fflush(stdout);
    _exit(0); /* with threads that never end */
}
