/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/blocked_threads.h"

#include "service/guest/process/address_space.h"
#include "service/guest/process/procfs.h"
#include "service/guest/raw.h"
#include "service/guest/sampling/sampled_threads.h"
#include "service/guest/signal/push.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>

#define MS           1000000ll
#define MIN_NS       MS         /* between two rounds */
#define SHARE        50         /* looks take at most 1/50 of a CPU */
#define MIN_COST     (MS / 10)  /* but may take this long in each round */
#define IDLE_NS      (200 * MS) /* longest pause between looks at a thread that does not run */
#define MANY_NS      (1000 * MS)
#define MANY         2000u       /* from this many threads on, MANY_NS applies */
#define BATCH        32u         /* looks under one lock */
#define RED_ZONE     128u        /* bytes in use below sp */
#define SMALL_BYTES  (16u << 10) /* of stack to copy at first */
#define LARGE_BYTES  (256u << 10)
#define NAME_RECORDS 64u       /* between two records of a thread's name */
#define WAITING_NS   (10 * MS) /* waiting for a CPU is recorded from this much on */

struct blocked_thread {
    uint32_t incarnation;    /* of the sampled thread; 0 = not looked at */
    uint32_t generation;     /* of the module map that pcs were walked with */
    int64_t seen_ns, cpu_ns; /* wall and CPU clock at the last look */
    int64_t waited_ns;       /* the kernel's count of waiting for a CPU; -1 = none */
    int64_t waiting_ns;      /* the part of it that is not recorded yet */
    int64_t off_cpu_ns;      /* not recorded yet, because the stack is not known */
    int64_t pause_ns;
    uint32_t until_name;
    bool is_stack_known; /* pcs is the stack: the thread has not run since it was walked */
    uint16_t depth, gap_at;
    uint8_t end, fp_frames;
    uint64_t pcs[RING_MAX_DEPTH];
};

static struct {
    _Atomic bool open;
    int64_t period_ns;
    int64_t round_ns;               /* when the next round is due */
    struct blocked_thread *threads; /* by index of the sampled thread */
    int64_t *next_ns;               /* when each is due; 0 = not looked at */
    char *copy;                     /* LARGE_BYTES of stack */
    uint32_t cursor;
    uint64_t random;
} state;

static int64_t now_ns(void) {
    return handler_clock_ns(CLOCK_MONOTONIC);
}

/* Returns the bytes copied, up to the first page that cannot be read. */
static int64_t read_memory(uint64_t from, void *to, size_t bytes) {
    struct iovec here = {to, bytes}, there = {(void *)from, bytes};
    return process_vm_readv((pid_t)handler_state.pid, &here, 1, &there, 1, 0);
}

static bool read_code(void *context, uint64_t address, void *to, uint32_t len) {
    (void)context;
    return read_memory(address, to, len) == (int64_t)len;
}

/* ---- Records ---- */

static void push_name(struct blocked_thread *blocked, uint32_t tid) {
    char name[16];
    if (blocked->until_name-- > 0)
        return;
    procfs_task_name(tid, name);
    blocked->until_name = NAME_RECORDS;
    if (!ring_push_thread(&handler_state.rings, tid, name, 0, "", 0))
        blocked->until_name = 0;
}

static bool push_blocked(const struct blocked_thread *blocked, uint32_t tid, int64_t time_ns,
                         int64_t ns) {
    uint32_t size = (uint32_t)(sizeof(struct ring_sample) + blocked->depth * sizeof *blocked->pcs);
    struct ring_record *record = ring_reserve(&handler_state.rings, tid, size, (uint64_t)ns);
    if (!record)
        return false;
    struct ring_sample *sample = (struct ring_sample *)record;
    record->kind = RING_RECORD_BLOCKED;
    record->depth = blocked->depth;
    record->generation = blocked->generation;
    sample->time_ns = (uint64_t)time_ns;
    sample->weight_ns = (uint64_t)ns;
    sample->end = blocked->end;
    sample->fp_frames = blocked->fp_frames;
    sample->gap_at = blocked->gap_at;
    memcpy(sample->pcs, blocked->pcs, blocked->depth * sizeof *blocked->pcs);
    ring_publish(record, size);
    return true;
}

