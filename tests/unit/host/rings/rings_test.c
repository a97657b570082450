/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings of real processes, which are children of this test. */
#include "service/host/rings/rings.h"
#include "tests/unit/check.h"
#include "tests/unit/host/rings/child.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS         1000000ull
#define PERIOD_NS  (1 * MS)
#define DEADLINE_S 60
#define NOBODY     65534

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now = {0};
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *spin(void *unused) {
    for (volatile uint64_t i = 0;; i++) {
    }
    return unused;
}

/* What was delivered about one process, or about all with pid 0. */
struct seen {
    pid_t pid;
    uint64_t weight_ns, records, kinds[HOST_RECORD_KINDS], last_ns, in_kernel, bad, lost;
    uint64_t min_weight_ns, max_weight_ns;
    char order[16]; /* F, C, M, X: first of each kind of side-band record of the pid */
};

static void note(struct seen *seen, char letter) {
    size_t length = strlen(seen->order);
    if (!strchr(seen->order, letter) && length + 1 < sizeof seen->order)
        seen->order[length] = letter;
}

static void on_record(void *context, const struct host_record *record) {
    struct seen *seen = context;
    seen->records++;
    seen->lost += record->kind == HOST_LOST ? record->lost : 0;
    if (seen->pid && record->pid != seen->pid)
        return;
    seen->kinds[record->kind]++;
    if (record->kind == HOST_SAMPLE) {
        const struct host_sample *sample = &record->sample;
        seen->weight_ns += sample->weight_ns;
        seen->in_kernel += sample->is_in_kernel;
        seen->bad += sample->abi == HOST_ABI_64 && !sample->registers.value[UNWIND_REG_SP];
        seen->bad += sample->kernel_count && !sample->is_in_kernel;
        if (sample->weight_ns < seen->min_weight_ns || !seen->min_weight_ns)
            seen->min_weight_ns = sample->weight_ns;
        if (sample->weight_ns > seen->max_weight_ns)
            seen->max_weight_ns = sample->weight_ns;
    } else if (record->kind == HOST_COMM && record->comm.is_exec) {
        note(seen, 'C');
    } else {
        note(seen, "..?M?FX?"[record->kind + 1]);
    }
    seen->last_ns = record->time_ns;
}

static struct rings *open_rings(const struct rings_options *options) {
    struct rings *rings = NULL;
    struct sonde_diag diag = {0};
    sonde_err err = rings_open(options, &rings, &diag);
    if (err == SONDE_PERMISSION_DENIED)
        check_skip("perf is refused here: %s", diag.text);
    if (err)
        check_fail(__FILE__, __LINE__, "rings_open: %s", sonde_diag_text(&diag, err));
    return rings;
}

static struct rings_options options_for(const pid_t *pid) {
    return (struct rings_options){.pids = pid,
                                  .pid_count = pid ? 1 : 0,
                                  .period_ns = PERIOD_NS,
                                  .stack_bytes = HOST_MIN_STACK,
                                  .ring_bytes = 1 << 20,
                                  .has_kernel = geteuid() == 0};
}

/* Starts the rings; returns what the process has used by then. It is stopped meanwhile, as at the
 * end of run(), so that its clock and the rings count the same time however late this test runs. */
static uint64_t begin(struct rings *rings, pid_t pid) {
    child_freeze(pid);
    uint64_t used = child_cpu_ns(pid);
    rings_start(rings);
    kill(pid, SIGCONT);
    return used;
}

/* Drains until the process has used some more CPU time, and stops it and the rings. Returns how
 * much it has used since begin(). */
static uint64_t run(struct rings *rings, pid_t pid, uint64_t begin_ns, uint64_t wanted_ns,
                    struct seen *seen) {
    uint64_t from = child_cpu_ns(pid),
             deadline = clock_ns(CLOCK_MONOTONIC) + DEADLINE_S * 1000 * MS;
    uint64_t now = 0;
    while (child_cpu_ns(pid) - from < wanted_ns && now < deadline) {
        usleep(2000);
        now = clock_ns(CLOCK_MONOTONIC);
        rings_drain(rings, now - 5 * MS, on_record, seen, NULL);
    }
    child_freeze(pid);
    rings_stop(rings);
    uint64_t used = child_cpu_ns(pid) - begin_ns;
    rings_drain(rings, 0, on_record, seen, NULL);
    return used;
}

static void two_threads(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, spin, NULL);
    spin(NULL);
}

/* The clock of a CPU meets the process by chance if it shares the CPU with others. */
static double chance(uint64_t used_ns, uint64_t period_ns) {
    return 4 * sqrt((double)used_ns * (double)period_ns);
}

