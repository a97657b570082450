/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that works in a rhythm, in three functions, and prints how long each has really taken:
 *
 *     rhythm slices US SECONDS   10, 23 and 67 % of cycles of US microseconds, by its own clock
 *     rhythm fixed US SECONDS    the same amounts of work again and again, about US a cycle
 *     rhythm timer HZ SECONDS    40 % of each period of a timer
 *     rhythm reacts US SECONDS   small steps; one that was interrupted is followed by US of work
 *
 * The line that it prints has the seconds of work_ten, work_twenty and work_seventy. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S       1000000000ll
#define STEP           10000 /* turns of a loop, some 10 us, so that reading the clock is little */
#define INTERRUPTED_NS 1500  /* a step that takes so much longer was interrupted */
#define CALIBRATION    1000  /* steps */

static volatile unsigned sink;
static int64_t spent[3];

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* One function for each share, because a profile tells functions apart. */
#define WORK(name, turn)                                                        \
    __attribute__((noinline, noclone)) static void work_##name(int64_t steps) { \
        unsigned x = sink;                                                      \
        for (int64_t i = 0; i < steps * STEP; i++)                              \
            x = turn;                                                           \
        sink = x;                                                               \
    }
WORK(ten, x * 1664525u + 1013904223u)
WORK(twenty, (x ^ (x >> 3)) * 22695477u)
WORK(seventy, x * 69069u + (x >> 16))

static void (*const works[3])(int64_t) = {work_ten, work_twenty, work_seventy};
static const double shares[3] = {0.10, 0.23, 0.67};

static void work_ns(int which, int64_t ns) {
    int64_t begin = now_ns(), now;
    do
        works[which](1);
    while ((now = now_ns()) < begin + ns);
    spent[which] += now - begin;
}

static void cycle_ns(int64_t ns) {
    for (int i = 0; i < 3; i++)
        work_ns(i, (int64_t)(shares[i] * (double)ns));
}

static void slices(int64_t us, int64_t until) {
    while (now_ns() < until)
        cycle_ns(us * 1000);
}

static int64_t steps_for(int which, double ns) {
    int64_t begin = now_ns();
    works[which](CALIBRATION);
    double each = (double)(now_ns() - begin) / CALIBRATION;
    int64_t steps = (int64_t)(ns / each);
    return steps > 0 ? steps : 1;
}

static void fixed(int64_t us, int64_t until) {
    int64_t steps[3], begin;
    for (int i = 0; i < 3; i++)
        steps[i] = steps_for(i, shares[i] * (double)us * 1000);
    while ((begin = now_ns()) < until)
        for (int i = 0; i < 3; i++) {
            works[i](steps[i]);
            int64_t end = now_ns();
            spent[i] += end - begin;
            begin = end;
        }
}

static void timer(int64_t hz, int64_t until) {
    int64_t period = NS_PER_S / hz;
    struct itimerspec times = {
        .it_interval = {.tv_sec = period / NS_PER_S, .tv_nsec = period % NS_PER_S}};
    times.it_value = times.it_interval;
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    uint64_t expired;
    if (fd < 0 || timerfd_settime(fd, 0, &times, NULL) != 0)
        exit(1);
    while (now_ns() < until && read(fd, &expired, sizeof expired) == sizeof expired)
        cycle_ns(period * 2 / 5);
    close(fd);
}

static void reacts(int64_t us, int64_t until) {
    int64_t shortest = INT64_MAX, begin = now_ns();
    while (begin < until) {
        work_seventy(1);
        int64_t end = now_ns();
        spent[2] += end - begin;
        if (end - begin < shortest)
            shortest = end - begin;
        if (end - begin > shortest + INTERRUPTED_NS)
            work_ns(0, us * 1000);
        begin = now_ns();
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(int64_t, int64_t);
    } kinds[] = {{"slices", slices}, {"fixed", fixed}, {"timer", timer}, {"reacts", reacts}};
    int64_t amount = argc == 4 ? atoll(argv[2]) : 0;
    double seconds = argc == 4 ? atof(argv[3]) : 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && amount > 0; i++) {
        if (strcmp(kinds[i].name, argv[1]) != 0)
            continue;
        kinds[i].run(amount, now_ns() + (int64_t)(seconds * (double)NS_PER_S));
        printf("spent %.6f %.6f %.6f\n", (double)spent[0] / NS_PER_S, (double)spent[1] / NS_PER_S,
               (double)spent[2] / NS_PER_S);
        return 0;
    }
    fprintf(stderr, "usage: rhythm slices|fixed|timer|reacts NUMBER CPU-SECONDS\n");
    return 2;
}