/* Time that has no stack yet is kept until the thread's next stack, or recorded without one at the
 * end (is_last). */
static void record(struct blocked_thread *blocked, uint32_t tid, int64_t time_ns, bool is_last) {
    if (blocked->waiting_ns > (is_last ? 0 : WAITING_NS)) {
        push_name(blocked, tid);
        if (ring_push_unseen(&handler_state.rings, tid, (uint64_t)blocked->waiting_ns,
                             RING_UNSEEN_WAITING))
            blocked->waiting_ns = 0;
    }
    bool has_stack = blocked->depth > 0 && (blocked->is_stack_known || is_last);
    if (blocked->off_cpu_ns <= 0 || (!has_stack && !is_last))
        return;
    push_name(blocked, tid);
    if (has_stack ? push_blocked(blocked, tid, time_ns, blocked->off_cpu_ns)
                  : ring_push_unseen(&handler_state.rings, tid, (uint64_t)blocked->off_cpu_ns,
                                     RING_UNSEEN_ASLEEP))
        blocked->off_cpu_ns = 0;
}

/* ---- One look ---- */

/* Adds the time since the last look. False: the thread has ended. */
static bool advance(struct blocked_thread *blocked, uint32_t tid, int64_t time_ns, bool *has_run) {
    int64_t cpu_ns = handler_clock_ns(THREAD_CPU_CLOCK(tid));
    if (cpu_ns == 0)
        return false;
    blocked->off_cpu_ns += time_ns - blocked->seen_ns - (cpu_ns - blocked->cpu_ns);
    *has_run = cpu_ns != blocked->cpu_ns;
    blocked->seen_ns = time_ns;
    blocked->cpu_ns = cpu_ns;
    return true;
}

/* Separates the time that the thread waited for a CPU from the time that it was blocked. */
static void split_waiting(struct blocked_thread *blocked, uint32_t tid) {
    int64_t waited_ns = procfs_task_waited_ns(tid);
    int64_t more = waited_ns < 0 || blocked->waited_ns < 0 ? 0 : waited_ns - blocked->waited_ns;
    more = more < blocked->off_cpu_ns ? more : blocked->off_cpu_ns;
    blocked->waited_ns = waited_ns;
    if (more <= 0)
        return;
    blocked->waiting_ns += more;
    blocked->off_cpu_ns -= more;
}

static void walk(struct blocked_thread *blocked, uint64_t pc, uint64_t sp,
                 const struct module_map *map) {
    struct walk_result walked = {.end = RING_END_BAD_STACK};
    struct walk_copy copy = {
        .low = (sp - RED_ZONE) & ~7ull, .bytes = state.copy, .read = read_code};
    for (size_t bytes = SMALL_BYTES; bytes <= LARGE_BYTES; bytes *= LARGE_BYTES / SMALL_BYTES) {
        int64_t got = read_memory(copy.low, state.copy, bytes);
        copy.high = copy.low + (uint64_t)(got > 0 ? got & ~7ll : 0);
        walk_from_copy(pc, sp, &map->walk, &copy, blocked->pcs,
                       atomic_load_explicit(&handler_state.max_depth, memory_order_relaxed),
                       &walked);
        if (walked.end != RING_END_BAD_STACK || got < (int64_t)bytes)
            break;
    }
    blocked->depth = (uint16_t)walked.depth;
    blocked->gap_at = walked.gap_at;
    blocked->end = walked.end;
    blocked->fp_frames = walked.fp_frames;
    blocked->generation = map->generation;
}

/* Asks for new maps if a pc is in a module that was loaded since the maps were read. */
static void report_miss(const struct blocked_thread *blocked, const struct walk_map *map) {
    if (blocked->end != RING_END_NO_TABLE && blocked->fp_frames == 0)
        return;
    for (uint32_t i = 0; i < blocked->depth; i++)
        if (!walk_map_find(map, (blocked->pcs[i] & ~RING_PC_EXACT) - (i > 0)))
            atomic_store_explicit(&handler_state.missed, 1, memory_order_release);
}