static void check_samples(const struct seen *seen, uint64_t used_ns, double chance_ns) {
    CHECK_NEAR((double)seen->weight_ns, (double)used_ns,
               0.06 * (double)used_ns + 5 * PERIOD_NS + chance_ns);
    CHECK_INT(seen->bad, ==, 0);
}

/* A clock of a CPU counts time that is stolen from a guest, and the process's clock may not. */
TEST(samples_of_all_cpus_weigh_as_much_as_the_process_used) {
    struct rings_options options = options_for(NULL);
    struct rings *rings = open_rings(&options);
    struct child child = child_start(two_threads);
    struct seen seen = {.pid = child.pid};
    child_go(child);
    uint64_t used = run(rings, child.pid, begin(rings, child.pid), 300 * MS, &seen);
    child_end(child);
    check_samples(&seen, used, chance(used, PERIOD_NS));
    struct rings_counts counts;
    rings_counts(rings, &counts);
    CHECK_INT(counts.invalid, ==, 0);
    CHECK_INT(counts.events, >=, counts.rings);
    CHECK_INT(counts.events % counts.rings, ==, 0); /* each CPU has as many clocks */
    CHECK_INT(counts.records, >=, seen.records);
    rings_close(rings);
}

TEST(samples_of_a_process_weigh_as_much_as_it_used) {
    struct child child = child_start(two_threads);
    struct rings_options options = options_for(&child.pid);
    struct rings *rings = open_rings(&options);
    struct seen seen = {.pid = child.pid};
    uint64_t begin_ns = begin(rings, child.pid);
    child_go(child); /* the second thread starts later, and inherits */
    uint64_t used = run(rings, child.pid, begin_ns, 300 * MS, &seen);
    CHECK_NEAR((double)rings_run_ns(rings, child.pid), (double)used, 0.06 * (double)used);
    child_end(child);
    check_samples(&seen, used, 0);
    CHECK_INT(seen.kinds[HOST_FORK], ==, 1);
    CHECK_INT(seen.records, >=, seen.kinds[HOST_SAMPLE]);
    rings_close(rings);
}

TEST(threads_that_run_already_are_sampled_too) {
    struct child child = child_start(two_threads);
    child_go(child);
    while (child_cpu_ns(child.pid) < 20 * MS)
        usleep(1000);
    struct rings_options options = options_for(&child.pid);
    struct rings *rings = open_rings(&options);
    struct rings_counts counts;
    rings_counts(rings, &counts);
    CHECK_INT(counts.events, ==, 2 * counts.rings); /* two threads */
    struct seen seen = {.pid = child.pid};
    uint64_t used = run(rings, child.pid, begin(rings, child.pid), 200 * MS, &seen);
    check_samples(&seen, used, 0);
    CHECK_INT(seen.kinds[HOST_FORK], ==, 0);
    child_end(child);
    rings_close(rings);
}

TEST(a_new_period_changes_the_weights_and_keeps_their_sum) {
    for (int is_all = 0; is_all < 2; is_all++) {
        struct child child = child_start(two_threads);
        struct rings_options options = options_for(is_all ? NULL : &child.pid);
        struct rings *rings = open_rings(&options);
        struct seen slow = {.pid = child.pid}, fast = {.pid = child.pid};
        rings_set_period(rings, 8 * PERIOD_NS);
        uint64_t begin_ns = begin(rings, child.pid);
        child_go(child);
        while (child_cpu_ns(child.pid) - begin_ns < 150 * MS)
            usleep(1000);
        rings_drain(rings, 0, on_record, &slow, NULL);
        rings_set_period(rings, PERIOD_NS);
        uint64_t used = run(rings, child.pid, begin_ns, 150 * MS, &fast);
        child_end(child);
        CHECK_INT(fast.min_weight_ns, <=, 9 * PERIOD_NS / 8);
        if (!is_all) { /* the first ticks of a CPU's clocks weigh less */
            CHECK_INT(slow.min_weight_ns, >=, 7 * PERIOD_NS);
            CHECK_INT(fast.min_weight_ns, >=, 7 * PERIOD_NS / 8);
        }
        CHECK_NEAR((double)(slow.weight_ns + fast.weight_ns), (double)used,
                   0.06 * (double)used + 40 * PERIOD_NS +
                       (is_all ? chance(used, 8 * PERIOD_NS) : 0));
        rings_close(rings);
    }
}

static void become_true(void) {
    execl("/bin/true", "true", (char *)NULL);
}

TEST(what_happens_to_a_process_is_told_in_order) {
    struct rings_options options = options_for(NULL);
    struct rings *rings = open_rings(&options);
    rings_start(rings);
    struct child child = child_start(become_true);
    struct seen seen = {.pid = child.pid};
    child_go(child);
    child_wait(child);
    rings_stop(rings);
    rings_drain(rings, 0, on_record, &seen, NULL);
    CHECK_STR(seen.order, "FCMX");
    CHECK_INT(seen.kinds[HOST_MMAP], >=, 3); /* the program, libc, ld.so, the vdso */
    rings_close(rings);
}

