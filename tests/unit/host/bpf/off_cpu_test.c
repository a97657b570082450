/* SPDX-License-Identifier: Apache-2.0
 *
 * The BPF program against real processes that wait for known times. Needs the right to load BPF
 * programs. */
#include "service/host/bpf/off_cpu.h"

#include "service/host/bpf/off_cpu_shared.h"
#include "tests/unit/check.h"
#include "tests/unit/host/bpf/child.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES 4096u

/* --- What was recorded ------------------------------------------------------------------------ */

struct seen {
    pid_t pid; /* whose records are expected */
    uint64_t records, ns, waiting_ns, others, lost, blocked;
    uint64_t in_long_ns; /* with sleep_long on the stack */
    uint32_t least_stack;
    uint32_t addresses; /* of the lock */
    uint32_t futexes;   /* with the memory of the lock */
    bool has_bad;       /* a record that no process can cause */
};

static bool has_pc_in(const struct host_sample *sample, const void *function, size_t bytes) {
    for (uint32_t i = 0; i + 8 <= sample->stack_bytes; i += 8) {
        uint64_t word;
        memcpy(&word, sample->stack + i, 8);
        if (word - (uint64_t)(uintptr_t)function < bytes)
            return true;
    }
    return false;
}

static void on_record(void *context, const struct host_record *record) {
    struct seen *seen = context;
    const struct host_sample *sample = &record->sample;
    if (record->kind == HOST_LOST)
        seen->lost += record->lost;
    if (record->kind == HOST_LOST)
        return;
    seen->has_bad |= record->kind != HOST_OFF_CPU || sample->abi != HOST_ABI_64 ||
                     record->time_ns > now_ns() || sample->registers.value[UNWIND_REG_PC] == 0 ||
                     record->tid != record->pid || sample->asked_bytes < sample->stack_bytes;
    seen->others += record->pid != seen->pid;
    seen->records++;
    seen->ns += sample->weight_ns;
    seen->blocked += !sample->is_waiting_for_cpu;
    seen->waiting_ns += sample->is_waiting_for_cpu ? sample->weight_ns : 0;
    seen->in_long_ns += has_pc_in(sample, sleep_long, 1024) ? sample->weight_ns : 0;
    seen->addresses += sample->futex.address == (uint64_t)(uintptr_t)lock_words;
    seen->futexes +=
        host_futex_is_plain_wait(&sample->futex) && host_futex_mutex_owner(&sample->futex) == 4242;
    if (sample->stack_bytes < seen->least_stack)
        seen->least_stack = sample->stack_bytes;
}

static struct seen drain(struct off_cpu *off_cpu, pid_t pid) {
    struct seen seen = {.pid = pid, .least_stack = UINT32_MAX};
    while (off_cpu_drain(off_cpu, on_record, &seen, NULL)) {
    }
    CHECK(!seen.has_bad);
    return seen;
}

static struct seen flush(struct off_cpu *off_cpu, pid_t pid) {
    struct seen seen = {.pid = pid, .least_stack = UINT32_MAX};
    off_cpu_flush(off_cpu, on_record, &seen);
    CHECK(!seen.has_bad);
    return seen;
}

static struct off_cpu *open_with(struct off_cpu_options options) {
    struct off_cpu *off_cpu = NULL;
    struct sonde_diag diag = {0};
    options.stack_bytes = options.stack_bytes ? options.stack_bytes : STACK_BYTES;
    options.max_threads = 64;
    sonde_err err = off_cpu_open(&options, &off_cpu, &diag);
    if (err == SONDE_NOT_AVAILABLE)
        check_skip("%s", diag.text);
    CHECK_STR(diag.text, "");
    CHECK_INT(err, ==, SONDE_OK);
    return off_cpu;
}

static void finish(struct off_cpu *off_cpu, struct child *child) {
    off_cpu_close(off_cpu);
    end_child(child);
}

/* --- Tests ------------------------------------------------------------------------------------ */