/* Walks the thread's stack if it is blocked. The result counts if the CPU clock shows that the
 * thread has not run meanwhile. */
static void find_stack(struct blocked_thread *blocked, uint32_t tid) {
    const struct module_map *map = atomic_load_explicit(&handler_state.map, memory_order_acquire);
    uint64_t pc, sp;
    blocked->is_stack_known = false;
    if (!map || !state.copy || procfs_task_state(tid, &pc, &sp) != PROCFS_BLOCKED || sp < RED_ZONE)
        return;
    blocked->depth = 0;
    walk(blocked, pc, sp, map);
    blocked->is_stack_known = handler_clock_ns(THREAD_CPU_CLOCK(tid)) == blocked->cpu_ns;
    if (blocked->is_stack_known)
        report_miss(blocked, &map->walk);
    else
        blocked->depth = 0;
}

static int64_t idle_ns(void) {
    int64_t longest = sampled_threads_count() < MANY ? IDLE_NS : MANY_NS;
    return longest > state.period_ns ? longest : state.period_ns;
}

/* A random time from half the pause to one and a half: otherwise work in step with the looks would
 * always be seen at the same point. */
static int64_t dithered(int64_t pause_ns) {
    state.random = state.random * 6364136223846793005ull + 1442695040888963407ull;
    return pause_ns / 2 + (int64_t)((__uint128_t)(uint64_t)pause_ns * (state.random >> 32) >> 32);
}

static void look_at(const struct sampled_thread *thread, uint32_t number, int64_t time_ns) {
    struct blocked_thread *blocked = &state.threads[number];
    bool has_run;
    if (blocked->incarnation != atomic_load(&thread->incarnation) ||
        !advance(blocked, thread->tid, time_ns, &has_run)) {
        state.next_ns[number] = 0;
        return;
    }
    if (has_run || !blocked->is_stack_known) {
        split_waiting(blocked, thread->tid);
        find_stack(blocked, thread->tid);
        blocked->pause_ns = state.period_ns;
    } else {
        int64_t longest = idle_ns();
        blocked->pause_ns = blocked->pause_ns * 2 < longest ? blocked->pause_ns * 2 : longest;
    }
    record(blocked, thread->tid, time_ns, false);
    state.next_ns[number] = time_ns + dithered(blocked->pause_ns);
}

/* ---- Rounds ---- */

static uint32_t look_at_batch(uint32_t limit, uint32_t left) {
    uint64_t mask;
    uint32_t seen = 0;
    int64_t time_ns = now_ns();
    sampled_threads_lock(&mask);
    for (uint32_t looks = 0; seen < left && looks < BATCH; seen++) {
        state.cursor = state.cursor + 1 < limit ? state.cursor + 1 : 0;
        const struct sampled_thread *thread = &handler_state.threads[state.cursor];
        if (state.next_ns[state.cursor] == 0 || state.next_ns[state.cursor] > time_ns)
            continue;
        looks++;
        look_at(thread, state.cursor, now_ns());
    }
    sampled_threads_unlock(&mask);
    return seen;
}

void blocked_round(void) {
    uint32_t limit = sampled_threads_limit();
    int64_t begin = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID), cost = 0;
    int64_t budget = state.period_ns / SHARE > MIN_COST ? state.period_ns / SHARE : MIN_COST;
    for (uint32_t seen = 0; seen < limit && cost < budget;) {
        seen += look_at_batch(limit, limit - seen);
        cost = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
    }
    int64_t pause = dithered(state.period_ns);
    state.round_ns = now_ns() + (pause > cost * SHARE ? pause : cost * SHARE);
}

int64_t blocked_due_ns(void) {
    return atomic_load(&state.open) ? state.round_ns : INT64_MAX;
}

bool blocked_is_open(void) {
    return atomic_load(&state.open);
}

