/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/host/stream/look.h"

#include "api/base/array.h"
#include "service/engine/core/target.h"
#include "service/process/foreign_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MS          1000000ll
#define SHARE       50         /* rounds take at most 1/50 of a CPU */
#define MIN_NS      MS         /* between two rounds */
#define IDLE_NS     (200 * MS) /* longest pause between looks at a thread that does not run */
#define MANY_NS     (1000 * MS)
#define MANY        2000u     /* from this many threads on, MANY_NS applies */
#define MAX_COST    (20 * MS) /* of one round but the first and the last */
#define FIRST_COST  (500 * MS)
#define WAITING_NS  (10 * MS) /* waiting for a CPU is reported from this much on */
#define CODE_AGE_NS (1000 * MS)

struct look_thread {
    pid_t tid;
    bool is_new, is_listed;
    bool is_done;        /* not looked at again */
    bool is_stack_known; /* it has not run since it was walked */
    bool is_blocked;     /* at the last look */
    uint64_t begun;      /* waits that are not reported yet */
    int64_t seen_ns, next_ns, pause_ns;
    int64_t cpu_ns, waited_ns; /* the kernel's counts at the last look */
    uint64_t slices;
    int64_t off_ns, waiting_ns; /* not reported yet */
    int64_t off_since_ns, waiting_since_ns;
    uint64_t *pcs; /* NULL = no stack yet */
    uint32_t count;
    enum stack_end end;
    struct host_futex futex; /* it waits for, with this stack */
};

struct look *look_create(struct engine *engine, pid_t pid, uint64_t period_ns, uint64_t seed) {
    char path[32];
    struct look *look = calloc(1, sizeof *look);
    if (!look)
        return NULL;
    look->engine = engine;
    look->period_ns = period_ns;
    look->random = seed;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    look->task_dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (look->task_dir >= 0 && process_identity_of_pid(pid, &look->process))
        return look;
    look->process.pidfd = -1;
    look_destroy(look);
    return NULL;
}

static void free_ended(struct look *look) {
    for (uint32_t i = 0; i < look->ended_count; i++)
        free(look->ended[i]);
    free(look->ended);
    look->ended = NULL;
    look->ended_count = 0;
}

void look_destroy(struct look *look) {
    if (!look)
        return;
    for (uint32_t i = 0; i < look->thread_count; i++)
        free(look->threads[i].pcs);
    free_ended(look);
    free(look->threads);
    free(look->waits);
    process_code_finish(&look->code);
    process_identity_finish(&look->process);
    if (look->task_dir >= 0)
        close(look->task_dir);
    free(look);
}

/* --- The list of threads ----------------------------------------------------------------------*/

static int by_tid(const void *a, const void *b) {
    const struct look_thread *left = a, *right = b;
    return (left->tid > right->tid) - (left->tid < right->tid);
}

static struct look_thread *find(struct look *look, uint32_t count, pid_t tid) {
    const struct look_thread key = {.tid = tid};
    return count ? bsearch(&key, look->threads, count, sizeof key, by_tid) : NULL;
}

static bool append(struct look *look, uint32_t *capacity, pid_t tid) {
    if (!array_room(&look->threads, capacity, look->thread_count, 1))
        return false;
    look->threads[look->thread_count++] =
        (struct look_thread){.tid = tid, .is_new = true, .is_listed = true};
    return true;
}

/* Appends the threads that are new; is_listed is false for those that have ended. */
static void list(struct look *look) {
    uint32_t known = look->thread_count, capacity = known;
    int copy = openat(look->task_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    for (uint32_t i = 0; i < known; i++)
        look->threads[i].is_listed = false;
    while (dir && (entry = readdir(dir)) && look->thread_count < LOOK_MAX_THREADS) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        struct look_thread *thread = tid > 0 ? find(look, known, tid) : NULL;
        if (thread)
            thread->is_listed = true;
        else if (tid > 0 && !append(look, &capacity, tid))
            break;
    }
    if (dir)
        closedir(dir);
    else if (copy >= 0)
        close(copy);
    if (look->thread_count > 1)
        qsort(look->threads, look->thread_count, sizeof *look->threads, by_tid);
}

