/* SPDX-License-Identifier: Apache-2.0
 *
 * Both scans' processes are sorted by pid, and each one's threads by tid, so that they are compared
 * like two sorted lists. */
#include "service/recording/totals.h"

#include "api/base/array.h"
#include "service/host/processes/process_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A process that used less since its clock was read is left for a later scan. */
#define MIN_NS 1000000u
/* /proc/stat counts ticks, clocks count nanoseconds, and they are read one after the other. What
 * differs by less waits for a later scan; more than MAX_DEFICIT_NS does not hide what ends. */
#define MIN_ENDED_NS   20000000
#define MAX_DEFICIT_NS 1000000000
#define FIRST_PID_NS   "pid:[4026531836]" /* PROC_PID_INIT_INO */

struct thread {
    pid_t tid;
    uint64_t cpu_ns;
};

struct process {
    pid_t pid;
    uint64_t start_ticks, cpu_ns;
    struct thread *threads; /* NULL if there is only one, or no room for them */
    bool has_no_room;
    uint32_t thread_count;
};

struct totals {
    char proc[256];
    uint64_t (*process_cpu_ns)(pid_t pid);
    struct process *processes;
    size_t process_count;
    uint32_t threads, max_threads; /* of all processes */
    bool has_scanned;
    bool sees_all;       /* no process is hidden: the sum can be compared with /proc/stat */
    uint64_t machine_ns; /* of /proc/stat, at the last scan */
    int64_t missing_ns;  /* that no row has yet; negative: rows have had more */
    struct totals_row *rows;
    size_t row_count, row_capacity;
    bool is_out_of_memory;
};

/* Whether /proc has all processes of the machine: it is that of the first pid namespace, and does
 * not hide other users' processes. */
static bool sees_all(const char *proc) {
    char path[320], link[64] = "";
    snprintf(path, sizeof path, "%s/self/ns/pid", proc);
    if (readlink(path, link, sizeof link - 1) < 0 || strcmp(link, FIRST_PID_NS) != 0)
        return false;
    snprintf(path, sizeof path, "%s/1/stat", proc);
    return access(path, R_OK) == 0;
}

struct totals *totals_create(const char *proc, uint64_t (*cpu_ns)(pid_t pid)) {
    struct totals *totals = calloc(1, sizeof *totals);
    if (!totals)
        return NULL;
    snprintf(totals->proc, sizeof totals->proc, "%s", proc);
    totals->max_threads = TOTALS_MAX_THREADS;
    totals->process_cpu_ns = cpu_ns ? cpu_ns : process_cpu_ns;
    totals->sees_all = sees_all(proc);
    return totals;
}

static void free_processes(struct process *processes, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(processes[i].threads);
    free(processes);
}

void totals_limit_threads(struct totals *totals, uint32_t max_threads) {
    totals->max_threads = max_threads;
}

void totals_destroy(struct totals *totals) {
    if (!totals)
        return;
    free_processes(totals->processes, totals->process_count);
    free(totals->rows);
    free(totals);
}

/* ---- Reading /proc ---- */

static bool read_stat(const struct totals *totals, pid_t pid, struct process_stat *line) {
    char text[1024];
    return process_file_read(totals->proc, pid, "stat", text, sizeof text) > 0 &&
           process_stat_parse(text, line);
}

/* 0 if the thread is gone. */
static uint64_t read_thread_ns(const struct totals *totals, pid_t pid, pid_t tid) {
    char leaf[64], text[128];
    snprintf(leaf, sizeof leaf, "task/%d/schedstat", (int)tid);
    bool is_read = process_file_read(totals->proc, pid, leaf, text, sizeof text) > 0;
    return is_read ? strtoull(text, NULL, 10) : 0;
}

static void read_thread_name(const struct totals *totals, pid_t pid, pid_t tid, char name[16]) {
    char leaf[64], text[64];
    snprintf(leaf, sizeof leaf, "task/%d/comm", (int)tid);
    process_file_read(totals->proc, pid, leaf, text, sizeof text);
    process_comm_clean(name, text, strcspn(text, "\n"));
    if (!name[0])
        strcpy(name, "(unnamed)");
}

/* ---- Rows ---- */

