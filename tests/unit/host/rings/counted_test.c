/* SPDX-License-Identifier: Apache-2.0
 *
 * Counted events of a child that knows how many page faults it has had. */
#include "service/host/refusal.h"
#include "service/host/rings/counter.h"
#include "service/host/rings/rings.h"
#include "tests/unit/check.h"
#include "tests/unit/host/rings/child.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES     256u
#define PAGE      4096u
#define RATE_NS   10000000u
#define FEW       20000u
#define FOREIGN   50u /* faults of the child before and after it counts */
#define TASK_WAIT 2000u

static uint64_t *counted; /* by the child: its own page faults */
static uint64_t wanted;

static uint64_t own_faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}

static void fault(void) {
    uint8_t *memory =
        mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t before = own_faults();
    madvise(memory, PAGES * PAGE, MADV_NOHUGEPAGE);
    for (uint64_t i = 0; i < wanted; i += PAGES) {
        for (size_t page = 0; page < PAGES; page++)
            *(volatile uint8_t *)(memory + page * PAGE) = 1;
        madvise(memory, PAGES * PAGE, MADV_DONTNEED);
    }
    *counted = own_faults() - before;
}

struct seen {
    pid_t pid;
    uint64_t events, samples, uneven, every;
};

static void on_record(void *context, const struct host_record *record) {
    struct seen *seen = context;
    if (record->kind != HOST_SAMPLE || record->pid != seen->pid)
        return;
    seen->samples++;
    seen->events += record->sample.weight_ns;
    seen->uneven += seen->every && record->sample.weight_ns != seen->every;
}

static struct rings *open_rings(pid_t *pid, bool is_all, enum sonde_event_id event,
                                uint64_t every) {
    struct rings *rings = NULL;
    struct sonde_diag diag = {0};
    const struct rings_options options = {.pids = pid,
                                          .pid_count = is_all ? 0 : 1,
                                          .period_ns = RATE_NS,
                                          .event = event,
                                          .every = every,
                                          .stack_bytes = HOST_MIN_STACK,
                                          .has_kernel = geteuid() == 0};
    sonde_err err = rings_open(&options, &rings, &diag);
    if (err == SONDE_PERMISSION_DENIED)
        check_skip("perf is refused here: %s", diag.text);
    if (err)
        check_fail(__FILE__, __LINE__, "rings_open: %s", sonde_diag_text(&diag, err));
    return rings;
}

