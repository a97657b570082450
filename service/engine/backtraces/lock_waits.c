/* SPDX-License-Identifier: Apache-2.0
 *
 * What blocked threads wait for, and deadlocks among them, when all stacks have names:
 *
 *     walk       keeps the arguments of futex, of each thread that is blocked in it
 *     describe   the functions near the leaf say what the word is
 *     look       reads each lock once; then each waiter must not have run since its walk, or
 *                waits for it again, and the lock is read again
 *     circles    follows from waiters to owners
 *     look again a circle counts if its locks and its threads are as before
 *
 * The process can forge everything that is read here. So an owner is a thread of the process, or of
 * another one if the lock is shared, and nothing else depends on it. */
#include "api/base/array.h"
#include "service/engine/backtraces/backtraces_request.h"
#include "service/engine/backtraces/lock_circles.h"
#include "service/engine/backtraces/lock_layout.h"
#include "service/process/foreign_memory.h"
#include "service/process/inner_pid.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CALLER_DEPTH   32u /* frames in which the function that locks is searched */
#define SECOND_LOOK_NS 5000000
#define NO_THREAD      LOCK_CIRCLE_END
#define NO_LOCK        UINT32_MAX

/* A thread that is blocked in futex. */
struct waiter {
    struct engine_lock_wait wait; /* engine_thread.lock_wait points here */
    struct futex_wait futex;
    struct tracee_snapshot snapshot;
    bool was_stopped; /* after the snapshot, so it ran a little */
    bool is_known;    /* the lock was read while the thread waited */
    uint32_t lock;    /* its number; NO_LOCK = none */
};

/* A lock that somebody waits for. */
struct held_lock {
    uint64_t start;
    enum sonde_lock_layout layout;
    struct lock_state state;
    pid_t owner;       /* 0 = unknown */
    bool is_elsewhere; /* the owner is a thread of another process */
    uint32_t stack;    /* of a thread that waits for it */
    uint32_t thread;   /* the owner's index in threads; NO_THREAD = not among them */
};

/* What a process in a container calls one of its threads. */
struct inner_tid {
    pid_t tid;
    uint32_t thread;
};

struct lock_look {
    struct backtraces *all;
    struct sonde_wait *stacks; /* what each stack waits for, by number */
    struct held_lock *locks;
    uint32_t count, capacity;
    struct hash_index index; /* of locks, by start and layout */
    bool is_contained;       /* the process numbers its threads in a pid namespace of its own */
    struct inner_tid *inner; /* by tid; NULL = not read yet */
};

static struct waiter *waiter_of(const struct engine_thread *thread) {
    return container_of(thread->lock_wait, struct waiter, wait);
}

void backtraces_note_wait(struct backtraces *all, struct engine_thread *thread,
                          const struct tracee_snapshot *snapshot, bool was_stopped) {
    struct futex_wait futex;
    struct waiter *waiter = thread->stack && futex_wait_read(snapshot, &futex)
                                ? sonde_arena_alloc(&all->arena, sizeof *waiter)
                                : NULL;
    if (!waiter)
        return;
    *waiter = (struct waiter){
        .wait = {.address = futex.address, .name = "", .function = "", .owner_name = ""},
        .futex = futex,
        .snapshot = *snapshot,
        .was_stopped = was_stopped,
        .lock = NO_LOCK,
    };
    thread->lock_wait = &waiter->wait;
}

/* --- describe --------------------------------------------------------------------------------- */

static struct sonde_wait describe_stack(const struct engine_thread_stack *stack) {
    const char *names[CALLER_DEPTH];
    uint32_t count = 0;
    for (; count < stack->count && count < CALLER_DEPTH; count++)
        names[count] = stack->frames[count].name;
    return sonde_wait_of_names(names, count);
}

static bool describe(struct lock_look *look, const struct engine_backtraces *answer) {
    size_t count = answer->stack_count + 1;
    look->stacks = sonde_arena_alloc(&look->all->arena, count * sizeof *look->stacks);
    if (look->stacks)
        look->stacks[0] = (struct sonde_wait){.function = ""};
    for (uint32_t i = 0; look->stacks && i < answer->stack_count; i++)
        look->stacks[i + 1] = describe_stack(&answer->stacks[i]);
    return look->stacks != NULL;
}

/* --- owners ----------------------------------------------------------------------------------- */

static int by_tid(const void *a, const void *b) {
    const struct engine_thread *left = a, *right = b;
    return (left->tid > right->tid) - (left->tid < right->tid);
}

static int by_inner_tid(const void *a, const void *b) {
    const struct inner_tid *left = a, *right = b;
    return (left->tid > right->tid) - (left->tid < right->tid);
}

static bool read_inner_tids(struct lock_look *look) {
    struct backtraces *all = look->all;
    look->inner = sonde_arena_alloc(&all->arena, (all->thread_count + 1) * sizeof *look->inner);
    for (uint32_t i = 0; look->inner && i < all->thread_count; i++)
        look->inner[i] = (struct inner_tid){process_inner_tid(all->pid, all->threads[i].tid), i};
    if (look->inner)
        qsort(look->inner, all->thread_count, sizeof *look->inner, by_inner_tid);
    return look->inner != NULL;
}

