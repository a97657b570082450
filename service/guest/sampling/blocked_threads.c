/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/blocked_threads.h"

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
#define LEAST_NS     MS         /* between two rounds */
#define SHARE        50         /* looks may take one part in so many of a CPU */
#define LEAST_COST   (MS / 10)  /* but this much in a round */
#define IDLE_NS      (200 * MS) /* a thread that does not run is looked at so often ... */
#define MANY_NS      (1000 * MS)
#define MANY         2000u /* ... and with so many threads so often */
#define BATCH        32u   /* looks under one lock */
#define BELOW        128u  /* red zone */
#define SMALL_BYTES  (16u << 10)
#define LARGE_BYTES  (256u << 10)
#define TOLD_RECORDS 64u       /* between two tellings of a thread's name */
#define WAITING_NS   (10 * MS) /* so much waiting for a CPU is worth a record */

struct place {
    uint32_t incarnation; /* of the thread; 0 = not looked at */
    uint32_t generation;
    int64_t seen_ns, cpu_ns; /* clocks at the last look */
    int64_t waited_ns;       /* the kernel's count of waiting for a CPU; -1 = none */
    int64_t waiting_ns;      /* of it, not recorded yet */
    int64_t loose_ns;        /* off the CPU, place not seen yet */
    int64_t pause_ns;
    uint32_t until_told;
    bool stands; /* the thread has not run since it was seen at pcs */
    uint16_t depth, gap_at;
    uint8_t end, fp_frames;
    uint64_t pcs[RING_MAX_DEPTH];
};

static struct {
    _Atomic bool open;
    int64_t period_ns, round_ns; /* round_ns: of the next one */
    struct place *places;        /* by number of the thread */
    int64_t *next_ns;            /* the same; 0 = never */
    char *copy;
    uint32_t cursor;
    uint64_t random;
} now;

