/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread's stack. A blocked thread is walked as it sleeps, and that counts if it slept on; only
 * when its registers are needed, or when it runs, is it stopped. Where it may not be stopped the
 * frame is searched for. */
#include "service/engine/backtraces/backtraces_request.h"

#include <stdlib.h>
#include <string.h>

#define TRIES 4 /* a thread that wakes and sleeps again in mid-look */

/* The thread waits in a call that a stop would end, or a capture's tick after one; and its rbp
 * cannot be seen without. */
#define FROM_SEARCH "a frame was found by search"

/* --- Stacks told apart ------------------------------------------------------------------------*/

static uint64_t stack_hash(const uint64_t *pcs, uint32_t count) {
    uint64_t hash = count;
    for (uint32_t i = 0; i < count; i++) {
        hash = (hash ^ pcs[i]) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    return hash;
}

static uint32_t *slot_of(const struct backtraces *all, const uint64_t *pcs, uint32_t count) {
    for (uint64_t at = stack_hash(pcs, count);; at++) {
        uint32_t *slot = &all->slots[at & (all->slot_capacity - 1)];
        const struct backtraces_stack *stack = *slot ? &all->stacks[*slot - 1] : NULL;
        if (!stack || (stack->count == count && memcmp(stack->pcs, pcs, count * sizeof *pcs) == 0))
            return slot;
    }
}

static bool grow(struct backtraces *all) {
    if (all->stack_count < all->stack_capacity)
        return true;
    uint32_t more = all->stack_capacity ? all->stack_capacity * 2 : 64;
    struct backtraces_stack *stacks = realloc(all->stacks, more * sizeof *stacks);
    if (stacks)
        all->stacks = stacks;
    uint32_t *slots = calloc(more * 2, sizeof *slots);
    if (!stacks || !slots) {
        free(slots);
        return false;
    }
    free(all->slots);
    all->slots = slots;
    all->slot_capacity = more * 2;
    all->stack_capacity = more;
    for (uint32_t i = 0; i < all->stack_count; i++)
        *slot_of(all, stacks[i].pcs, stacks[i].count) = i + 1;
    return true;
}

/* index + 1; 0 when out of memory. */
static uint32_t intern(struct backtraces *all, const uint64_t *pcs, uint32_t count) {
    if (!grow(all))
        return 0;
    uint32_t *slot = slot_of(all, pcs, count);
    if (!*slot) {
        uint64_t *copy =
            (uint64_t *)sonde_arena_dup(&all->arena, (const char *)pcs, count * sizeof *pcs);
        if (!copy)
            return 0;
        all->stacks[all->stack_count] = (struct backtraces_stack){copy, count, 0};
        *slot = ++all->stack_count;
    }
    all->stacks[*slot - 1].threads++;
    return *slot;
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

/* Leaf-most and root-most halves of what is too deep, and why the walk ended before the root. */
static uint32_t keep_walk(struct backtraces *all, const struct unwind_remote_walk *walk) {
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

static void walk_glance(struct backtraces *all, const struct tracee_glance *glance,
                        struct unwind_remote_walk *walk) {
    struct unwind_remote remote = backtraces_code_remote(&all->code);
    struct unwind_registers registers = {.known =
                                             1u << UNWIND_REMOTE_RSP | 1u << UNWIND_REMOTE_RIP};
    registers.value[UNWIND_REMOTE_RSP] = glance->sp;
    registers.value[UNWIND_REMOTE_RIP] = glance->pc;
    backtraces_code_live(&all->code, glance->sp);
    unwind_remote_walk(&remote, &registers, walk);
}

static void refuse(struct backtraces *all, struct engine_thread *thread, pid_t tracer) {
    all->refused++;
    all->rival = tracer ? tracer : all->rival;
    thread->error = tracer ? "another process traces it" : "the kernel does not let us look";
}

static bool walk_stopped(struct backtraces *all, struct engine_thread *thread) {
    struct backtraces_code *code = &all->code;
    struct unwind_remote remote = backtraces_code_remote(code);
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
    thread->stack = keep_walk(all, &walk);
    return true;
}

/* What a look without a stop gave. */
enum outcome { WALKED, MOVED, WANTS_STOP };

static enum outcome walk_blocked(struct backtraces *all, struct engine_thread *thread,
                                 const struct tracee_glance *before) {
    struct unwind_remote remote = backtraces_code_remote(&all->code);
    struct unwind_remote_walk walk = new_walk(all);
    struct tracee_glance after;
    walk_glance(all, before, &walk);
    bool wants = walk.end == UNWIND_REMOTE_REGISTER;
    bool may_stop =
        wants && !all->is_ticking && thread->state != 'D' && tracee_may_stop(all->pid, before);
    bool is_guess = wants && !may_stop && unwind_remote_search(&remote, &walk);
    if (tracee_look(all->task_dir, thread->tid, &after) != TRACEE_BLOCKED ||
        !tracee_slept(before, &after))
        return MOVED;
    if (may_stop)
        return WANTS_STOP;
    if (is_guess)
        thread->error = FROM_SEARCH;
    all->guessed += is_guess;
    thread->stack = keep_walk(all, &walk);
    return WALKED;
}

enum backtraces_outcome backtraces_walk(struct backtraces *all, struct engine_thread *thread,
                                        bool may_stop) {
    struct tracee_glance glance;
    enum outcome outcome = MOVED;
    if (thread->state == 'Z' || thread->state == 'X') {
        thread->error = "it has ended";
        return BACKTRACES_WALKED;
    }
    for (int i = 0; i < TRIES && outcome == MOVED; i++) {
        enum tracee_state state = tracee_look(all->task_dir, thread->tid, &glance);
        if (state == TRACEE_GONE)
            return BACKTRACES_GONE;
        if (state == TRACEE_REFUSED)
            refuse(all, thread, 0);
        if (state == TRACEE_REFUSED)
            return BACKTRACES_WALKED;
        if (state == TRACEE_RUNNING)
            break;
        outcome = walk_blocked(all, thread, &glance);
    }
    if (outcome == WALKED)
        return BACKTRACES_WALKED;
    if (!may_stop && outcome != WANTS_STOP)
        return BACKTRACES_RUNNING;
    return walk_stopped(all, thread) ? BACKTRACES_WALKED : BACKTRACES_GONE;
}