TEST(a_process_that_has_not_called_exec_yet_begins_there) {
    struct child child = child_start(become_true);
    struct rings_options options = options_for(&child.pid);
    options.is_exec_start = true;
    struct rings *rings = open_rings(&options);
    struct seen seen = {.pid = child.pid};
    rings_start(rings);
    child_go(child);
    child_wait(child);
    rings_drain(rings, 0, on_record, &seen, NULL);
    CHECK_STR(seen.order, "CMX");
    rings_close(rings);
}

static void fork_one(void) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
}

TEST(a_further_process_can_be_added_and_children_are_followed) {
    struct child first = child_start(become_true), second = child_start(fork_one);
    struct rings_options options = options_for(&first.pid);
    struct rings *rings = open_rings(&options);
    struct seen seen = {0};
    struct sonde_diag diag = {0};
    rings_start(rings);
    CHECK_INT(rings_add_process(rings, second.pid, &diag), ==, SONDE_OK);
    CHECK_INT(rings_add_process(rings, second.pid, &diag), ==,
              SONDE_OK); /* nothing, the second time */
    CHECK_INT(rings_add_process(rings, 0x7ffffff0, &diag), ==, SONDE_TARGET_GONE);
    child_go(second);
    child_wait(second);
    rings_drain(rings, 0, on_record, &seen, NULL);
    CHECK_INT(seen.kinds[HOST_FORK], ==, 1);
    CHECK_INT(seen.kinds[HOST_EXIT], ==, 2);
    child_end(first);
    rings_close(rings);
}

static bool at_once(void *unused) {
    return true;
}

TEST(a_drain_stops_when_it_is_told_and_goes_on_later) {
    struct child child = child_start(two_threads);
    struct rings_options options = options_for(&child.pid);
    struct rings *rings = open_rings(&options);
    struct seen seen = {.pid = child.pid};
    rings_start(rings);
    child_go(child);
    while (child_cpu_ns(child.pid) < 100 * MS)
        usleep(1000);
    rings_stop(rings);
    child_end(child);
    CHECK_INT(rings_drain(rings, 1, on_record, &seen, NULL), ==, false); /* all are later */
    CHECK_INT(seen.records, ==, 0);
    CHECK(rings_drain(rings, 0, on_record, &seen, at_once));
    CHECK_INT(seen.records, >, 0);
    CHECK_INT(seen.records, <, 17);
    CHECK(!rings_drain(rings, 0, on_record, &seen, NULL));
    CHECK_INT(seen.kinds[HOST_SAMPLE], >, 17);
    rings_close(rings);
}

TEST(a_ring_that_is_not_read_counts_what_it_loses) {
    struct child child = child_start(two_threads);
    struct rings_options options = options_for(&child.pid);
    options.ring_bytes = 8192;
    options.period_ns = MS / 10;
    struct rings *rings = open_rings(&options);
    struct seen seen = {0};
    struct pollfd ready = {.fd = rings_poll_fd(rings), .events = POLLIN};
    rings_start(rings);
    CHECK_INT(poll(&ready, 1, 0), ==, 0);
    child_go(child);
    CHECK_INT(poll(&ready, 1, DEADLINE_S * 1000), ==, 1); /* half full */
    while (child_cpu_ns(child.pid) < 400 * MS)
        usleep(1000);
    rings_drain(rings, 0, on_record, &seen, NULL);
    CHECK_INT(seen.records, >, 0);
    uint64_t used_ns = child_cpu_ns(child.pid); /* the losses are reported with the next record */
    while (child_cpu_ns(child.pid) < used_ns + 20 * MS)
        usleep(1000);
    rings_stop(rings);
    child_end(child);
    rings_drain(rings, 0, on_record, &seen, NULL);
    struct rings_counts counts;
    rings_counts(rings, &counts);
    CHECK_INT(counts.lost, >, 100);
    CHECK_INT(seen.lost, ==, counts.lost);
    CHECK_INT(poll(&ready, 1, 0), ==, 0); /* although its threads have ended */
    rings_close(rings);
}

