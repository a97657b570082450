/* SPDX-License-Identifier: Apache-2.0
 *
 * Like the guest's walker (service/guest/signal/walk.c) this one has a loop for the frames whose
 * CFA is the stack or frame pointer plus a number, which are nearly all, and takes one step of the
 * interpreter of rules for each of the others. After such a loop only these two and the pc are
 * known. If a later rule needs another register, the walk starts again, without the loop.
 *
 * A slot of the cache has the rule of one key (a pc, or a return address less 1) in one state of
 * one process. Rules point into tables, so a state's tables must stay mapped while it is walked. */
#include "service/unwind/copy/copy.h"

#include "service/unwind/step/step.h"
#include "service/unwind/table/table_lookup.h"

#include <stdlib.h>
#include <string.h>

#define NULL_PAGE    4096u
#define SLOTS        4096u
#define LARGEST_GAP  (1ull << 26) /* between two frames */
#define LARGEST_COPY (1ull << 16) /* a frame pointer beyond it is not believed */

/* Kinds of hot rules in addition to enum unwind_cfa: code without a table; not code. */
#define KIND_POINTER  0x40u
#define KIND_NOT_CODE 0x41u

struct slot {
    uint64_t key, serial, hot;
    const struct unwind_rule *rule; /* NULL for the two kinds above */
};

struct unwind_walker {
    struct slot slots[SLOTS];
};

struct state {
    struct unwind_walker *walker;
    const struct unwind_code_map *map;
    const struct unwind_copy *copy;
    struct unwind_copy_walk *walk;
    struct unwind_registers registers; /* of the current frame */
    uint64_t key;                      /* what to look up for its pc */
    uint64_t mix;                      /* spreads processes over the slots */
    uint64_t low, span;                /* loads stay in [low, low + span + 8) */
    bool has_run;                      /* the loop has moved, so registers were forgotten */
    bool is_elsewhere;                 /* this frame's stack is not the one that was copied */
    bool is_beyond;                    /* the last load that failed was above the end */
    bool waits;                        /* the last look-up found a table that is being loaded */
};

struct unwind_walker *unwind_walker_create(void) {
    return calloc(1, sizeof(struct unwind_walker));
}

void unwind_walker_destroy(struct unwind_walker *walker) {
    free(walker);
}

UNWIND_INLINE bool is_user(uint64_t pc) {
    return pc - NULL_PAGE < UNWIND_USER_END - NULL_PAGE;
}

/* --- The cache --------------------------------------------------------------------------------*/

/* False if the table is being loaded. */
static __attribute__((noinline)) bool fill(struct state *state, struct slot *slot, uint64_t key) {
    struct slot made = {key, state->map->serial, KIND_NOT_CODE, NULL};
    struct unwind_range range = {0};
    enum unwind_found found =
        unwind_is_fixed(key) ? UNWIND_NOT_CODE : state->map->find(state->map->context, key, &range);
    if (found == UNWIND_LATER) {
        state->walk->waits_for = key;
        return false;
    }
    if (unwind_is_fixed(key))
        made.rule = &unwind_fixed_rule;
    else if (found == UNWIND_FOUND && range.image)
        made.rule = unwind_table_rule(range.image, key - range.bias);
    else if (found == UNWIND_FOUND)
        made.hot = KIND_POINTER;
    if (made.rule)
        made.hot = unwind_hot(made.rule);
    *slot = made;
    return true;
}

/* NULL if the table is being loaded. */
UNWIND_INLINE const struct slot *look_up(struct state *state, uint64_t key) {
    struct slot *slot = &state->walker->slots[(key + state->mix) % SLOTS];
    if (slot->key == key && slot->serial == state->map->serial)
        return slot;
    return fill(state, slot, key) ? slot : NULL;
}

/* --- What the interpreter of rules (service/unwind/step) asks. --- */

static bool find_rule(void *walk, uint64_t pc, const struct unwind_rule **rule) {
    struct state *state = walk;
    const struct slot *slot = look_up(state, pc);
    state->waits = !slot;
    if (!slot || slot->hot == KIND_NOT_CODE)
        return false;
    *rule = slot->rule;
    return true;
}

static bool is_code(void *walk, uint64_t pc) {
    const struct slot *slot = look_up(walk, pc);
    return !slot || slot->hot != KIND_NOT_CODE;
}

static void use_up_to(struct state *state, uint64_t end) {
    uint64_t used = end - state->low;
    if (used > state->copy->stack_bytes)
        used = state->copy->stack_bytes;
    if (used > state->walk->used_bytes)
        state->walk->used_bytes = (uint32_t)used;
}