TEST(waits_are_recorded_with_their_time_and_stack) {
    struct off_cpu *off_cpu = open_with((struct off_cpu_options){.threshold_ns = MS});
    struct child child = start_child();
    await_blocked(&child);
    CHECK(off_cpu_watch(off_cpu, child.pid, true));
    order(&child, 'l');
    await(&child);
    struct seen seen = drain(off_cpu, child.pid);
    CHECK_INT(seen.records, >=, 3); /* on a busy machine, sleeps may merge with waits for a CPU */
    CHECK_INT(seen.others, ==, 0);
    CHECK_INT(seen.least_stack, >, 256);
    CHECK_NEAR(seen.in_long_ns, *child.slept_ns, 0.1 * (double)*child.slept_ns);
    finish(off_cpu, &child);
}

TEST(a_stack_that_ends_early_is_copied_to_its_end) {
    struct off_cpu *off_cpu =
        open_with((struct off_cpu_options){.threshold_ns = MS, .stack_bytes = OFF_CPU_MAX_STACK});
    struct child child = start_child();
    await_blocked(&child);
    CHECK(off_cpu_watch(off_cpu, child.pid, true));
    order(&child, 'e');
    await(&child);
    struct seen seen = drain(off_cpu, child.pid);
    CHECK_INT(seen.least_stack, >, 64);
    CHECK_INT(seen.least_stack, <, 8192);
    CHECK_NEAR(seen.in_long_ns, *child.slept_ns, 0.1 * (double)*child.slept_ns);
    finish(off_cpu, &child);
}

TEST(a_wait_for_a_futex_has_the_memory_of_the_lock_if_locks_are_wanted) {
    struct off_cpu *off_cpu = open_with((struct off_cpu_options){.threshold_ns = MS});
    struct child child = start_child();
    await_blocked(&child);
    CHECK(off_cpu_watch(off_cpu, child.pid, true));
    for (int are_wanted = 0; are_wanted < 2; are_wanted++) {
        off_cpu_set_locks(off_cpu, are_wanted);
        order(&child, 'f');
        await(&child);
        CHECK_INT(drain(off_cpu, child.pid).futexes, ==, are_wanted);
    }
    finish(off_cpu, &child);
}

TEST(a_wait_that_began_before_locks_were_wanted_has_the_address_of_its_lock) {
    struct off_cpu *off_cpu = open_with((struct off_cpu_options){0});
    struct child child = start_child();
    CHECK(off_cpu_watch(off_cpu, child.pid, true));
    order(&child, 'w');
    await_blocked_in_futex(&child);
    (void)drain(off_cpu, child.pid);
    off_cpu_set_locks(off_cpu, true);
    struct seen blocked = flush(off_cpu, child.pid);
    CHECK_INT(blocked.addresses, ==, 1);
    CHECK_INT(blocked.futexes, ==, 0);
    kill(child.pid, SIGKILL);
    waitpid(child.pid, NULL, 0);
    CHECK_INT(drain(off_cpu, child.pid).addresses, >=, 1);
    finish(off_cpu, &child);
}

TEST(a_process_that_is_not_watched_leaves_no_record) {
    struct off_cpu *off_cpu = open_with((struct off_cpu_options){0});
    struct off_cpu_counts counts;
    struct child child = start_child(), other = start_child();
    await_blocked(&child);
    await_blocked(&other);
    CHECK(off_cpu_watch(off_cpu, child.pid, true));
    CHECK(off_cpu_watch(off_cpu, child.pid, false));
    CHECK(off_cpu_watch(off_cpu, other.pid, true));
    order(&child, 'l');
    await(&child);
    struct seen seen = drain(off_cpu, other.pid);
    CHECK_INT(seen.others, ==, 0);
    off_cpu_counts(off_cpu, &counts);
    CHECK_INT(counts.switches, <, 5);
    end_child(&other);
    finish(off_cpu, &child);
}

