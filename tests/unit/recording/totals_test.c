/* SPDX-License-Identifier: Apache-2.0
 *
 * A /proc of plain files. */
#include "service/recording/totals.h"

#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull

static char proc[128];
static uint64_t clocks[1000];
static const struct totals_row *rows;
static size_t count;

static uint64_t clock_of(pid_t pid) {
    return pid < 1000 ? clocks[pid] : 0;
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    CHECK(file != NULL);
    fputs(text, file);
    fclose(file);
}

static void process(int pid, const char *comm, int threads, int start) {
    char path[256], text[512];
    snprintf(path, sizeof path, "%s/%d", proc, pid);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%d/task", proc, pid);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%d/stat", proc, pid);
    snprintf(text, sizeof text,
             "%d (%s) S 1 1 1 0 -1 4194560 1 2 3 4 50 60 0 0 20 0 %d 0 %d 1000 200\n", pid, comm,
             threads, start);
    write_file(path, text);
}

static void thread(int pid, int tid, const char *comm, uint64_t cpu_ns) {
    char path[256], text[64];
    snprintf(path, sizeof path, "%s/%d/task/%d", proc, pid, tid);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%d/task/%d/schedstat", proc, pid, tid);
    snprintf(text, sizeof text, "%llu 100 7\n", (unsigned long long)cpu_ns);
    write_file(path, text);
    snprintf(path, sizeof path, "%s/%d/task/%d/comm", proc, pid, tid);
    snprintf(text, sizeof text, "%s\n", comm);
    write_file(path, text);
}

static void end_thread(int pid, int tid) {
    char command[256];
    snprintf(command, sizeof command, "rm -r '%s/%d/task/%d'", proc, pid, tid);
    CHECK_INT(system(command), ==, 0);
}

static struct totals *open_totals(void) {
    CHECK(mkdtemp(temporary_template(proc, sizeof proc)) != NULL);
    memset(clocks, 0, sizeof clocks);
    write_file(strcat(strcpy((char[256]){0}, proc), "/uptime"), "1 1\n");
    struct totals *totals = totals_create(proc, clock_of);
    CHECK(totals != NULL);
    return totals;
}

static void scan(struct totals *totals) {
    CHECK_INT(totals_scan(totals, &rows, &count, NULL), ==, SONDE_OK);
}

static int64_t row(const char *name, const char *thread_name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].process, name) == 0 && strcmp(rows[i].thread, thread_name) == 0)
            return rows[i].cpu_ns;
    return 0;
}

TEST(the_first_scan_has_no_rows_and_the_next_the_difference) {
    struct totals *totals = open_totals();
    process(10, "redis (x) y", 1, 5);
    clocks[10] = 5000 * MS;
    scan(totals);
    CHECK_INT(count, ==, 0);
    clocks[10] += 300 * MS;
    scan(totals);
    CHECK_INT(count, ==, 1);
    CHECK_INT(row("redis (x) y", ""), ==, 300 * MS);
    scan(totals);
    CHECK_INT(count, ==, 0);
    totals_destroy(totals);
}

TEST(threads_have_rows_of_their_own) {
    struct totals *totals = open_totals();
    process(10, "nginx", 3, 5);
    clocks[10] = 600 * MS;
    thread(10, 10, "nginx", 100 * MS);
    thread(10, 11, "worker", 200 * MS);
    thread(10, 12, "worker", 300 * MS);
    scan(totals);
    clocks[10] += 60 * MS;
    thread(10, 10, "nginx", 110 * MS);
    thread(10, 11, "worker", 220 * MS);
    thread(10, 12, "worker", 330 * MS);
    scan(totals);
    CHECK_INT(count, ==, 2);
    CHECK_INT(row("nginx", ""), ==, 10 * MS);
    CHECK_INT(row("nginx", "worker"), ==, 50 * MS);
    CHECK_STR(rows[0].thread, "worker"); /* the largest first */
    totals_destroy(totals);
}

TEST(time_of_ended_threads_is_not_lost) {
    struct totals *totals = open_totals();
    process(10, "java", 2, 5);
    clocks[10] = 300 * MS;
    thread(10, 10, "java", 100 * MS);
    thread(10, 11, "gc", 200 * MS);
    scan(totals);
    clocks[10] += 100 * MS;
    end_thread(10, 11);
    thread(10, 10, "java", 110 * MS);
    process(10, "java", 1, 5);
    scan(totals);
    CHECK_INT(row("java", ""), ==, 10 * MS);
    CHECK_INT(row("java", "(ended)"), ==, 90 * MS);
    totals_destroy(totals);
}