static bool load(void *walk, uint64_t address, uint64_t *word) {
    struct state *state = walk;
    uint64_t at = address - state->low;
    if (state->copy->stack_bytes < 8 || at > state->span) {
        state->is_beyond = state->is_elsewhere || at <= LARGEST_GAP;
        return false;
    }
    memcpy(word, state->copy->stack + at, 8);
    use_up_to(state, address + 8);
    return true;
}

/* A frame pointer that points just above the copy may be one. */
static bool may_follow(void *walk, uint64_t sp, uint64_t place, enum unwind_link link) {
    struct state *state = walk;
    uint64_t word;
    if (link == UNWIND_BY_SIGNAL)
        return true;
    if (link == UNWIND_BY_RULE || place < sp)
        return place >= sp && place - sp <= LARGEST_GAP;
    if (load(walk, place, &word) && load(walk, place + 8, &word))
        return true;
    state->is_beyond = state->is_elsewhere || place - state->low <= LARGEST_COPY;
    return false;
}

/* The copy begins at the stack pointer, so the red zone of the first frame is not in it. What is
 * found there in an epilogue is the value that the register has been restored to. */
static bool may_save(void *walk, uint64_t sp, uint64_t place) {
    const struct state *state = walk;
    return unwind_is_owned(walk, sp, place) && (place >= state->low || state->is_elsewhere);
}

static const struct unwind_access access_of_copy = {find_rule, is_code, load, may_follow, may_save};

/* --- The walk ---------------------------------------------------------------------------------*/

UNWIND_INLINE uint64_t word_at(const uint8_t *bytes) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    return word;
}

static void stop_at(struct state *state, uint64_t *out, uint64_t key, uint64_t sp, uint64_t bp) {
    state->walk->count = (uint32_t)(out - state->walk->pcs);
    state->has_run = true;
    state->key = key;
    state->registers.value[UNWIND_REG_SP] = sp;
    state->registers.value[UNWIND_REG_FP] = bp;
    state->registers.value[UNWIND_REG_PC] = key + 1;
    state->registers.known = 1ull << UNWIND_REG_SP | 1ull << UNWIND_REG_FP | 1ull << UNWIND_REG_PC;
    use_up_to(state, sp);
}

/* Walks frames of the simple kinds. Stops before any other frame, before one that is not wholly in
 * the copy, and when the pcs are full. What the loop needs is in registers, because its stores of
 * pcs could change any memory. */
static void run(struct state *state, uint32_t capacity) {
    struct unwind_copy_walk *walk = state->walk;
    const uint64_t low = state->low, span = state->span, serial = state->map->serial;
    const uint64_t mix = state->mix;
    const uint8_t *const bytes = state->copy->stack;
    struct slot *const slots = state->walker->slots;
    uint64_t *out = walk->pcs + walk->count, *const limit = walk->pcs + capacity, *const from = out;
    uint64_t sp = state->registers.value[UNWIND_REG_SP], bp = state->registers.value[UNWIND_REG_FP],
             key = state->key;
    while (out < limit) {
        struct slot *slot = &slots[(key + mix) % SLOTS];
        if (__builtin_expect(slot->key != key || slot->serial != serial, 0) &&
            !fill(state, slot, key))
            break;
        uint64_t rule = slot->hot, cfa = sp;
        uint8_t kind = (uint8_t)rule;
        if (__builtin_expect(kind != UNWIND_CFA_RSP && kind != UNWIND_CFA_RBP, 0))
            break;
        if (kind == UNWIND_CFA_RBP) {
            cfa = bp;
            __asm__("" : "+r"(cfa)); /* keep the branch: a conditional move would wait for both */
        }
        cfa += (uint64_t)((int64_t)rule >> 32);
        const struct unwind_places at = unwind_hot_places(rule, cfa);
        if (__builtin_expect(at.pc - sp > LARGEST_GAP || at.pc - low > span ||
                                 unwind_is_fp_outside(&at, sp, low),
                             0))
            break;
        uint64_t caller = unwind_strip(word_at(bytes + (at.pc - low)));
        uint64_t word = word_at(bytes + (at.fp - low));
        if (__builtin_expect(!is_user(caller), 0))
            break;
        *out++ = caller;
        bp ^= (bp ^ word) & at.is_saved;
        sp = cfa, key = caller - 1;
    }
    if (out > from)
        stop_at(state, out, key, sp, bp);
}

static bool end_with(struct state *state, enum unwind_copy_end why) {
    state->walk->end = why;
    return false;
}

/* Adds the current frame to pcs. */
static bool push(struct state *state, uint32_t capacity, uint64_t mark) {
    uint64_t pc = state->registers.value[UNWIND_REG_PC];
    if (!is_user(pc) && !unwind_is_fixed(pc))
        return end_with(state, pc == 0 ? UNWIND_COPY_ROOT : UNWIND_COPY_BAD_STACK);
    if (state->walk->count == capacity)
        return end_with(state, UNWIND_COPY_DEPTH);
    state->walk->pcs[state->walk->count++] = (pc & ~UNWIND_COPY_EXACT) | mark;
    return true;
}