static void *reserve(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static int64_t wall_ns(void) {
    return handler_clock_ns(CLOCK_MONOTONIC);
}

/* Bytes copied; stops at the first page that cannot be read. */
static int64_t read_memory(uint64_t from, void *to, size_t bytes) {
    struct iovec here = {to, bytes}, there = {(void *)from, bytes};
    return process_vm_readv((pid_t)handler_state.pid, &here, 1, &there, 1, 0);
}

static bool read_code(void *context, uint64_t address, void *to, uint32_t len) {
    (void)context;
    return read_memory(address, to, len) == (int64_t)len;
}

/* ---- Records ---- */

static void tell_name(struct place *place, uint32_t tid) {
    char name[16];
    if (place->until_told-- > 0)
        return;
    procfs_task_name(tid, name);
    place->until_told = TOLD_RECORDS;
    if (!ring_push_thread(&handler_state.rings, tid, name, 0, "", 0))
        place->until_told = 0;
}

static bool push_place(const struct place *place, uint32_t tid, int64_t time_ns, int64_t ns) {
    uint32_t size = (uint32_t)(sizeof(struct ring_sample) + place->depth * sizeof *place->pcs);
    struct ring_record *record = ring_reserve(&handler_state.rings, tid, size, (uint64_t)ns);
    if (!record)
        return false;
    struct ring_sample *sample = (struct ring_sample *)record;
    record->kind = RING_RECORD_BLOCKED;
    record->depth = place->depth;
    record->generation = place->generation;
    sample->time_ns = (uint64_t)time_ns;
    sample->weight_ns = (uint64_t)ns;
    sample->end = place->end;
    sample->fp_frames = place->fp_frames;
    sample->gap_at = place->gap_at;
    memcpy(sample->pcs, place->pcs, place->depth * sizeof *place->pcs);
    ring_publish(record, size);
    return true;
}

/* Time without a place stays loose until there is one, or until the last word. */
static void record(struct place *place, uint32_t tid, int64_t time_ns, bool is_last) {
    if (place->waiting_ns > (is_last ? 0 : WAITING_NS)) {
        tell_name(place, tid);
        if (ring_push_unseen(&handler_state.rings, tid, (uint64_t)place->waiting_ns,
                             RING_UNSEEN_WAITING))
            place->waiting_ns = 0;
    }
    bool has_place = place->depth > 0 && (place->stands || is_last);
    if (place->loose_ns <= 0 || (!has_place && !is_last))
        return;
    tell_name(place, tid);
    if (has_place ? push_place(place, tid, time_ns, place->loose_ns)
                  : ring_push_unseen(&handler_state.rings, tid, (uint64_t)place->loose_ns,
                                     RING_UNSEEN_ASLEEP))
        place->loose_ns = 0;
}

/* ---- One look ---- */

/* Takes the time since the last look into account. False: the thread is not there any more. */
static bool advance(struct place *place, uint32_t tid, int64_t time_ns, bool *has_run) {
    int64_t cpu_ns = handler_clock_ns(THREAD_CPU_CLOCK(tid));
    if (cpu_ns == 0)
        return false;
    place->loose_ns += time_ns - place->seen_ns - (cpu_ns - place->cpu_ns);
    *has_run = cpu_ns != place->cpu_ns;
    place->seen_ns = time_ns;
    place->cpu_ns = cpu_ns;
    return true;
}

/* Of the time off the CPU, what the thread was ready to run. */
static void take_waiting(struct place *place, uint32_t tid) {
    int64_t waited_ns = procfs_task_waited_ns(tid);
    int64_t more = waited_ns < 0 || place->waited_ns < 0 ? 0 : waited_ns - place->waited_ns;
    more = more < place->loose_ns ? more : place->loose_ns;
    place->waited_ns = waited_ns;
    if (more <= 0)
        return;
    place->waiting_ns += more;
    place->loose_ns -= more;
}

static void walk(struct place *place, uint64_t pc, uint64_t sp, const struct module_map *map) {
    struct walk_result walked = {.end = RING_END_BAD_STACK};
    struct walk_copy copy = {.low = (sp - BELOW) & ~7ull, .bytes = now.copy, .read = read_code};
    for (size_t bytes = SMALL_BYTES; bytes <= LARGE_BYTES; bytes *= LARGE_BYTES / SMALL_BYTES) {
        int64_t got = read_memory(copy.low, now.copy, bytes);
        copy.high = copy.low + (uint64_t)(got > 0 ? got & ~7ll : 0);
        walk_from_copy(pc, sp, &map->walk, &copy, place->pcs,
                       atomic_load_explicit(&handler_state.max_depth, memory_order_relaxed),
                       &walked);
        if (walked.end != RING_END_BAD_STACK || got < (int64_t)bytes)
            break;
    }
    place->depth = (uint16_t)walked.depth;
    place->gap_at = walked.gap_at;
    place->end = walked.end;
    place->fp_frames = walked.fp_frames;
    place->generation = map->generation;
}

/* A module that came since the map was read. */
static void tell_of_miss(const struct place *place, const struct walk_map *map) {
    if (place->end != RING_END_NO_TABLE && place->fp_frames == 0)
        return;
    for (uint32_t i = 0; i < place->depth; i++)
        if (!walk_map_find(map, (place->pcs[i] & ~RING_PC_EXACT) - (i > 0)))
            atomic_store_explicit(&handler_state.missed, 1, memory_order_release);
}

/* Where it stands now, if it does: its clock says whether it kept still while it was looked at. */
static void find_place(struct place *place, uint32_t tid) {
    const struct module_map *map = atomic_load_explicit(&handler_state.map, memory_order_acquire);
    uint64_t pc, sp;
    place->stands = false;
    if (!map || !now.copy || procfs_task_state(tid, &pc, &sp) != PROCFS_BLOCKED || sp < BELOW)
        return;
    place->depth = 0;
    walk(place, pc, sp, map);
    place->stands = handler_clock_ns(THREAD_CPU_CLOCK(tid)) == place->cpu_ns;
    if (place->stands)
        tell_of_miss(place, &map->walk);
    else
        place->depth = 0;
}

static int64_t idle_ns(void) {
    int64_t longest = sampled_threads_count() < MANY ? IDLE_NS : MANY_NS;
    return longest > now.period_ns ? longest : now.period_ns;
}

/* At a random moment between half of the pause and one and a half: work in step with our looks must
 * not always be seen in the same place. */
static int64_t dithered(int64_t pause_ns) {
    now.random = now.random * 6364136223846793005ull + 1442695040888963407ull;
    return pause_ns / 2 + (int64_t)((__uint128_t)(uint64_t)pause_ns * (now.random >> 32) >> 32);
}

static void look_at(const struct sampled_thread *thread, uint32_t number, int64_t time_ns) {
    struct place *place = &now.places[number];
    bool has_run;
    if (place->incarnation != atomic_load(&thread->incarnation) ||
        !advance(place, thread->tid, time_ns, &has_run)) {
        now.next_ns[number] = 0;
        return;
    }
    if (has_run || !place->stands) {
        take_waiting(place, thread->tid);
        find_place(place, thread->tid);
        place->pause_ns = now.period_ns;
    } else {
        int64_t longest = idle_ns();
        place->pause_ns = place->pause_ns * 2 < longest ? place->pause_ns * 2 : longest;
    }
    record(place, thread->tid, time_ns, false);
    now.next_ns[number] = time_ns + dithered(place->pause_ns);
}

/* ---- Rounds ---- */

static uint32_t look_at_batch(uint32_t limit, uint32_t left) {
    uint64_t mask;
    uint32_t seen = 0;
    int64_t time_ns = wall_ns();
    sampled_threads_lock(&mask);
    for (uint32_t looks = 0; seen < left && looks < BATCH; seen++) {
        now.cursor = now.cursor + 1 < limit ? now.cursor + 1 : 0;
        const struct sampled_thread *thread = &handler_state.threads[now.cursor];
        if (now.next_ns[now.cursor] == 0 || now.next_ns[now.cursor] > time_ns)
            continue;
        looks++;
        look_at(thread, now.cursor, wall_ns());
    }
    sampled_threads_unlock(&mask);
    return seen;
}

void blocked_round(void) {
    uint32_t limit = sampled_threads_limit();
    int64_t begin = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID), cost = 0;
    int64_t budget = now.period_ns / SHARE > LEAST_COST ? now.period_ns / SHARE : LEAST_COST;
    for (uint32_t seen = 0; seen < limit && cost < budget;) {
        seen += look_at_batch(limit, limit - seen);
        cost = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
    }
    int64_t pause = dithered(now.period_ns);
    now.round_ns = wall_ns() + (pause > cost * SHARE ? pause : cost * SHARE);
}