/* Forgets those that have ended. Their stacks are kept for this round's waits. */
static void drop_ended(struct look *look) {
    uint32_t kept = 0;
    look->ended = calloc(look->thread_count + 1, sizeof *look->ended);
    for (uint32_t i = 0; i < look->thread_count; i++) {
        struct look_thread *thread = &look->threads[i];
        if (thread->is_listed || !look->ended)
            look->threads[kept++] = *thread;
        else if (thread->pcs)
            look->ended[look->ended_count++] = thread->pcs;
    }
    look->thread_count = kept;
}

/* --- Waits ------------------------------------------------------------------------------------*/

static void add_wait(struct look *look, const struct look_thread *thread, int64_t ns,
                     int64_t since_ns, int note) {
    struct look_wait *wait = &look->waits[look->wait_count++];
    *wait = (struct look_wait){.tid = thread->tid,
                               .ns = (uint64_t)ns,
                               .since_ns = (uint64_t)since_ns,
                               .end_ns = (uint64_t)thread->seen_ns,
                               .note = note};
    if (note == STACK_NOTE_WAITING)
        return;
    wait->begun = thread->begun;
    if (note >= 0)
        return;
    wait->pcs = thread->pcs;
    wait->count = thread->count;
    wait->end = thread->end;
    wait->futex = thread->futex;
}

/* At most two waits per thread and round. */
static void report(struct look *look, struct look_thread *thread, bool is_last) {
    if (thread->waiting_ns > (is_last ? 0 : WAITING_NS)) {
        add_wait(look, thread, thread->waiting_ns, thread->waiting_since_ns, STACK_NOTE_WAITING);
        thread->waiting_ns = 0;
    }
    bool has_stack = thread->pcs && (thread->is_stack_known || is_last);
    if (thread->off_ns <= 0 || (!has_stack && !is_last))
        return;
    add_wait(look, thread, thread->off_ns, thread->off_since_ns,
             has_stack ? -1 : STACK_NOTE_ASLEEP);
    thread->off_ns = 0;
    thread->begun = 0;
}

/* --- One thread -------------------------------------------------------------------------------*/

/* Adds the time since the last look, and separates the time that the thread waited for a CPU. */
static void advance(struct look_thread *thread, const struct tracee_snapshot *now, int64_t now_ns) {
    int64_t off_ns = now_ns - thread->seen_ns - ((int64_t)now->cpu_ns - thread->cpu_ns);
    int64_t waiting_ns = (int64_t)now->waited_ns - thread->waited_ns;
    if (!thread->is_new && off_ns > 0) {
        waiting_ns = waiting_ns < 0 ? 0 : waiting_ns < off_ns ? waiting_ns : off_ns;
        if (thread->waiting_ns == 0)
            thread->waiting_since_ns = thread->seen_ns;
        if (thread->off_ns == 0)
            thread->off_since_ns = thread->seen_ns;
        thread->waiting_ns += waiting_ns;
        thread->off_ns += off_ns - waiting_ns;
    }
    thread->seen_ns = now_ns;
    thread->cpu_ns = (int64_t)now->cpu_ns;
    thread->waited_ns = (int64_t)now->waited_ns;
    thread->slices = now->slices;
    thread->is_new = false;
}

/* Before it ran again, the thread had waited; one that is blocked now has begun another wait. */
static void count_waits(struct look_thread *thread, uint64_t slices, enum tracee_state state) {
    bool is_blocked = state == TRACEE_BLOCKED;
    uint64_t runs = slices - thread->slices;
    thread->begun += runs + is_blocked - (thread->is_blocked && runs + is_blocked > 0);
    thread->is_blocked = is_blocked;
}