static void add_row(struct totals *totals, const char *process, const char *thread,
                    uint64_t cpu_ns) {
    if (cpu_ns == 0 || totals->is_out_of_memory)
        return;
    totals->is_out_of_memory =
        !array_room(&totals->rows, &totals->row_capacity, totals->row_count, 1);
    if (totals->is_out_of_memory)
        return;
    struct totals_row *row = &totals->rows[totals->row_count++];
    snprintf(row->process, sizeof row->process, "%s", process);
    snprintf(row->thread, sizeof row->thread, "%s", thread);
    row->cpu_ns = (int64_t)cpu_ns;
}

static int by_names(const void *a, const void *b) {
    const struct totals_row *left = a, *right = b;
    int order = strcmp(left->process, right->process);
    return order ? order : strcmp(left->thread, right->thread);
}

static int by_time(const void *a, const void *b) {
    const struct totals_row *left = a, *right = b;
    if (left->cpu_ns != right->cpu_ns)
        return left->cpu_ns < right->cpu_ns ? 1 : -1;
    return by_names(a, b);
}

/* Adds up rows with equal names, and those beyond the limit. */
static void merge_rows(struct totals *totals) {
    struct totals_row *rows = totals->rows;
    size_t count = 0;
    if (totals->row_count > 1)
        qsort(rows, totals->row_count, sizeof *rows, by_names);
    for (size_t i = 0; i < totals->row_count; i++) {
        if (count > 0 && by_names(&rows[count - 1], &rows[i]) == 0)
            rows[count - 1].cpu_ns += rows[i].cpu_ns;
        else
            rows[count++] = rows[i];
    }
    if (count > 1)
        qsort(rows, count, sizeof *rows, by_time);
    for (size_t i = TOTALS_MAX_ROWS; i < count; i++)
        rows[TOTALS_MAX_ROWS - 1].cpu_ns += rows[i].cpu_ns;
    if (count > TOTALS_MAX_ROWS) {
        count = TOTALS_MAX_ROWS;
        strcpy(rows[count - 1].process, "(other)");
        rows[count - 1].thread[0] = 0;
    }
    totals->row_count = count;
}

/* ---- Comparing ---- */

static uint64_t growth(uint64_t now, uint64_t before) {
    return now > before ? now - before : 0;
}

/* What a thread's clock showed at the last scan. A thread that was alone then had its process's. */
static uint64_t thread_before(const struct process *old, pid_t tid, size_t *at) {
    if (!old->threads)
        return tid == old->pid ? old->cpu_ns : 0;
    while (*at < old->thread_count && old->threads[*at].tid < tid)
        (*at)++;
    return *at < old->thread_count && old->threads[*at].tid == tid ? old->threads[*at].cpu_ns : 0;
}

/* Reads the threads' clocks and adds their rows; returns the sum of the rows. */
static uint64_t compare_threads(struct totals *totals, struct process *now,
                                const struct process *old, const char *comm, bool is_first) {
    char path[320];
    pid_t *tids;
    size_t count, at = 0;
    uint64_t sum = 0;
    snprintf(path, sizeof path, "%s/%d/task", totals->proc, (int)now->pid);
    sonde_err err = process_numbers(path, totals->max_threads - totals->threads, &tids, &count);
    now->threads = !err && count > 0 ? calloc(count, sizeof *now->threads) : NULL;
    for (size_t i = 0; now->threads && i < count; i++) {
        struct thread *thread = &now->threads[now->thread_count++];
        *thread = (struct thread){tids[i], read_thread_ns(totals, now->pid, tids[i])};
        uint64_t used_ns = growth(thread->cpu_ns, thread_before(old, tids[i], &at));
        if (is_first || used_ns == 0)
            continue;
        char name[16] = "";
        if (thread->tid != now->pid)
            read_thread_name(totals, now->pid, thread->tid, name);
        add_row(totals, comm, name, used_ns);
        sum += used_ns;
    }
    totals->threads += now->thread_count;
    free(tids);
    return sum;
}

/* old: what is known of the process; all zero if it is new. */
static void compare_process(struct totals *totals, struct process *now, const struct process *old,
                            const struct process_stat *line) {
    bool is_first = !totals->has_scanned;
    bool has_threads = line->threads > 1 || old->threads;
    uint64_t used_ns = is_first ? 0 : growth(now->cpu_ns, old->cpu_ns), sum = 0;
    now->has_no_room = has_threads && totals->threads + line->threads > totals->max_threads;
    if (has_threads && !now->has_no_room)
        sum = compare_threads(totals, now, old, line->comm, is_first || old->has_no_room);
    bool is_split = now->threads && !old->has_no_room;
    /* The threads' clocks are read a little later than the process's. */
    uint64_t noise_ns = is_split ? used_ns / 100 + MIN_NS : 0;
    if (growth(used_ns, sum) > noise_ns)
        add_row(totals, line->comm, is_split ? "(ended)" : "", used_ns - sum);
}