/* bp: of the frame that the step could not leave. A chain of frame pointers ends with 0; in a frame
 * that none has led to, the register may be anything. */
static enum unwind_copy_end end_of(const struct state *state, enum unwind_step step, uint64_t bp) {
    static const enum unwind_copy_end ends[] = {
        [UNWIND_STEP_NEEDS] = UNWIND_COPY_RULE,
        [UNWIND_STEP_ROOT] = UNWIND_COPY_ROOT,
        [UNWIND_STEP_ENTRY] = UNWIND_COPY_ROOT,
        [UNWIND_STEP_NO_CODE] = UNWIND_COPY_NO_CODE,
        [UNWIND_STEP_NO_TABLE] = UNWIND_COPY_NO_TABLE,
        [UNWIND_STEP_RULE] = UNWIND_COPY_RULE,
        [UNWIND_STEP_BAD_STACK] = UNWIND_COPY_BAD_STACK,
    };
    if (step == UNWIND_STEP_NO_CODE && state->waits)
        return UNWIND_COPY_WAITS;
    if (step == UNWIND_STEP_NO_TABLE && bp == 0 && state->walk->pointer_frames > 0)
        return UNWIND_COPY_ROOT;
    bool by_stack = step == UNWIND_STEP_NO_TABLE || step == UNWIND_STEP_BAD_STACK;
    return by_stack && state->is_beyond ? UNWIND_COPY_SHORT : ends[step];
}

/* One frame by its whole rule. */
static enum unwind_step step_over(struct state *state) {
    uint32_t wanted;
    state->is_beyond = false;
    enum unwind_step step =
        unwind_step(&access_of_copy, state, &state->registers, state->key, &wanted);
    state->key = state->registers.value[UNWIND_REG_PC] - (step != UNWIND_STEP_EXACT);
    state->walk->pointer_frames += step == UNWIND_STEP_POINTER;
    bool is_entry = step == UNWIND_STEP_EXACT || step == UNWIND_STEP_ENTRY;
    if (is_entry && state->walk->count > 1) /* nothing called this frame */
        state->walk->pcs[state->walk->count - 1] |= UNWIND_COPY_EXACT;
    if (step == UNWIND_STEP_EXACT)
        state->is_elsewhere =
            state->registers.value[UNWIND_REG_SP] - state->low > state->copy->stack_bytes;
    return step;
}

static bool may_run(const struct state *state) {
    return unwind_is_known(&state->registers, UNWIND_REG_FP) &&
           unwind_is_known(&state->registers, UNWIND_REG_SP) && state->copy->stack_bytes >= 8 &&
           state->registers.value[UNWIND_REG_SP] - state->low <= state->span;
}

/* False if a rule needs a register that the loop forgot. */
static bool walk_from(struct state *state, bool fast) {
    struct unwind_copy_walk *walk = state->walk;
    uint32_t capacity = walk->capacity < UNWIND_COPY_FRAMES ? walk->capacity : UNWIND_COPY_FRAMES;
    uint64_t mark = 0;
    enum unwind_step step;
    while (push(state, capacity, mark)) {
        if (fast && may_run(state))
            run(state, capacity);
        uint64_t bp = state->registers.value[UNWIND_REG_FP];
        step = step_over(state);
        if (step == UNWIND_STEP_NEEDS && state->has_run)
            return false;
        if (step == UNWIND_STEP_NEEDS || unwind_step_is_end(step))
            return !end_with(state, end_of(state, step, bp));
        mark = step == UNWIND_STEP_EXACT ? UNWIND_COPY_EXACT : 0;
    }
    return true;
}

static bool walk_once(struct unwind_walker *walker, const struct unwind_code_map *map,
                      const struct unwind_copy *copy, struct unwind_copy_walk *walk, bool fast) {
    struct state state = {.walker = walker,
                          .map = map,
                          .copy = copy,
                          .walk = walk,
                          .registers = copy->registers,
                          .key = copy->registers.value[UNWIND_REG_PC],
                          .mix = map->serial * 0x9e3779b97f4a7c15ull >> 32,
                          .low = copy->registers.value[UNWIND_REG_SP],
                          .span = copy->stack_bytes - 8};
    walk->count = walk->pointer_frames = walk->used_bytes = 0;
    walk->waits_for = 0;
    return walk_from(&state, fast);
}

void unwind_copy_walk(struct unwind_walker *walker, const struct unwind_code_map *map,
                      const struct unwind_copy *copy, struct unwind_copy_walk *walk) {
    if (!walk_once(walker, map, copy, walk, true))
        walk_once(walker, map, copy, walk, false);
}