TEST(without_a_filter_every_process_is_recorded) {
    struct off_cpu *off_cpu = open_with((struct off_cpu_options){.threshold_ns = 10 * MS});
    struct child child = start_child();
    CHECK(!off_cpu_watches(off_cpu, child.pid));
    off_cpu_watch_all(off_cpu, true);
    CHECK(off_cpu_watches(off_cpu, child.pid));
    order(&child, 'l');
    await(&child);
    struct seen seen = {.pid = child.pid};
    while (off_cpu_drain(off_cpu, on_record, &seen, NULL)) {
    }
    CHECK_INT(seen.records - seen.others, >=, 1);
    finish(off_cpu, &child);
}

TEST(waits_below_the_threshold_are_counted_as_time) {
    struct off_cpu *off_cpu = open_with((struct off_cpu_options){.threshold_ns = 60000 * MS});
    struct off_cpu_counts counts;
    struct child child = start_child();
    await_blocked(&child);
    CHECK(off_cpu_watch(off_cpu, child.pid, true));
    order(&child, 'l');
    await(&child);
    CHECK_INT(drain(off_cpu, child.pid).records, ==, 0);
    off_cpu_counts(off_cpu, &counts);
    CHECK_INT(counts.sent, ==, 0);
    CHECK_INT(counts.switches, >=, 5);
    CHECK_INT(counts.short_ns, >, (long long)(*child.slept_ns * 9 / 10));
    CHECK_INT(flush(off_cpu, child.pid).records, ==, 0); /* its read is younger, too */
    finish(off_cpu, &child);
}

TEST(a_thread_that_stays_blocked_is_reported_by_flushes_once) {
    struct off_cpu *off_cpu = open_with((struct off_cpu_options){0});
    uint64_t from = now_ns();
    struct child child = start_child();
    CHECK(off_cpu_watch(off_cpu, child.pid, true));
    await_blocked(&child);
    order(&child, 'l');
    await(&child);
    await_blocked(&child);
    struct seen sum = drain(off_cpu, child.pid), first = flush(off_cpu, child.pid);
    usleep(20000);
    struct seen second = flush(off_cpu, child.pid);
    CHECK_INT(first.records, ==, 1);
    CHECK_INT(second.records, ==, 1);
    CHECK_INT(second.ns, >=, (long long)(20 * MS));
    usleep(20000);
    order(&child, 'x'); /* it ends */
    waitpid(child.pid, NULL, 0);
    uint64_t to = now_ns();
    struct seen last = drain(off_cpu, child.pid);
    CHECK_INT(sum.others + first.others + second.others + last.others, ==, 0);
    uint64_t ns = first.ns + second.ns + last.ns;
    CHECK_INT(ns, >=, (long long)(40 * MS));
    CHECK_INT(sum.ns + ns, <=, (long long)(to - from));  /* no part of it twice */
    CHECK_INT(flush(off_cpu, child.pid).records, ==, 0); /* its slot is free */
    finish(off_cpu, &child);
}

TEST(a_thread_that_is_killed_while_it_is_blocked_is_recorded_and_forgotten) {
    struct off_cpu *off_cpu = open_with((struct off_cpu_options){0});
    struct child child = start_child();
    CHECK(off_cpu_watch(off_cpu, child.pid, true));
    order(&child, 'l');
    await(&child);
    await_blocked(&child);
    (void)drain(off_cpu, child.pid);
    kill(child.pid, SIGKILL);
    waitpid(child.pid, NULL, 0);
    CHECK_INT(drain(off_cpu, child.pid).records, >=, 1);
    CHECK_INT(flush(off_cpu, child.pid).records, ==, 0);
    finish(off_cpu, &child);
}

TEST(a_thread_that_was_blocked_before_has_no_record_until_it_wakes_up) {
    struct off_cpu *off_cpu = open_with((struct off_cpu_options){0});
    struct child child = start_child();
    await_blocked(&child);
    CHECK(off_cpu_watch(off_cpu, child.pid, true));
    CHECK_INT(flush(off_cpu, child.pid).records, ==, 0);
    CHECK_INT(drain(off_cpu, child.pid).records, ==, 0);
    finish(off_cpu, &child);
}

