/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with the guest and a capture of it, as most tests need them. */
#ifndef SONDE_TESTS_UNIT_GUEST_SCENE_H
#define SONDE_TESTS_UNIT_GUEST_SCENE_H

#include "tests/unit/guest/fake.h"

#define BEST   sonde_guest_v1_ClockChoice_CLOCK_BEST
#define PERF   sonde_guest_v1_ClockChoice_CLOCK_PERF
#define TIMER  sonde_guest_v1_ClockChoice_CLOCK_TIMER
#define ITIMER sonde_guest_v1_ClockChoice_CLOCK_ITIMER

#define HZ(rate) (1000000000ull / (rate))

struct line {
    char word[32];
    long long a, b;
};

struct scene {
    struct fake fake;
    struct fake_child child;
    struct fake_guest guest;
};

/* Starts `subject VERB ARGUMENT`, waits for its guest, and returns its first line. */
struct line scene_begin(struct scene *scene, const char *verb, int argument);
/* The same as on a CPU of another speed (subject/subject.h). */
struct speed {
    int spins, readings;
};
#define USUAL_SPEED ((struct speed){8000, 1})
#define SLOW_LOOP   ((struct speed){80000, 1})
#define FAST_LOOP   ((struct speed){800, 1})
#define SLOW_CLOCK  ((struct speed){800, 20}) /* reading the clock takes nearly all the time */
struct line scene_begin_at(struct scene *scene, struct speed speed, const char *verb, int argument);
struct line scene_line(struct scene *scene);
/* Reads records until the program prints a line. Fails the test after 30 s. */
struct line scene_pump_line(struct scene *scene);
struct line scene_pump_long(struct scene *scene, int seconds); /* fails the test after that */
/* Starts a capture and lets the program work. Skips the test when this machine refuses the
 * clock. */
void scene_capture(struct scene *scene, uint64_t period_ns, sonde_guest_v1_ClockChoice clock);
/* Lets the program end and checks that it exits with 0. */
void scene_end(struct scene *scene);

#endif
