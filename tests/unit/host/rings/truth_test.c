/* SPDX-License-Identifier: Apache-2.0
 *
 * What samples from outside say about a program whose work is known (tests/unit/guest/subject),
 * with the clocks of all CPUs and with those of its threads. */
#include "service/host/rings/rings.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SUBJECT    "tests/unit/guest/subject/subject"
#define MS         1000000ull
#define HZ(rate)   (1000000000ull / (rate))
#define MAX_PARTS  3
#define DEADLINE_S 60

enum source { ALL_CPUS = 0, OWN_THREADS, SOURCES };

struct part {
    uint64_t start, end, weight_ns;
};

struct scene {
    pid_t pid;
    FILE *to, *from;
    struct rings *rings;
    struct part parts[MAX_PARTS];
    bool with_callers; /* a part also has the samples of what it calls */
    uint64_t weight_ns, user_ns, run_ns;
};

struct line {
    char word[32];
    long long a, b;
};

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct line read_line(struct scene *scene) {
    char text[256];
    struct line line = {"", 0, 0};
    CHECK(fgets(text, sizeof text, scene->from) != NULL);
    CHECK_INT(sscanf(text, "%31s %lld %lld", line.word, &line.a, &line.b), ==, 3);
    return line;
}

static void poke(struct scene *scene) {
    CHECK(fputc('\n', scene->to) != EOF && fflush(scene->to) == 0);
}