/* Fills in *now from *old and the process; false if it is gone. */
static bool scan_process(struct totals *totals, struct process *now, struct process *old) {
    static const struct process unknown;
    struct process_stat line;
    now->cpu_ns = totals->process_cpu_ns(now->pid);
    if (now->cpu_ns == 0)
        return false;
    if (old && now->cpu_ns >= old->cpu_ns && now->cpu_ns - old->cpu_ns < MIN_NS) {
        *now = *old; /* its threads are taken over */
        old->threads = NULL;
        totals->threads += now->thread_count;
        return true;
    }
    if (!read_stat(totals, now->pid, &line))
        return false;
    now->start_ticks = line.start_ticks;
    struct process before = old && old->start_ticks == line.start_ticks ? *old : unknown;
    before.pid = now->pid;
    compare_process(totals, now, &before, &line);
    return true;
}

/* ---- Processes that ended ---- */

/* Time of all processes that ever ran: user, nice and system. 0: unknown. */
static uint64_t read_machine_ns(const struct totals *totals) {
    unsigned long long user, nice, kernel;
    char path[320];
    snprintf(path, sizeof path, "%s/stat", totals->proc);
    FILE *file = totals->sees_all ? fopen(path, "re") : NULL;
    bool is_read = file && fscanf(file, "cpu %llu %llu %llu", &user, &nice, &kernel) == 3;
    if (file)
        fclose(file);
    return is_read ? (user + nice + kernel) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK)) : 0;
}

/* Adds a row for what the machine used and no other row has. */
static void add_ended(struct totals *totals, uint64_t machine_ns) {
    uint64_t before_ns = totals->machine_ns;
    totals->machine_ns = machine_ns;
    if (!totals->has_scanned || machine_ns < before_ns || before_ns == 0)
        return;
    int64_t used_ns = (int64_t)(machine_ns - before_ns), missing_ns = totals->missing_ns + used_ns;
    for (size_t i = 0; i < totals->row_count; i++)
        missing_ns -= totals->rows[i].cpu_ns;
    if (missing_ns >= MIN_ENDED_NS + used_ns / 100) {
        add_row(totals, "(ended)", "", (uint64_t)missing_ns);
        missing_ns = 0;
    }
    totals->missing_ns = missing_ns > -MAX_DEFICIT_NS ? missing_ns : -MAX_DEFICIT_NS;
}

sonde_err totals_scan(struct totals *totals, const struct totals_row **rows, size_t *count,
                      struct sonde_diag *diag) {
    pid_t *pids;
    size_t pid_count, at = 0, found = 0;
    totals->row_count = 0;
    *rows = NULL;
    *count = 0;
    sonde_err err = process_numbers(totals->proc, TOTALS_MAX_PROCESSES, &pids, &pid_count);
    struct process *processes = err ? NULL : calloc(pid_count ? pid_count : 1, sizeof *processes);
    if (!processes) {
        free(pids);
        return sonde_fail(diag, err ? err : SONDE_OUT_OF_MEMORY, "%s cannot be listed",
                          totals->proc);
    }
    totals->threads = 0;
    uint64_t machine_ns = read_machine_ns(totals);
    for (size_t i = 0; i < pid_count; i++) {
        while (at < totals->process_count && totals->processes[at].pid < pids[i])
            at++;
        bool is_known = at < totals->process_count && totals->processes[at].pid == pids[i];
        processes[found] = (struct process){.pid = pids[i]};
        found += scan_process(totals, &processes[found], is_known ? &totals->processes[at] : NULL);
    }
    free(pids);
    free_processes(totals->processes, totals->process_count);
    totals->processes = processes;
    totals->process_count = found;
    add_ended(totals, machine_ns);
    totals->has_scanned = true;
    merge_rows(totals);
    if (totals->is_out_of_memory) {
        totals->is_out_of_memory = false;
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    }
    *rows = totals->rows;
    *count = totals->row_count;
    return SONDE_OK;
}