static bool has_code(struct look *look, int64_t now_ns) {
    bool is_old = look->is_code_old && now_ns - (int64_t)look->code_ns > CODE_AGE_NS;
    if (look->code_ns != 0 && !is_old)
        return look->code.generation != NULL;
    process_code_finish(&look->code);
    look->code_ns = (uint64_t)now_ns;
    look->is_code_old = false;
    if (process_code_init(&look->code, look->engine, &look->process) != SONDE_OK)
        process_code_finish(&look->code);
    return look->code.generation != NULL;
}

static void forget_code(struct look *look) {
    process_code_finish(&look->code);
    look->code_ns = 0;
}

static void keep_stack(struct look *look, struct look_thread *thread,
                       const struct unwind_remote_walk *walk, const struct host_futex *futex) {
    static const enum stack_end ends[] = {
        [UNWIND_REMOTE_ROOT] = STACK_END_ROOT,
        [UNWIND_REMOTE_DEPTH] = STACK_END_DEPTH,
        [UNWIND_REMOTE_NO_CODE] = STACK_END_NO_TABLE,
        [UNWIND_REMOTE_NO_TABLE] = STACK_END_NO_TABLE,
        [UNWIND_REMOTE_RULE] = STACK_END_RULE,
        [UNWIND_REMOTE_REGISTER] = STACK_END_RULE,
        [UNWIND_REMOTE_BAD_STACK] = STACK_END_BAD_STACK,
    };
    look->is_code_old |= walk->end == UNWIND_REMOTE_NO_CODE;
    uint64_t *pcs = walk->count ? realloc(thread->pcs, walk->count * sizeof *pcs) : NULL;
    if (!pcs)
        return;
    memcpy(pcs, walk->pcs, walk->count * sizeof *pcs);
    thread->pcs = pcs;
    thread->futex = *futex;
    thread->count = walk->count;
    thread->end = ends[walk->end];
    thread->is_stack_known = true;
}

static struct host_futex read_futex(const struct look *look, const struct tracee_snapshot *at) {
    struct host_futex futex = {0};
    if (at->call != SYS_futex || !host_futex_read_call(at->arguments[0], at->arguments[1], &futex))
        return (struct host_futex){0};
    futex.has_words =
        look->wants_locks && foreign_memory_read(look->process.pid, futex.address, futex.words,
                                                 sizeof futex.words) == sizeof futex.words;
    return futex;
}

static void find_stack(struct look *look, struct look_thread *thread,
                       const struct tracee_snapshot *before) {
    uint64_t pcs[LOOK_MAX_DEPTH];
    struct unwind_remote_walk walk = {.pcs = pcs, .capacity = LOOK_MAX_DEPTH};
    struct blocked_thread blocked = {
        .process = look->process.pid, .tid = thread->tid, .task_dir = look->task_dir};
    struct host_futex futex = read_futex(look, before);
    thread->is_stack_known = false;
    if (!has_code(look, thread->seen_ns) ||
        blocked_walk(&look->code, &blocked, before, &walk) != BLOCKED_WALKED)
        return;
    keep_stack(look, thread, &walk, &futex);
}

static uint64_t dithered(struct look *look, uint64_t pause_ns) {
    look->random = look->random * 6364136223846793005ull + 1442695040888963407ull;
    return pause_ns / 2 + (uint64_t)((__uint128_t)pause_ns * (look->random >> 32) >> 32);
}

static int64_t next_pause(const struct look *look, const struct look_thread *thread) {
    int64_t longest = look->thread_count < MANY ? IDLE_NS : MANY_NS;
    int64_t period_ns = (int64_t)look->period_ns;
    longest = longest > period_ns ? longest : period_ns;
    return thread->pause_ns * 2 < longest ? thread->pause_ns * 2 : longest;
}

/* The first look at a thread: its time counts from now on. */
static void begin(struct look *look, struct look_thread *thread) {
    struct tracee_snapshot snapshot;
    int64_t now_ns = (int64_t)now_monotonic_ns();
    enum tracee_state state = tracee_take_snapshot(look->task_dir, thread->tid, &snapshot);
    thread->slices = snapshot.slices;
    count_waits(thread, snapshot.slices, state);
    advance(thread, &snapshot, now_ns);
    look->refused += look->is_once && state == TRACEE_REFUSED; /* this look is the only one */
    thread->is_done = state == TRACEE_GONE || (look->is_once && state != TRACEE_BLOCKED);
}