TEST(a_process_that_grows_threads_is_not_counted_twice) {
    struct totals *totals = open_totals();
    process(10, "app", 1, 5);
    clocks[10] = 1000 * MS;
    scan(totals);
    process(10, "app", 2, 5);
    clocks[10] += 50 * MS;
    thread(10, 10, "app", 1020 * MS);
    thread(10, 11, "new", 30 * MS);
    scan(totals);
    CHECK_INT(row("app", ""), ==, 20 * MS);
    CHECK_INT(row("app", "new"), ==, 30 * MS);
    CHECK_INT(count, ==, 2);
    totals_destroy(totals);
}

TEST(a_new_process_counts_whole_and_a_reused_pid_is_new) {
    struct totals *totals = open_totals();
    scan(totals);
    process(10, "first", 1, 5);
    clocks[10] = 40 * MS;
    scan(totals);
    CHECK_INT(row("first", ""), ==, 40 * MS);
    process(10, "second", 1, 99); /* another start */
    clocks[10] = 70 * MS;
    scan(totals);
    CHECK_INT(row("second", ""), ==, 70 * MS);
    clocks[10] = 5 * MS; /* and one whose clock is behind */
    process(10, "third", 1, 200);
    scan(totals);
    CHECK_INT(row("third", ""), ==, 5 * MS);
    totals_destroy(totals);
}

TEST(little_time_is_kept_for_a_later_scan) {
    struct totals *totals = open_totals();
    process(10, "idle", 1, 5);
    clocks[10] = 100 * MS;
    scan(totals);
    clocks[10] += MS / 2;
    scan(totals);
    CHECK_INT(count, ==, 0);
    clocks[10] += 3 * MS / 4;
    scan(totals);
    CHECK_INT(row("idle", ""), ==, MS * 5 / 4);
    totals_destroy(totals);
}

TEST(processes_with_equal_names_are_one_row_and_rows_are_bounded) {
    struct totals *totals = open_totals();
    scan(totals);
    process(10, "postgres", 1, 5);
    process(11, "postgres", 1, 5);
    clocks[10] = clocks[11] = 20 * MS;
    scan(totals);
    CHECK_INT(count, ==, 1);
    CHECK_INT(row("postgres", ""), ==, 40 * MS);
    process(12, "many", 5000, 5);
    clocks[12] = 5000 * 2 * MS;
    for (int i = 0; i < 5000; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        thread(12, 12 + i, name, 2 * MS);
    }
    scan(totals);
    CHECK_INT(count, ==, TOTALS_MAX_ROWS);
    CHECK_STR(rows[count - 1].process, "(other)");
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += rows[i].cpu_ns;
    CHECK_INT(sum, ==, 10000 * MS);
    totals_destroy(totals);
}

TEST(without_room_for_threads_their_time_is_the_main_threads) {
    struct totals *totals = open_totals();
    process(10, "crowd", 3, 5);
    clocks[10] = 60 * MS;
    for (int tid = 10; tid < 13; tid++)
        thread(10, tid, "t", 20 * MS);
    totals_limit_threads(totals, 2);
    scan(totals);
    clocks[10] += 30 * MS;
    scan(totals);
    CHECK_INT(count, ==, 1);
    CHECK_INT(row("crowd", ""), ==, 30 * MS);
    /* With room again, earlier time is not counted a second time. */
    totals_limit_threads(totals, 100);
    clocks[10] += 30 * MS;
    for (int tid = 10; tid < 13; tid++)
        thread(10, tid, "t", 40 * MS);
    scan(totals);
    CHECK_INT(count, ==, 1);
    CHECK_INT(row("crowd", ""), ==, 30 * MS);
    totals_destroy(totals);
}

TEST(what_is_no_process_or_gone_is_skipped) {
    struct totals *totals = open_totals();
    process(10, "a", 1, 5);
    char path[256];
    snprintf(path, sizeof path, "%s/11", proc);
    mkdir(path, 0700); /* without a stat file */
    clocks[11] = 50 * MS;
    scan(totals);
    process(12, "gone", 1, 5); /* without a clock */
    scan(totals);
    CHECK_INT(count, ==, 0);
    totals_destroy(totals);
}