int64_t blocked_due_ns(void) {
    return atomic_load(&now.open) ? now.round_ns : INT64_MAX;
}

bool blocked_is_open(void) {
    return atomic_load(&now.open);
}

/* The last word on a thread, or on all of them so far. */
static void settle(struct place *place, uint32_t tid, bool has_ended) {
    int64_t time_ns = wall_ns();
    bool has_run = false;
    if (!has_ended && advance(place, tid, time_ns, &has_run) && has_run) {
        place->stands = false;
        take_waiting(place, tid);
    }
    record(place, tid, time_ns, true);
}

void blocked_enter(const struct sampled_thread *thread) {
    if (!atomic_load_explicit(&now.open, memory_order_relaxed))
        return;
    uint32_t number = sampled_threads_index(thread);
    struct place *place = &now.places[number];
    memset(place, 0, offsetof(struct place, pcs));
    place->incarnation = atomic_load(&thread->incarnation);
    place->seen_ns = wall_ns();
    place->cpu_ns = handler_clock_ns(THREAD_CPU_CLOCK(thread->tid));
    place->waited_ns = procfs_task_waited_ns(thread->tid);
    now.next_ns[number] = place->seen_ns + now.period_ns / 2;
}

void blocked_leave(const struct sampled_thread *thread, bool has_ended) {
    uint32_t number = sampled_threads_index(thread);
    if (!atomic_load_explicit(&now.open, memory_order_relaxed))
        return;
    struct place *place = &now.places[number];
    if (place->incarnation == atomic_load(&thread->incarnation))
        settle(place, thread->tid, has_ended);
    place->incarnation = 0;
    now.next_ns[number] = 0;
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
    struct place *place = &now.places[sampled_threads_index(thread)];
    if (place->incarnation == atomic_load(&thread->incarnation))
        settle(place, thread->tid, false);
}

void blocked_flush(void) {
    if (blocked_is_open())
        each_thread(flush_thread);
}

void blocked_after_fork(void) {
    atomic_store(&now.open, false);
}

static int reserve_all(void) {
    if (!now.places)
        now.places = reserve(SAMPLED_THREADS_MAX * sizeof *now.places);
    if (!now.next_ns)
        now.next_ns = reserve(SAMPLED_THREADS_MAX * sizeof *now.next_ns);
    if (!now.copy)
        now.copy = reserve(LARGE_BYTES);
    return now.places && now.next_ns && now.copy ? 0 : ENOMEM;
}

int blocked_open(uint64_t period_ns) {
    uint64_t pc, sp, word;
    bool was_open = blocked_is_open();
    if (reserve_all() != 0)
        return ENOMEM;
    now.period_ns = (int64_t)period_ns > LEAST_NS ? (int64_t)period_ns : LEAST_NS;
    now.round_ns = wall_ns();
    now.random = (uint64_t)now.round_ns;
    atomic_store(&now.open, true);
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
    sampled_threads_lock(&mask); /* a thread that leaves is past its last word */
    atomic_store(&now.open, false);
    sampled_threads_unlock(&mask);
    madvise(now.places, SAMPLED_THREADS_MAX * sizeof *now.places, MADV_DONTNEED);
    madvise(now.next_ns, SAMPLED_THREADS_MAX * sizeof *now.next_ns, MADV_DONTNEED);
    madvise(now.copy, LARGE_BYTES, MADV_DONTNEED);
}