TEST(short_waits_are_sampled_in_proportion_to_their_time) {
    struct off_cpu *off_cpu = open_with((struct off_cpu_options){.period_ns = 2 * MS});
    struct child child = start_child();
    await_blocked(&child);
    CHECK(off_cpu_watch(off_cpu, child.pid, true));
    order(&child, 'o');
    await(&child);
    struct seen seen = drain(off_cpu, child.pid);
    double slept_ns = (double)*child.slept_ns;
    CHECK_INT(seen.records, <, (long long)(slept_ns / (2 * MS) * 1.6) + 20);
    CHECK_NEAR(seen.ns, slept_ns, 0.4 * slept_ns);
    finish(off_cpu, &child);
}

TEST(a_full_ring_loses_waits_and_counts_them) {
    struct off_cpu *off_cpu = open_with((struct off_cpu_options){.stack_bytes = OFF_CPU_MAX_STACK});
    struct off_cpu_counts counts;
    struct child child = start_child();
    CHECK(off_cpu_watch(off_cpu, child.pid, true));
    order(&child, 'd');
    await(&child);
    struct seen seen = drain(off_cpu, child.pid);
    off_cpu_counts(off_cpu, &counts);
    CHECK_INT(seen.lost, >, 100);
    CHECK_INT(counts.lost, ==, (long long)seen.lost);
    CHECK_INT(counts.sent, ==, (long long)seen.records);
    CHECK_INT(drain(off_cpu, child.pid).lost, ==, 0);
    finish(off_cpu, &child);
}

static bool stop_at_once(void *context) {
    return true;
}

TEST(a_drain_stops_when_its_time_is_over) {
    struct off_cpu *off_cpu = open_with((struct off_cpu_options){0});
    struct child child = start_child();
    struct seen seen = {.pid = child.pid};
    CHECK(off_cpu_watch(off_cpu, child.pid, true));
    order(&child, 'd');
    await(&child);
    CHECK(off_cpu_drain(off_cpu, on_record, &seen, stop_at_once));
    CHECK_INT(seen.records, ==, 16);
    CHECK_INT(drain(off_cpu, child.pid).records, >, 16);
    finish(off_cpu, &child);
}

TEST(more_records_than_wanted_make_the_period_longer) {
    struct off_cpu *off_cpu = open_with((struct off_cpu_options){.max_per_second = 1});
    struct off_cpu_counts counts = {0};
    struct child child = start_child();
    struct seen seen = {.pid = child.pid};
    CHECK(off_cpu_watch(off_cpu, child.pid, true));
    while (counts.period_ns == 0) {
        order(&child, 'd');
        await(&child);
        (void)off_cpu_drain(off_cpu, on_record, &seen, NULL);
        off_cpu_counts(off_cpu, &counts);
    }
    finish(off_cpu, &child);
}

TEST(a_preempted_thread_waits_for_a_cpu) {
    struct off_cpu *off_cpu = open_with((struct off_cpu_options){0});
    cpu_set_t before, one;
    CHECK_INT(sched_getaffinity(0, sizeof before, &before), ==, 0);
    CPU_ZERO(&one);
    for (int i = 0; CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    }
    CHECK_INT(sched_setaffinity(0, sizeof one, &one), ==, 0);
    struct child child = start_child(), rival = start_child();
    CHECK_INT(sched_setaffinity(0, sizeof before, &before), ==, 0);
    CHECK(off_cpu_watch(off_cpu, child.pid, true));
    order(&child, 's');
    order(&rival, 's');
    await(&child);
    await(&rival);
    struct seen seen = drain(off_cpu, child.pid);
    CHECK_INT(seen.waiting_ns, >, (long long)(10 * MS));
    end_child(&rival);
    finish(off_cpu, &child);
}

TEST(what_is_not_a_pid_is_not_watched) {
    struct off_cpu *off_cpu = open_with((struct off_cpu_options){0});
    CHECK(!off_cpu_watch(off_cpu, 0, true));
    CHECK(!off_cpu_watch(off_cpu, -1, true));
    CHECK(!off_cpu_watch(off_cpu, 1 << 22, true));
    off_cpu_close(off_cpu);
}
