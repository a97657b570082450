/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/guest/scene.h"

#include "tests/unit/check.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SUBJECT "tests/unit/guest/subject/subject"

static struct line parse(const char *text) {
    struct line line = {"", 0, 0};
    CHECK_INT(sscanf(text, "%31s %lld %lld", line.word, &line.a, &line.b), ==, 3);
    return line;
}

struct line scene_line(struct scene *scene) {
    char text[256];
    fake_read_line(&scene->child, text, sizeof text);
    return parse(text);
}

struct line scene_begin(struct scene *scene, const char *verb, int argument) {
    char number[16];
    snprintf(number, sizeof number, "%d", argument);
    char *const argv[] = {SUBJECT, (char *)verb, number, NULL};
    memset(scene, 0, sizeof *scene);
    fake_open(&scene->fake);
    fake_spawn(&scene->fake, argv, &scene->child);
    fake_accept_pid(&scene->fake, &scene->guest, scene->child.pid);
    return scene_line(scene);
}

static void set_number(const char *name, int number) {
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    setenv(name, text, 1);
}

struct line scene_begin_at(struct scene *scene, struct speed speed, const char *verb,
                           int argument) {
    set_number("SUBJECT_SPINS", speed.spins);
    set_number("SUBJECT_READINGS", speed.readings);
    struct line line = scene_begin(scene, verb, argument);
    unsetenv("SUBJECT_SPINS");
    unsetenv("SUBJECT_READINGS");
    return line;
}

struct line scene_pump_long(struct scene *scene, int seconds) {
    for (int i = 0; i < seconds * 200; i++) {
        struct pollfd wait = {scene->child.out, POLLIN, 0};
        if (poll(&wait, 1, 0) > 0)
            return scene_line(scene);
        if (scene->guest.gone)
            usleep(5000);
        else
            fake_pump(&scene->guest, 5);
    }
    check_fail(__FILE__, __LINE__, "the program prints nothing");
}

struct line scene_pump_line(struct scene *scene) {
    return scene_pump_long(scene, 30);
}

void scene_capture(struct scene *scene, uint64_t period_ns, sonde_guest_v1_ClockChoice clock) {
    fake_configure(&scene->guest, period_ns, clock);
    const sonde_guest_v1_CpuState *state = &scene->guest.state;
    if (!state->running) {
        fake_poke(&scene->child);
        check_skip("no clock on this machine: %s (error %d)", state->note, state->os_error);
    }
    fake_poke(&scene->child);
}

void scene_end(struct scene *scene) {
    fake_poke(&scene->child);
    CHECK_INT(fake_wait(&scene->child), ==, 0);
    fake_release(&scene->guest);
    fake_close(&scene->fake);
}