TEST(a_proc_that_cannot_be_listed_is_an_error) {
    struct totals *totals = totals_create("/nonexistent", clock_of);
    struct sonde_diag diag = {0};
    CHECK_INT(totals_scan(totals, &rows, &count, &diag), ==, SONDE_IO);
    CHECK_STR(diag.text, "/nonexistent cannot be listed");
    totals_destroy(totals);
}

TEST(the_kernels_proc_shows_this_process) {
    struct totals *totals = totals_create("/proc", NULL);
    scan(totals);
    struct timespec used;
    uint64_t end_ns = 0, now_ns;
    do {
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        now_ns = (uint64_t)used.tv_sec * 1000 * MS + (uint64_t)used.tv_nsec;
        end_ns = end_ns ? end_ns : now_ns + 100 * MS;
    } while (now_ns < end_ns);
    scan(totals);
    char name[32] = "";
    FILE *comm = fopen("/proc/self/comm", "re");
    CHECK(comm && fscanf(comm, "%31s", name) == 1);
    fclose(comm);
    CHECK_INT(row(name, ""), >=, 95 * MS);
    totals_destroy(totals);
}

/* ---- Processes that ended ---- */

/* Ticks of user, nice and system time; the others do not count. */
static void machine(uint64_t user, uint64_t nice, uint64_t kernel) {
    char path[256], text[128];
    snprintf(path, sizeof path, "%s/stat", proc);
    snprintf(text, sizeof text, "cpu  %llu %llu %llu 100000 5 6 7 0 0 0\ncpu0 1 2 3 4\n",
             (unsigned long long)user, (unsigned long long)nice, (unsigned long long)kernel);
    write_file(path, text);
}

/* A /proc that has all processes of the machine if ns is the first pid namespace. */
static struct totals *open_machine(const char *ns) {
    char path[256];
    totals_destroy(open_totals());
    snprintf(path, sizeof path, "%s/self", proc);
    mkdir(path, 0700);
    strcat(path, "/ns");
    mkdir(path, 0700);
    strcat(path, "/pid");
    CHECK_INT(symlink(ns, path), ==, 0);
    process(1, "init", 1, 5);
    clocks[1] = 1000 * MS;
    return totals_create(proc, clock_of);
}

TEST(what_the_machine_used_and_no_process_belongs_to_processes_that_ended) {
    struct totals *totals = open_machine("pid:[4026531836]");
    machine(1000, 100, 50);
    scan(totals);
    CHECK_INT(count, ==, 0);
    clocks[1] += 300 * MS;
    machine(1100, 110, 60); /* 120 ticks of 10 ms */
    scan(totals);
    CHECK_INT(row("init", ""), ==, 300 * MS);
    CHECK_INT(row("(ended)", ""), ==, 900 * MS);
    CHECK_INT(count, ==, 2);
    totals_destroy(totals);
}

/* Ticks are coarse: what one scan has too little of, the next one has too much of. */
TEST(the_ticks_of_the_machine_are_compared_over_several_scans) {
    struct totals *totals = open_machine("pid:[4026531836]");
    machine(1000, 0, 0);
    scan(totals);
    for (int i = 1; i <= 10; i++) {
        clocks[1] += 1000 * MS;
        machine(1000 + 100 * (uint64_t)i + (i % 2 ? 2 : -2), 0, 0);
        scan(totals);
        CHECK_INT(row("(ended)", ""), ==, 0);
        CHECK_INT(count, ==, 1);
    }
    /* A clock that runs ahead for long hides at most a second. */
    clocks[1] += 60000 * MS;
    scan(totals);
    machine(2500, 0, 0);
    scan(totals);
    CHECK_INT(row("(ended)", ""), >=, 3900 * MS);
    totals_destroy(totals);
}

TEST(where_processes_are_hidden_nothing_is_said_of_ended_ones) {
    struct totals *totals = open_machine("pid:[4026532000]");
    machine(1000, 0, 0);
    scan(totals);
    clocks[1] += 300 * MS;
    machine(2000, 0, 0);
    scan(totals);
    CHECK_INT(count, ==, 1);
    totals_destroy(totals);
}