static void look_at(struct look *look, struct look_thread *thread, int64_t now_ns) {
    struct tracee_snapshot snapshot;
    enum tracee_state state = tracee_take_snapshot(look->task_dir, thread->tid, &snapshot);
    bool has_run = snapshot.slices != thread->slices ||
                   (int64_t)snapshot.cpu_ns != thread->cpu_ns || state == TRACEE_RUNNING;
    if (state == TRACEE_GONE)
        return;
    look->refused += state == TRACEE_REFUSED;
    if (look->is_once && has_run) {
        thread->is_done = true; /* the BPF program has it from here on */
        return;
    }
    count_waits(thread, snapshot.slices, state);
    advance(thread, &snapshot, now_ns);
    if (has_run || !thread->is_stack_known) {
        thread->is_stack_known = false;
        thread->pause_ns = (int64_t)look->period_ns;
        if (state == TRACEE_BLOCKED)
            find_stack(look, thread, &snapshot);
    } else {
        thread->pause_ns = next_pause(look, thread);
    }
    thread->is_done = look->is_once && !thread->is_stack_known;
    thread->next_ns = now_ns + (int64_t)dithered(look, (uint64_t)thread->pause_ns);
}

/* --- Rounds -----------------------------------------------------------------------------------*/

static int64_t limit_of(const struct look *look, bool is_last) {
    return is_last || look->next_ns == 0 ? FIRST_COST : MAX_COST;
}

/* The first round also compiles unwind tables, which does not recur. */
static void set_next(struct look *look, int64_t cost_ns) {
    uint64_t longest_ns = (uint64_t)(cost_ns < MAX_COST ? cost_ns : MAX_COST) * SHARE;
    uint64_t pause_ns = dithered(look, look->period_ns > MIN_NS ? look->period_ns : MIN_NS);
    if (look->next_ns != 0 && pause_ns < longest_ns)
        pause_ns = longest_ns;
    look->next_ns = now_monotonic_ns() + pause_ns;
}

static void look_at_all(struct look *look, bool is_last) {
    int64_t begin_ns = (int64_t)thread_cpu_ns(), limit_ns = limit_of(look, is_last);
    uint32_t open = 0;
    for (uint32_t i = 0; i < look->thread_count; i++) {
        struct look_thread *thread = &look->threads[i];
        int64_t now_ns = (int64_t)now_monotonic_ns();
        bool is_due = is_last || thread->next_ns <= now_ns;
        bool has_time = (int64_t)thread_cpu_ns() - begin_ns < limit_ns;
        if (thread->is_listed && !thread->is_done && is_due && has_time)
            look_at(look, thread, now_ns);
        open += thread->is_listed && !thread->is_done;
        if (!thread->is_done)
            report(look, thread, is_last || !thread->is_listed);
    }
    set_next(look, (int64_t)thread_cpu_ns() - begin_ns);
    if (look->is_once && open == 0)
        look->next_ns = 0;
    if (look->is_once) /* all stacks that can be known are */
        forget_code(look);
}

void look_begin(struct look *look) {
    list(look);
    for (uint32_t i = 0; i < look->thread_count; i++) {
        if (look->threads[i].is_new)
            begin(look, &look->threads[i]);
    }
}

void look_round(struct look *look, bool is_last) {
    free_ended(look);
    look->wait_count = 0;
    if (!process_identity_is_alive(&look->process))
        look->is_gone = true;
    if (!look->is_once || look->thread_count == 0)
        look_begin(look);
    struct look_wait *waits = realloc(look->waits, (2 * look->thread_count + 1) * sizeof *waits);
    if (!waits)
        return;
    look->waits = waits;
    look_at_all(look, is_last);
    drop_ended(look);
}