/* The index of the thread with that tid, as the process calls it. */
static uint32_t find_thread(struct lock_look *look, pid_t tid) {
    const struct backtraces *all = look->all;
    if (look->is_contained) {
        const struct inner_tid key = {.tid = tid}, *found = NULL;
        if (look->inner || read_inner_tids(look))
            found = bsearch(&key, look->inner, all->thread_count, sizeof key, by_inner_tid);
        return found ? found->thread : NO_THREAD;
    }
    const struct engine_thread key = {.tid = tid}, *found;
    found = bsearch(&key, all->threads, all->thread_count, sizeof key, by_tid);
    return found ? (uint32_t)(found - all->threads) : NO_THREAD;
}

/* Whether the folder, of threads or processes, has that number. */
static bool has_thread(int folder, pid_t tid) {
    char name[16];
    snprintf(name, sizeof name, "%d", (int)tid);
    return faccessat(folder, name, F_OK, 0) == 0;
}

static bool is_elsewhere(pid_t tid) {
    int processes = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool exists = processes >= 0 && has_thread(processes, tid);
    if (processes >= 0)
        close(processes);
    return exists;
}

/* A holder that is not a thread counts as unknown. */
static void find_owner(struct lock_look *look, struct held_lock *lock) {
    pid_t tid = (pid_t)lock->state.owner;
    lock->thread = tid ? find_thread(look, tid) : NO_THREAD;
    lock->owner = lock->thread != NO_THREAD ? look->all->threads[lock->thread].tid : 0;
    if (!tid || lock->owner || look->is_contained)
        return;
    if (has_thread(look->all->task_dir, tid))
        lock->owner = tid; /* not one of the threads that were asked for */
    else
        lock->is_elsewhere = lock->state.is_shared && is_elsewhere(tid);
    lock->owner = lock->is_elsewhere ? tid : lock->owner;
}

/* --- look ------------------------------------------------------------------------------------- */

static struct held_lock read_lock(struct lock_look *look, const struct futex_wait *futex,
                                  uint64_t start, enum sonde_lock_layout layout) {
    uint8_t bytes[LOCK_LAYOUT_BYTES];
    struct held_lock lock = {.start = start, .layout = layout, .thread = NO_THREAD};
    if (layout != SONDE_LOCK_PLAIN &&
        foreign_memory_read(look->all->pid, start, bytes, sizeof bytes) == sizeof bytes) {
        lock.state = lock_layout_read(layout, futex, bytes);
        find_owner(look, &lock);
    }
    return lock;
}

/* The lock's number; many threads may wait for one. NO_LOCK: out of memory. */
static uint32_t find_lock(struct lock_look *look, const struct engine_thread *thread,
                          enum sonde_lock_layout layout) {
    const struct futex_wait *futex = &waiter_of(thread)->futex;
    uint64_t start = lock_layout_start(layout, futex);
    layout = start ? layout : SONDE_LOCK_PLAIN;
    start = start ? start : futex->address;
    uint32_t hash = hash_index_words(&look->index, start, layout), number;
    struct hash_probe probe = hash_probe(hash);
    while ((number = hash_index_next(&look->index, &probe)) != HASH_INDEX_NONE)
        if (look->locks[number].start == start && look->locks[number].layout == layout)
            return number;
    if (!array_room(&look->locks, &look->capacity, look->count, 1) ||
        !hash_index_add(&look->index, hash, look->count))
        return NO_LOCK;
    look->locks[look->count] = read_lock(look, futex, start, layout);
    look->locks[look->count].stack = thread->stack;
    return look->count++;
}

/* Whether the thread has been in the same wait since its snapshot. */
static bool still_waits(const struct backtraces *all, const struct engine_thread *thread) {
    struct waiter *waiter = waiter_of(thread);
    struct tracee_snapshot now;
    struct futex_wait futex;
    if (tracee_take_snapshot(all->task_dir, thread->tid, &now) != TRACEE_BLOCKED ||
        !futex_wait_read(&now, &futex) || futex.address != waiter->futex.address ||
        now.sp != waiter->snapshot.sp || now.pc != waiter->snapshot.pc)
        return false;
    bool has_run = !tracee_did_not_run(&waiter->snapshot, &now);
    bool was_stopped = waiter->was_stopped;
    waiter->snapshot = now;
    waiter->was_stopped = false;
    return !has_run || was_stopped;
}

/* Whether the lock's state is one that it had while the thread waited. If the thread has run, but
 * waits for it again, the lock is read again. */
static bool is_read_in_time(struct lock_look *look, const struct engine_thread *thread) {
    const struct waiter *waiter = waiter_of(thread);
    struct held_lock *lock = &look->locks[waiter->lock];
    uint32_t stack = lock->stack;
    if (still_waits(look->all, thread))
        return true;
    *lock = read_lock(look, &waiter->futex, lock->start, lock->layout);
    lock->stack = stack;
    return still_waits(look->all, thread);
}

