/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks one thread's stack. A blocked thread is walked while it sleeps, and the result counts if it
 * did not wake up in between. It is stopped only if its registers are needed or if it runs. If it
 * may not be stopped, the walk searches the stack for the first frame. */
#include "api/base/array.h"
#include "service/engine/backtraces/backtraces_request.h"

#include <string.h>

#define TRIES 4 /* for a thread that wakes up and sleeps again while we look */

/* The thread waits in a system call that a stop (or a capture's tick after one) would end with
 * EINTR, and its rbp cannot be read without a stop. */
#define FROM_SEARCH "a frame was found by search"

/* --- Equal stacks are stored once ---------------------------------------------------------------
 */

/* Returns false when out of memory. */
static bool add_stack(struct backtraces *all, uint32_t hash, const uint64_t *pcs, uint32_t count) {
    const char *bytes = (const char *)pcs;
    uint64_t *copy = (uint64_t *)sonde_arena_dup(&all->arena, bytes, count * sizeof *pcs);
    if (!copy || !array_room(&all->stacks, &all->stack_capacity, all->stack_count, 1) ||
        !hash_index_add(&all->stack_index, hash, all->stack_count))
        return false;
    all->stacks[all->stack_count++] = (struct backtraces_stack){copy, count, 1};
    return true;
}

/* Returns the stack's number + 1, or 0 when out of memory. */
static uint32_t intern(struct backtraces *all, const uint64_t *pcs, uint32_t count) {
    uint32_t hash = hash_index_data(&all->stack_index, pcs, count * sizeof *pcs), number;
    struct hash_probe probe = hash_probe(hash);
    while ((number = hash_index_next(&all->stack_index, &probe)) != HASH_INDEX_NONE) {
        struct backtraces_stack *stack = &all->stacks[number];
        if (stack->count != count || memcmp(stack->pcs, pcs, count * sizeof *pcs) != 0)
            continue;
        stack->threads++;
        return number + 1;
    }
    return add_stack(all, hash, pcs, count) ? all->stack_count : 0;
}

/* --- Walks ------------------------------------------------------------------------------------*/

static bool note_of(enum unwind_remote_end end, uint64_t *note) {
    static const enum stack_note notes[] = {
        [UNWIND_REMOTE_DEPTH] = STACK_NOTE_TRUNCATED,
        [UNWIND_REMOTE_NO_CODE] = STACK_NOTE_NO_TABLE,
        [UNWIND_REMOTE_NO_TABLE] = STACK_NOTE_NO_TABLE,
        [UNWIND_REMOTE_RULE] = STACK_NOTE_RULE,
        [UNWIND_REMOTE_REGISTER] = STACK_NOTE_RULE,
        [UNWIND_REMOTE_BAD_STACK] = STACK_NOTE_BAD_STACK,
    };
    if (end == UNWIND_REMOTE_ROOT)
        return false;
    *note = BACKTRACES_NOTE | notes[end];
    return true;
}

/* Keeps the halves of a too deep stack nearest to the leaf and the root, and notes why a walk ended
 * before the root. */
static uint32_t store_walk(struct backtraces *all, const struct unwind_remote_walk *walk) {
    uint64_t *pcs = walk->pcs;
    uint32_t count = walk->count, most = all->spec.max_depth, half = most / 2;
    if (count > most) {
        uint32_t rest = most - half;
        pcs[half] = BACKTRACES_GAP | (count - most);
        memmove(pcs + half + 1, pcs + count - rest, rest * sizeof *pcs);
        count = most + 1;
    }
    count += note_of(walk->end, &pcs[count]);
    return intern(all, pcs, count);
}

static struct unwind_remote_walk new_walk(const struct backtraces *all) {
    return (struct unwind_remote_walk){.pcs = all->scratch, .capacity = UNWIND_REMOTE_FRAMES};
}

static void refuse(struct backtraces *all, struct engine_thread *thread, pid_t tracer) {
    all->refused++;
    all->other_tracer = tracer ? tracer : all->other_tracer;
    thread->error = tracer ? "another process traces it" : "the kernel does not let us look";
}

static bool walk_stopped(struct backtraces *all, struct engine_thread *thread) {
    struct process_code *code = &all->code;
    struct unwind_remote remote = process_code_remote(code);
    struct unwind_remote_walk walk = new_walk(all);
    struct tracee_stop stop;
    enum tracee_state state =
        tracee_stop(&all->tracer, all->task_dir, thread->tid, code->stack, BACKTRACES_COPY, &stop);
    thread->stop_ns = stop.stop_ns;
    if (state == TRACEE_GONE)
        return false;
    if (state == TRACEE_REFUSED) {
        refuse(all, thread, stop.tracer);
        return true;
    }
    code->stack_at = stop.stack_at;
    code->stack_bytes = stop.stack_bytes;
    code->is_live = false;
    unwind_remote_walk(&remote, &stop.registers, &walk);
    thread->stack = store_walk(all, &walk);
    return true;
}

static enum blocked_outcome walk_blocked(struct backtraces *all, struct engine_thread *thread,
                                         const struct tracee_snapshot *before) {
    struct unwind_remote_walk walk = new_walk(all);
    struct blocked_thread blocked = {.process = all->pid,
                                     .task_dir = all->task_dir,
                                     .tid = thread->tid,
                                     .may_stop = !all->is_ticking && thread->state != 'D'};
    enum blocked_outcome outcome = blocked_walk(&all->code, &blocked, before, &walk);
    if (outcome != BLOCKED_WALKED)
        return outcome;
    if (walk.guessed > 0)
        thread->error = FROM_SEARCH;
    all->guessed += walk.guessed > 0;
    thread->stack = store_walk(all, &walk);
    return BLOCKED_WALKED;
}

enum backtraces_outcome backtraces_walk(struct backtraces *all, struct engine_thread *thread,
                                        bool may_stop) {
    struct tracee_snapshot snapshot;
    enum blocked_outcome outcome = BLOCKED_MOVED;
    if (thread->state == 'Z' || thread->state == 'X') {
        thread->error = "it has ended";
        return BACKTRACES_WALKED;
    }
    for (int i = 0; i < TRIES && outcome == BLOCKED_MOVED; i++) {
        enum tracee_state state = tracee_take_snapshot(all->task_dir, thread->tid, &snapshot);
        if (state == TRACEE_GONE)
            return BACKTRACES_GONE;
        if (state == TRACEE_REFUSED)
            refuse(all, thread, 0);
        if (state == TRACEE_REFUSED)
            return BACKTRACES_WALKED;
        if (state == TRACEE_RUNNING)
            break;
        outcome = walk_blocked(all, thread, &snapshot);
    }
    bool was_blocked = outcome == BLOCKED_WALKED || outcome == BLOCKED_WANTS_STOP;
    if (!may_stop && !was_blocked)
        return BACKTRACES_RUNNING;
    if (outcome != BLOCKED_WALKED && !walk_stopped(all, thread))
        return BACKTRACES_GONE;
    if (was_blocked)
        backtraces_note_wait(all, thread, &snapshot, outcome != BLOCKED_WALKED);
    return BACKTRACES_WALKED;
}