/* Starts `subject VERB ARGUMENT`, which prints what it is ready for. */
static struct line begin(struct scene *scene, const char *verb, int argument) {
    int to[2], from[2];
    char number[16];
    *scene = (struct scene){0};
    snprintf(number, sizeof number, "%d", argument);
    CHECK(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
    scene->pid = fork();
    if (scene->pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        alarm(2 * DEADLINE_S);
        execl(SUBJECT, SUBJECT, verb, number, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    scene->to = fdopen(to[1], "w");
    scene->from = fdopen(from[0], "r");
    return read_line(scene);
}

static bool is_in(const struct scene *scene, const struct host_sample *sample,
                  const struct part *part) {
    uint64_t pc = sample->registers.value[UNWIND_REG_PC];
    for (uint32_t at = 0; scene->with_callers && at + 8 <= sample->stack_bytes; at += 8) {
        if (pc >= part->start && pc < part->end)
            break;
        memcpy(&pc, sample->stack + at, 8);
    }
    return pc >= part->start && pc < part->end;
}

static void on_record(void *context, const struct host_record *record) {
    struct scene *scene = context;
    if (record->kind != HOST_SAMPLE || record->pid != scene->pid)
        return;
    scene->weight_ns += record->sample.weight_ns;
    scene->user_ns += record->sample.is_in_kernel ? 0 : record->sample.weight_ns;
    for (int i = 0; i < MAX_PARTS; i++)
        if (is_in(scene, &record->sample, &scene->parts[i]))
            scene->parts[i].weight_ns += record->sample.weight_ns;
}

/* Samples the program until it prints its next line. */
static struct line sample(struct scene *scene, enum source source, uint64_t period_ns,
                          bool has_kernel) {
    struct rings_options options = {.pids = &scene->pid,
                                    .pid_count = source == ALL_CPUS ? 0 : 1,
                                    .period_ns = period_ns,
                                    .stack_bytes = HOST_MIN_STACK,
                                    .has_kernel = has_kernel};
    struct sonde_diag diag = {0};
    sonde_err err = rings_open(&options, &scene->rings, &diag);
    if (err)
        check_skip("perf is refused here: %s", sonde_diag_text(&diag, err));
    struct pollfd wait = {.fd = fileno(scene->from), .events = POLLIN};
    uint64_t deadline = now_ns() + DEADLINE_S * 1000 * MS, dithered = 0;
    rings_start(scene->rings);
    poke(scene);
    while (now_ns() < deadline && poll(&wait, 1, 10) == 0) {
        rings_drain(scene->rings, now_ns() - 5 * MS, on_record, scene, NULL);
        if (now_ns() - dithered > 20 * MS) {
            rings_set_period(scene->rings, period_ns);
            dithered = now_ns();
        }
    }
    rings_stop(scene->rings);
    rings_drain(scene->rings, 0, on_record, scene, NULL);
    scene->run_ns = rings_run_ns(scene->rings, scene->pid);
    struct rings_counts counts;
    rings_counts(scene->rings, &counts);
    CHECK_INT(counts.lost + counts.invalid, ==, 0);
    return read_line(scene);
}

static void end(struct scene *scene) {
    int status;
    poke(scene);
    CHECK(waitpid(scene->pid, &status, 0) == scene->pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    rings_close(scene->rings);
    fclose(scene->to);
    fclose(scene->from);
}

static void set_part(struct scene *scene, int part, struct line line) {
    scene->parts[part].start = (uint64_t)line.a;
    scene->parts[part].end = (uint64_t)line.b;
}

/* E12, E16. The program's cycle is 1 ms. */
static void check_shares(enum source source, uint64_t period_ns, int ms, double phase_error) {
    struct scene scene;
    struct line line = begin(&scene, "shares", ms);
    set_part(&scene, 0, line);
    set_part(&scene, 1, read_line(&scene));
    set_part(&scene, 2, read_line(&scene));
    struct line burned = sample(&scene, source, period_ns, true), more = read_line(&scene);
    double truth[] = {(double)burned.b, (double)more.a, (double)more.b};
    double all = truth[0] + truth[1] + truth[2], seen = 0;
    for (int i = 0; i < MAX_PARTS; i++)
        seen += (double)scene.parts[i].weight_ns;
    for (int i = 0; i < MAX_PARTS; i++) {
        double share = truth[i] / all;
        double sigma = sqrt(share * (1 - share) / (seen / (double)period_ns));
        CHECK_NEAR((double)scene.parts[i].weight_ns / seen, share, 4 * sigma + 0.005 + phase_error);
    }
    end(&scene);
}

TEST(shares_come_out_in_step_with_the_clocks_of_cpus) {
    check_shares(ALL_CPUS, HZ(1000), 100, 0);
    check_shares(ALL_CPUS, HZ(250), 150, 0);
}

/* The clocks of a thread keep their random periods, one of which may be nearly in step with a tenth
 * of the cycle: then ten points of the cycle are seen. */
TEST(shares_come_out_in_step_with_the_clocks_of_threads) {
    check_shares(OWN_THREADS, HZ(10000), 100, 0.05);
}

/* E18. */
TEST(weights_with_the_kernel_are_the_cpu_clock) {
    for (enum source source = 0; source < SOURCES; source++) {
        struct scene scene;
        begin(&scene, "kernel", 200);
        double truth = (double)sample(&scene, source, HZ(999), true).a;
        /* The clock of a CPU meets the program by chance if it shares the CPU with others. */
        double sigma = source == ALL_CPUS ? sqrt(truth * (double)HZ(999)) : 0;
        CHECK_NEAR((double)scene.weight_ns, truth, 0.04 * truth + 4e6 + 4 * sigma);
        CHECK_INT(scene.user_ns, <, scene.weight_ns / 2);
        end(&scene);
    }
}

/* Without the kernel there are fewer samples, but it is known how much time they do not show. */
TEST(time_without_samples_is_known) {
    struct scene scene;
    begin(&scene, "kernel", 100);
    double truth = (double)sample(&scene, OWN_THREADS, HZ(999), false).a;
    CHECK_NEAR((double)scene.run_ns, truth, 0.15 * truth + 2e6); /* perf counts stolen time, too */
    CHECK_INT(scene.weight_ns, <, scene.run_ns / 2);
    end(&scene);
}

/* E14. Each thread would have to live for a period to be seen by a clock of its own. */
TEST(threads_of_one_millisecond_are_counted) {
    static const uint64_t periods[] = {HZ(99), HZ(999)};
    for (int i = 0; i < 2; i++) {
        struct scene scene;
        struct line life = begin(&scene, "threads", 200);
        scene.with_callers = true;
        set_part(&scene, 0, life);
        double truth = (double)sample(&scene, ALL_CPUS, periods[i], true).a;
        double sigma = sqrt(truth * (double)periods[i]);
        CHECK_NEAR((double)scene.parts[0].weight_ns, truth, 0.05 * truth + 4 * sigma);
        end(&scene);
    }
}

/* The threads are shorter than a period of their clocks: all of their time is known, none is
 * seen. */
TEST(threads_that_end_before_a_period_are_known_too) {
    struct scene scene;
    begin(&scene, "threads", 60);
    double truth = (double)sample(&scene, OWN_THREADS, HZ(49), true).a;
    CHECK_INT(scene.run_ns, >, (uint64_t)(0.9 * truth));
    CHECK_INT(scene.weight_ns, <, (uint64_t)(0.5 * truth));
    end(&scene);
}

/* E15. */
TEST(work_in_step_with_the_tick_is_counted) {
    for (enum source source = 0; source < SOURCES; source++) {
        struct scene scene;
        begin(&scene, "in_step", 80);
        double truth = (double)sample(&scene, source, HZ(999), true).a;
        double sigma = sqrt(truth * (double)HZ(999));
        CHECK_NEAR((double)scene.weight_ns, truth, 0.04 * truth + 4 * sigma);
        end(&scene);
    }
}