static void set_owner(struct lock_look *look, struct waiter *waiter, const struct held_lock *lock) {
    struct engine_lock_wait *wait = &waiter->wait;
    wait->owner = lock->owner;
    wait->is_owner_elsewhere = lock->is_elsewhere;
    wait->readers = lock->state.readers;
    struct engine_thread owner = {.tid = lock->owner, .name = ""};
    if (lock->thread != NO_THREAD)
        wait->owner_name = look->all->threads[lock->thread].name;
    else if (lock->owner && !lock->is_elsewhere && backtraces_read(look->all, &owner))
        wait->owner_name = owner.name;
}

static void look_at(struct lock_look *look, const struct engine_thread *thread) {
    struct waiter *waiter = waiter_of(thread);
    struct sonde_wait wait = look->stacks[thread->stack];
    futex_wait_correct(&waiter->futex, &wait);
    waiter->wait.kind = wait.kind;
    waiter->wait.function = wait.function;
    if (!sonde_wait_is_contention(wait.kind))
        return;
    waiter->lock = find_lock(look, thread, wait.layout);
    if (waiter->lock == NO_LOCK)
        return;
    waiter->wait.address = look->locks[waiter->lock].start;
    waiter->is_known = wait.layout != SONDE_LOCK_PLAIN && is_read_in_time(look, thread);
    if (waiter->is_known)
        set_owner(look, waiter, &look->locks[waiter->lock]);
}

static sonde_err name_locks(struct lock_look *look) {
    struct backtraces *all = look->all;
    struct lock_variable *variables =
        sonde_arena_alloc(&all->arena, (look->count + 1) * sizeof *variables);
    for (uint32_t i = 0; variables && i < look->count; i++)
        variables[i] = (struct lock_variable){look->locks[i].start, look->locks[i].stack, "", 0};
    sonde_err err =
        variables ? backtraces_name_variables(all, variables, look->count) : SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; !err && i < all->thread_count; i++) {
        struct waiter *waiter = all->threads[i].lock_wait ? waiter_of(&all->threads[i]) : NULL;
        if (!waiter || waiter->lock == NO_LOCK)
            continue;
        waiter->wait.name = variables[waiter->lock].name;
        waiter->wait.name_offset = variables[waiter->lock].offset;
    }
    return err;
}

/* --- circles ---------------------------------------------------------------------------------- */

/* A wait that ends by itself is no part of a deadlock. */
static uint32_t next_of(const struct lock_look *look, const struct engine_thread *thread) {
    const struct waiter *waiter = thread->lock_wait ? waiter_of(thread) : NULL;
    bool waits = waiter && waiter->is_known && !waiter->futex.is_timed;
    return waits ? look->locks[waiter->lock].thread : NO_THREAD;
}

/* Looks again. If the holder or the wait has changed, the holder becomes unknown. */
static bool is_confirmed(struct lock_look *look, const struct engine_thread *thread) {
    struct waiter *waiter = waiter_of(thread);
    const struct held_lock *first = &look->locks[waiter->lock];
    struct held_lock now = read_lock(look, &waiter->futex, first->start, first->layout);
    if (still_waits(look->all, thread) && now.thread == first->thread)
        return true;
    waiter->wait.owner = 0;
    return false;
}

static bool is_deadlock(struct lock_look *look, const struct engine_deadlock *circle) {
    uint32_t confirmed = 0;
    for (uint32_t i = 0; i < circle->count && !atomic_load(&look->all->engine->is_ending); i++)
        confirmed += is_confirmed(look, &look->all->threads[circle->threads[i]]);
    return confirmed == circle->count;
}

static sonde_err find_deadlocks(struct lock_look *look, struct engine_backtraces *answer) {
    struct backtraces *all = look->all;
    struct timespec moment = {0, SECOND_LOOK_NS};
    struct lock_circles found;
    uint32_t *next = sonde_arena_alloc(&all->arena, (all->thread_count + 1) * sizeof *next);
    for (uint32_t i = 0; next && i < all->thread_count; i++)
        next[i] = next_of(look, &all->threads[i]);
    if (!next || !lock_circles_find(next, all->thread_count, &all->arena, &found))
        return SONDE_OUT_OF_MEMORY;
    if (found.count)
        nanosleep(&moment, NULL);
    for (uint32_t i = 0; i < found.count; i++)
        if (is_deadlock(look, &found.circles[i]))
            found.circles[answer->deadlock_count++] = found.circles[i];
    answer->deadlocks = found.circles;
    return SONDE_OK;
}

sonde_err backtraces_find_locks(struct backtraces *all, struct engine_backtraces *answer) {
    struct lock_look look = {.all = all,
                             .is_contained = process_inner_tid(all->pid, all->pid) != all->pid};
    hash_index_init(&look.index);
    sonde_err err = describe(&look, answer) ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; !err && i < all->thread_count; i++)
        if (all->threads[i].lock_wait && !atomic_load(&all->engine->is_ending))
            look_at(&look, &all->threads[i]);
    if (!err)
        err = find_deadlocks(&look, answer);
    if (!err)
        err = name_locks(&look);
    hash_index_finish(&look.index);
    free(look.locks);
    return err;
}