/* Runs `body` as another process of another user, which returns 0 if all is well. */
static int as_nobody(int (*body)(void)) {
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(DEADLINE_S);
        /* Changing the user makes a process unreadable to its own user until it calls exec. */
        _exit(setgid(NOBODY) || setuid(NOBODY) || prctl(PR_SET_DUMPABLE, 1) ? 77 : body());
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int sample_as_nobody(void) {
    struct child child = child_start(two_threads);
    struct rings_options options = options_for(&child.pid);
    struct rings *rings = NULL;
    struct sonde_diag diag = {0};
    struct seen seen = {.pid = child.pid};
    options.ring_bytes = 0;
    if (rings_open(&options, &rings, &diag))
        return diag.code == SONDE_PERMISSION_DENIED ? 78 : 2;
    uint64_t begin_ns = begin(rings, child.pid);
    child_go(child);
    run(rings, child.pid, begin_ns, 50 * MS, &seen);
    struct rings_counts counts;
    rings_counts(rings, &counts);
    child_end(child);
    rings_close(rings);
    return seen.kinds[HOST_SAMPLE] == 0 ? 3 : seen.in_kernel ? 4 : counts.ring_bytes > 1 << 20;
}

static bool says(sonde_err err, sonde_err expected, const struct sonde_diag *diag,
                 const char *word) {
    if (err != expected || !strstr(diag->text, word))
        printf("%d, not %d: %s\n", err, expected, diag->text);
    return err == expected && strstr(diag->text, word);
}

/* All processes, one of root's, and kernel frames: each is refused with what would allow it. */
static int ask_too_much(void) {
    pid_t init = 1, self = getpid();
    struct rings *rings = NULL;
    struct sonde_diag diag[3] = {0};
    struct rings_options all = options_for(NULL), other = options_for(&init),
                         kernel = options_for(&self);
    kernel.has_kernel = true;
    bool is_ok = says(rings_open(&all, &rings, &diag[0]), SONDE_PERMISSION_DENIED, &diag[0],
                      "CAP_PERFMON") &&
                 says(rings_open(&other, &rings, &diag[1]), SONDE_PERMISSION_DENIED, &diag[1],
                      "perf_event_paranoid") &&
                 says(rings_open(&kernel, &rings, &diag[2]), SONDE_PERMISSION_DENIED, &diag[2],
                      "CAP_PERFMON");
    return is_ok && rings == NULL ? 0 : 1;
}

static int ask_for_much_memory(void) {
    pid_t self = getpid();
    struct rings *rings = NULL;
    struct sonde_diag diag = {0};
    struct rings_options options = options_for(&self);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_MEMLOCK, &none);
    options.ring_bytes = 64 << 20;
    return says(rings_open(&options, &rings, &diag), SONDE_NOT_AVAILABLE, &diag,
                "perf_event_mlock_kb")
               ? 0
               : 1;
}

static int paranoid(void) {
    int level = 0;
    FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
    if (file) {
        if (fscanf(file, "%d", &level) != 1)
            level = 0;
        fclose(file);
    }
    return level;
}

TEST(an_ordinary_user_samples_own_processes_only) {
    if (geteuid() != 0)
        check_skip("needs root to become another user");
    if (paranoid() != 2)
        check_skip("kernel.perf_event_paranoid is not 2");
    CHECK_INT(as_nobody(sample_as_nobody), ==, 0);
    CHECK_INT(as_nobody(ask_too_much), ==, 0);
    CHECK_INT(as_nobody(ask_for_much_memory), ==, 0);
}

static int with_few_descriptors(void) {
    struct rlimit few = {12, 12};
    pid_t self = getpid();
    struct rings *rings = NULL;
    struct sonde_diag diag = {0};
    struct rings_options options = options_for(&self);
    pthread_t threads[12];
    for (int i = 0; i < 12; i++)
        pthread_create(&threads[i], NULL, (void *(*)(void *))(void (*)(void))pause, NULL);
    options.has_kernel = false;
    setrlimit(RLIMIT_NOFILE, &few);
    sonde_err err = rings_open(&options, &rings, &diag);
    int again = dup(0); /* all descriptors are free again */
    return says(err, SONDE_TOO_LARGE, &diag, "LimitNOFILE") && again >= 0 && again < 12 ? 0 : 1;
}

TEST(more_threads_than_descriptors_are_refused) {
    if (geteuid() != 0)
        check_skip("needs root to become another user");
    if (paranoid() > 2)
        check_skip("perf is refused here");
    CHECK_INT(as_nobody(with_few_descriptors), ==, 0);
}

TEST(a_process_that_has_ended_is_refused) {
    pid_t gone = 0x7ffffff0;
    struct rings *rings = NULL;
    struct sonde_diag diag = {0};
    struct rings_options options = options_for(&gone);
    sonde_err err = rings_open(&options, &rings, &diag);
    if (err == SONDE_PERMISSION_DENIED)
        check_skip("perf is refused here: %s", diag.text);
    CHECK(says(err, SONDE_NOT_AVAILABLE, &diag, "ended"));
    CHECK(rings == NULL);
    rings_close(rings);
}