/* Has the child make its faults, and returns what the rings saw of it. */
static struct seen watch(bool is_all, uint64_t every, uint64_t faults, uint64_t *missed) {
    counted = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    wanted = faults;
    struct child child = child_start(fault);
    struct rings *rings = open_rings(&child.pid, is_all, SONDE_PAGE_FAULTS, every);
    struct seen seen = {.pid = child.pid, .every = every};
    struct rings_counts counts;
    rings_start(rings);
    child_go(child);
    while (waitid(P_PID, (id_t)child.pid, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           *counted == 0) {
        usleep(TASK_WAIT);
        rings_drain(rings, 0, on_record, &seen, NULL);
    }
    child_wait(child);
    rings_stop(rings);
    uint64_t total = rings_total(rings);
    rings_drain(rings, 0, on_record, &seen, NULL);
    rings_counts(rings, &counts);
    *missed = total > counts.sampled ? total - counts.sampled : 0;
    rings_close(rings);
    return seen;
}

static void check_exact(bool is_all) {
    uint64_t missed;
    struct seen seen = watch(is_all, 1, FEW, &missed);
    CHECK_INT(*counted, >=, FEW);
    CHECK_INT(seen.uneven, ==, 0);
    CHECK_INT(seen.samples, ==, seen.events);
    CHECK_INT(seen.events, >, 0);
    CHECK_NEAR((double)seen.events + (double)missed, (double)*counted, FOREIGN);
}

TEST(each_fault_of_a_process_is_a_sample_or_is_counted_as_missed) {
    check_exact(false);
}

TEST(each_fault_is_a_sample_or_is_counted_as_missed_with_all_cpus) {
    uint64_t missed;
    if (geteuid() != 0)
        check_skip("all CPUs need CAP_PERFMON");
    struct seen seen = watch(true, 1, FEW, &missed);
    /* What others missed is in it, too. */
    CHECK_INT(seen.events, <=, *counted + FOREIGN);
    CHECK_INT(seen.events + missed + FOREIGN, >=, *counted);
}

TEST(a_sample_stands_for_a_period_of_events) {
    uint64_t missed;
    struct seen seen = watch(false, 16, FEW, &missed);
    CHECK_INT(seen.uneven, ==, 0);
    CHECK_INT(seen.events, ==, 16 * seen.samples);
    /* Each CPU the child ran on has begun another period. */
    CHECK_INT(seen.events, <=, *counted + FOREIGN);
    CHECK_INT(seen.events + missed + FOREIGN, >=, *counted);
}

/* What a child of this process faults is not its own. Before Linux 5.13 the kernel adds it up. */
static uint64_t total_beside_a_child(bool is_one) {
    struct rings *rings = NULL;
    struct sonde_diag diag = {0};
    pid_t pid = getpid();
    const struct rings_options options = {.pids = &pid,
                                          .pid_count = 1,
                                          .period_ns = RATE_NS,
                                          .event = SONDE_PAGE_FAULTS,
                                          .every = FEW,
                                          .stack_bytes = HOST_MIN_STACK,
                                          .is_one = is_one};
    if (rings_open(&options, &rings, &diag) != SONDE_OK)
        check_skip("perf is refused here: %s", diag.text);
    rings_start(rings);
    pid_t child = fork();
    if (child == 0) {
        fault();
        _exit(0);
    }
    CHECK_INT(waitpid(child, NULL, 0), ==, child);
    uint64_t total = rings_total(rings);
    rings_close(rings);
    return total;
}

TEST(events_of_children_are_not_those_of_a_single_process) {
    counted = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    wanted = FEW;
    if (!refusal_kernel_at_least(5, 13))
        check_skip("children inherit the events of a process before Linux 5.13");
    CHECK_INT(total_beside_a_child(false), >=, FEW);
    CHECK_INT(total_beside_a_child(true), <, FEW / 10);
}

/* Of the kernel's own choice, samples of its events stand for far too many. */
TEST(software_events_are_not_left_to_the_kernels_rate) {
    struct rings *rings = NULL;
    struct sonde_diag diag = {0};
    pid_t pid = getpid();
    const struct rings_options options = {.pids = &pid,
                                          .pid_count = 1,
                                          .period_ns = RATE_NS,
                                          .event = SONDE_PAGE_FAULTS,
                                          .stack_bytes = HOST_MIN_STACK};
    CHECK_INT(rings_open(&options, &rings, &diag), ==, SONDE_NOT_AVAILABLE);
    CHECK(!rings);
}

TEST(a_counter_that_this_machine_does_not_have_is_refused_with_its_name) {
    struct rings *rings = NULL;
    struct sonde_diag diag = {0};
    pid_t pid = getpid();
    const struct rings_options options = {.pids = &pid,
                                          .pid_count = 1,
                                          .period_ns = RATE_NS,
                                          .event = SONDE_CYCLES,
                                          .stack_bytes = HOST_MIN_STACK};
    sonde_err err = rings_open(&options, &rings, &diag);
    rings_close(rings);
    if (!err)
        check_skip("this machine counts cycles");
    if (err == SONDE_PERMISSION_DENIED)
        check_skip("perf is refused here: %s", diag.text);
    CHECK_INT(err, ==, SONDE_NOT_AVAILABLE);
    CHECK(strstr(diag.text, "does not count cycles"));
}

TEST(an_event_of_the_kernel_is_refused_without_the_right_to_sample_it) {
    struct rings *rings = NULL;
    struct sonde_diag diag = {0};
    pid_t pid = getpid();
    const struct rings_options options = {.pids = &pid,
                                          .pid_count = 1,
                                          .period_ns = RATE_NS,
                                          .event = SONDE_CONTEXT_SWITCHES,
                                          .stack_bytes = HOST_MIN_STACK};
    CHECK_INT(rings_open(&options, &rings, &diag), ==, SONDE_PERMISSION_DENIED);
    CHECK(strstr(diag.text, "context-switches happen in the kernel"));
}

/* Periods can change several times before the samples are read. */
TEST(a_sample_has_the_weight_of_its_time) {
    struct counter counter = {0};
    counter_set(&counter, 1, 0);
    CHECK_INT(counter_weigh(&counter, 100, 0), ==, 1);
    counter_set(&counter, 61, 200);
    counter_set(&counter, 1009, 300);
    CHECK_INT(counter_weigh(&counter, 150, 0), ==, 1);
    CHECK_INT(counter_weigh(&counter, 200, 0), ==, 61);
    CHECK_INT(counter_weigh(&counter, 299, 0), ==, 61);
    CHECK_INT(counter_weigh(&counter, 300, 0), ==, 1009);
    CHECK_INT(counter.sampled, ==, 1 + 1 + 61 + 61 + 1009);
    for (uint64_t i = 1; i <= 2 * COUNTER_CHANGES; i++)
        counter_set(&counter, i, 1000 * i);
    CHECK_INT(counter_weigh(&counter, 1000 * COUNTER_CHANGES * 2, 0), ==, 2 * COUNTER_CHANGES);
    CHECK_INT(counter_weigh(&counter, 0, 0), ==, COUNTER_CHANGES + 1); /* the oldest one */
}

TEST(without_a_period_the_sample_says_what_it_stands_for) {
    struct counter counter = {0};
    CHECK_INT(counter_weigh(&counter, 100, 4711), ==, 4711);
    CHECK_INT(counter.sampled, ==, 4711);
}