/* Records all time of a thread up to now. */
static void record_all(struct blocked_thread *blocked, uint32_t tid, bool has_ended) {
    int64_t time_ns = now_ns();
    bool has_run = false;
    if (!has_ended && advance(blocked, tid, time_ns, &has_run) && has_run) {
        blocked->is_stack_known = false;
        split_waiting(blocked, tid);
    }
    record(blocked, tid, time_ns, true);
}

void blocked_enter(const struct sampled_thread *thread) {
    if (!atomic_load_explicit(&state.open, memory_order_relaxed))
        return;
    uint32_t number = sampled_threads_index(thread);
    struct blocked_thread *blocked = &state.threads[number];
    memset(blocked, 0, offsetof(struct blocked_thread, pcs));
    blocked->incarnation = atomic_load(&thread->incarnation);
    blocked->seen_ns = now_ns();
    blocked->cpu_ns = handler_clock_ns(THREAD_CPU_CLOCK(thread->tid));
    blocked->waited_ns = procfs_task_waited_ns(thread->tid);
    state.next_ns[number] = blocked->seen_ns + state.period_ns / 2;
}

void blocked_leave(const struct sampled_thread *thread, bool has_ended) {
    uint32_t number = sampled_threads_index(thread);
    if (!atomic_load_explicit(&state.open, memory_order_relaxed))
        return;
    struct blocked_thread *blocked = &state.threads[number];
    if (blocked->incarnation == atomic_load(&thread->incarnation))
        record_all(blocked, thread->tid, has_ended);
    blocked->incarnation = 0;
    state.next_ns[number] = 0;
}

static void each_thread(void (*visit)(const struct sampled_thread *thread)) {
    uint64_t mask;
    sampled_threads_lock(&mask);
    for (uint32_t i = 0; i < sampled_threads_limit(); i++)
        if (handler_state.threads[i].tid)
            visit(&handler_state.threads[i]);
    sampled_threads_unlock(&mask);
}

static void flush_thread(const struct sampled_thread *thread) {
    struct blocked_thread *blocked = &state.threads[sampled_threads_index(thread)];
    if (blocked->incarnation == atomic_load(&thread->incarnation))
        record_all(blocked, thread->tid, false);
}

void blocked_flush(void) {
    if (blocked_is_open())
        each_thread(flush_thread);
}

void blocked_after_fork(void) {
    atomic_store(&state.open, false);
}

static int reserve_all(void) {
    if (!state.threads)
        state.threads = address_space_reserve(SAMPLED_THREADS_MAX * sizeof *state.threads);
    if (!state.next_ns)
        state.next_ns = address_space_reserve(SAMPLED_THREADS_MAX * sizeof *state.next_ns);
    if (!state.copy)
        state.copy = address_space_reserve(LARGE_BYTES);
    return state.threads && state.next_ns && state.copy ? 0 : ENOMEM;
}

int blocked_open(uint64_t period_ns) {
    uint64_t pc, sp, word;
    bool was_open = blocked_is_open();
    if (reserve_all() != 0)
        return ENOMEM;
    state.period_ns = (int64_t)period_ns > MIN_NS ? (int64_t)period_ns : MIN_NS;
    state.round_ns = now_ns();
    state.random = (uint64_t)state.round_ns;
    atomic_store(&state.open, true);
    if (!was_open)
        each_thread(blocked_enter);
    errno = EACCES;
    if (procfs_task_state((uint32_t)raw_gettid(), &pc, &sp) == PROCFS_UNKNOWN ||
        read_memory((uint64_t)&word, &pc, sizeof pc) != sizeof pc)
        return errno;
    return 0;
}

void blocked_close(void) {
    if (!blocked_is_open())
        return;
    blocked_flush();
    uint64_t mask;
    sampled_threads_lock(&mask); /* waits for blocked_leave of ending threads */
    atomic_store(&state.open, false);
    sampled_threads_unlock(&mask);
    madvise(state.threads, SAMPLED_THREADS_MAX * sizeof *state.threads, MADV_DONTNEED);
    madvise(state.next_ns, SAMPLED_THREADS_MAX * sizeof *state.next_ns, MADV_DONTNEED);
    madvise(state.copy, LARGE_BYTES, MADV_DONTNEED);
}
