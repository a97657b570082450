/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the timers that a profiler could use, with empty signal handlers: no walk and no record.
 * Two busy threads do a fixed amount of work, in turns with and without ticks. Reported are the
 * ticks per second of a thread's CPU time and the cost relative to the work without ticks. Then it
 * counts how many system calls of blocked threads return EINTR because of wall-clock signals.
 *
 *     ticks_bench [MS of work per thread and turn] [TURNS]
 *
 * Prints lines for tests/bench/bench.py: "metric", name, value, unit, separated by tabs. */
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define WORKERS   2
#define HZ        10000
#define PERIOD_NS (1000000000 / HZ)
#define MAX_TURNS 32
#define CHUNK     20000

enum source { NOTHING, ITIMER, TIMER, PERF, SOURCES };
static const char *const names[SOURCES] = {"nothing", "setitimer", "timer_create", "perf sigtrap"};

static _Atomic uint64_t ticks;
static uint64_t chunks_each; /* work of each thread per turn */
static double costs[SOURCES][MAX_TURNS], rates[SOURCES][MAX_TURNS];

static double clock_s(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void on_tick(int signal) {
    atomic_fetch_add_explicit(&ticks, 1, memory_order_relaxed);
}

static void work(uint64_t chunks) {
    for (uint64_t i = 0; i < chunks; i++)
        for (volatile int k = 0; k < CHUNK; k++)
            continue;
}

static int start_perf(void) {
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_SW_CPU_CLOCK,
                                   .sample_period = PERIOD_NS,
                                   .exclude_hv = 1,
                                   .sigtrap = 1,
                                   .remove_on_exec = 1};
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static timer_t start_timer(void) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
    event._sigev_un._tid = (int)syscall(SYS_gettid);
    struct itimerspec every = {{0, PERIOD_NS}, {0, PERIOD_NS}};
    timer_t timer = NULL;
    if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0)
        timer_settime(timer, 0, &every, NULL);
    return timer;
}

static void *work_under(void *source) {
    int fd = -1;
    timer_t timer = NULL;
    if (*(enum source *)source == PERF)
        fd = start_perf();
    if (*(enum source *)source == TIMER)
        timer = start_timer();
    work(chunks_each);
    if (fd >= 0) {
        ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
        close(fd);
    }
    if (timer)
        timer_delete(timer);
    return NULL;
}

static void set_itimer(long period_us) {
    struct itimerval every = {{0, period_us}, {0, period_us}};
    setitimer(ITIMER_PROF, &every, NULL);
}

static void measure(enum source source, int turn) {
    pthread_t threads[WORKERS];
    uint64_t before = ticks;
    double cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);
    if (source == ITIMER)
        set_itimer(PERIOD_NS / 1000);
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, work_under, &source);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    if (source == ITIMER)
        set_itimer(0);
    costs[source][turn] = clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    rates[source][turn] = (double)(ticks - before) / costs[source][turn];
}

static int by_value(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

static void report(const char *name, const char *what, double value, const char *unit) {
    printf("metric\tticks: %s, %s\t%.3f\t%s\n", name, what, value, unit);
}

static void report_sources(int turns) {
    for (int source = ITIMER; source < SOURCES; source++) {
        double over[MAX_TURNS];
        for (int i = 0; i < turns; i++)
            over[i] = costs[source][i] / costs[NOTHING][i] - 1;
        double overhead = median(over, turns), rate = median(rates[source], turns);
        report(names[source], "delivered at 10 kHz", rate, "per thread-second");
        report(names[source], "overhead at 10 kHz", 100 * overhead, "%");
        if (rate > 0)
            report(names[source], "cost of a bare tick", 1e6 * overhead / rate, "us");
    }
}

/* --- wall-clock signals --- */

static _Atomic int over;
static _Atomic uint64_t interrupted;

static void *wait_in_poll(void *unused) {
    while (!over)
        interrupted += poll(NULL, 0, 50) < 0 && errno == EINTR;
    return NULL;
}

static void *wait_in_sleep(void *unused) {
    struct timespec span = {0, 50000000};
    while (!over)
        interrupted += nanosleep(&span, NULL) < 0 && errno == EINTR;
    return NULL;
}

static void measure_wall_signals(double seconds) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, wait_in_poll, NULL);
    pthread_create(&threads[1], NULL, wait_in_sleep, NULL);
    struct timespec tenth = {0, 10000000};
    for (double end = clock_s(CLOCK_MONOTONIC) + seconds; clock_s(CLOCK_MONOTONIC) < end;) {
        nanosleep(&tenth, NULL);
        for (int i = 0; i < 2; i++)
            pthread_kill(threads[i], SIGUSR1);
    }
    over = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    report("wall-clock signals at 100 Hz", "calls interrupted", (double)interrupted / 2 / seconds,
           "per blocked thread and second");
}

int main(int argc, char **argv) {
    double ms = argc > 1 ? atof(argv[1]) : 500;
    int turns = argc > 2 ? atoi(argv[2]) : 5;
    turns = turns < 1 ? 1 : turns > MAX_TURNS ? MAX_TURNS : turns;
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    const int signals[] = {SIGPROF, SIGTRAP, SIGRTMIN, SIGUSR1};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
    double before = clock_s(CLOCK_THREAD_CPUTIME_ID);
    work(200);
    double chunk_s = (clock_s(CLOCK_THREAD_CPUTIME_ID) - before) / 200;
    chunks_each = (uint64_t)(ms / 1e3 / chunk_s) + 1;
    for (int turn = 0; turn < turns; turn++)
        for (int i = 0; i < SOURCES; i++)
            measure((enum source)((i + turn) % SOURCES), turn);
    report_sources(turns);
    measure_wall_signals(1);
    return 0;
}
