/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/remote/remote.h"

#include "service/machine/own/call_site.h"
#include "service/unwind/step/step.h"
#include "service/unwind/table/table_lookup.h"

#include <string.h>

#define NULL_PAGE   4096u
#define LARGEST_GAP (1ull << 32) /* between two frames */

/* A walk and the registers of its current frame. */
struct state {
    const struct unwind_remote *remote;
    struct unwind_remote_walk *walk;
    struct unwind_registers registers;
    uint64_t key; /* the pc to look up */
};

static bool end_with(struct state *state, enum unwind_remote_end why) {
    state->walk->end = why;
    return false;
}

static bool is_code(uint64_t pc) {
    return pc - NULL_PAGE < UNWIND_USER_END - NULL_PAGE;
}

static bool read_word(const struct state *state, uint64_t address, uint64_t *word) {
    return is_code(address) && state->remote->read(state->remote->context, address, word);
}

/* --- What the interpreter of rules (service/unwind/step) asks. --- */

static bool find_rule(void *walk, uint64_t pc, const struct unwind_rule **rule) {
    const struct state *state = walk;
    struct unwind_code code;
    if (!state->remote->find(state->remote->context, pc, &code))
        return false;
    *rule = code.image ? unwind_table_rule(code.image, pc - code.bias) : NULL;
    return true;
}

static bool is_in_code(void *walk, uint64_t pc) {
    const struct state *state = walk;
    struct unwind_code code;
    return state->remote->find(state->remote->context, pc, &code);
}

static bool load(void *walk, uint64_t address, uint64_t *word) {
    return read_word(walk, address, word);
}

/* The bounds of stacks are not known here. A frame pointer that cannot be read is not one. */
static bool may_follow(void *walk, uint64_t sp, uint64_t place, enum unwind_link link) {
    uint64_t word;
    if (link == UNWIND_BY_POINTER)
        return place >= sp && load(walk, place, &word) && load(walk, place + 8, &word);
    return link == UNWIND_BY_SIGNAL || (place >= sp && place + 8 - sp <= LARGEST_GAP);
}

static const struct unwind_access access_of_remote = {find_rule, is_in_code, load, may_follow,
                                                      unwind_is_owned};

static bool step(struct state *state) {
    static const enum unwind_remote_end ends[] = {
        [UNWIND_STEP_NEEDS] = UNWIND_REMOTE_REGISTER,
        [UNWIND_STEP_ROOT] = UNWIND_REMOTE_ROOT,
        [UNWIND_STEP_ENTRY] = UNWIND_REMOTE_ROOT,
        [UNWIND_STEP_NO_CODE] = UNWIND_REMOTE_NO_CODE,
        [UNWIND_STEP_NO_TABLE] = UNWIND_REMOTE_NO_TABLE,
        [UNWIND_STEP_RULE] = UNWIND_REMOTE_RULE,
        [UNWIND_STEP_BAD_STACK] = UNWIND_REMOTE_BAD_STACK,
    };
    uint32_t wanted;
    enum unwind_step step =
        unwind_step(&access_of_remote, state, &state->registers, state->key, &wanted);
    bool is_entry = step == UNWIND_STEP_EXACT || step == UNWIND_STEP_ENTRY;
    if (is_entry && state->walk->count > 1) /* nothing called this frame */
        state->walk->pcs[state->walk->count - 1] |= UNWIND_REMOTE_EXACT;
    if (step == UNWIND_STEP_NEEDS)
        state->walk->wanted = wanted;
    if (step == UNWIND_STEP_NEEDS || unwind_step_is_end(step))
        return end_with(state, ends[step]);
    state->key = state->registers.value[UNWIND_REG_PC] - (step != UNWIND_STEP_EXACT);
    return true;
}

/* Adds the current frame to pcs. */
static bool push(struct state *state, uint64_t mark) {
    struct unwind_remote_walk *walk = state->walk;
    uint64_t pc = state->registers.value[UNWIND_REG_PC];
    if (!is_code(pc))
        return end_with(state, pc == 0 ? UNWIND_REMOTE_ROOT : UNWIND_REMOTE_BAD_STACK);
    if (walk->count == walk->capacity || walk->count == UNWIND_REMOTE_FRAMES)
        return end_with(state, UNWIND_REMOTE_DEPTH);
    walk->pcs[walk->count++] = pc | mark;
    walk->at_end = state->registers;
    return true;
}

static void walk_on(struct state *state) {
    uint64_t mark;
    do {
        if (!step(state))
            return;
        mark = state->key == state->registers.value[UNWIND_REG_PC] ? UNWIND_REMOTE_EXACT : 0;
    } while (push(state, mark));
}

void unwind_remote_walk(const struct unwind_remote *remote,
                        const struct unwind_registers *registers, struct unwind_remote_walk *walk) {
    struct state state = {remote, walk, *registers, registers->value[UNWIND_REG_PC]};
    walk->count = walk->guessed = walk->wanted = walk->tries = 0;
    if (push(&state, 0))
        walk_on(&state);
}

/* --- The search -------------------------------------------------------------------------------*/

#define SEARCH_BYTES    65536u     /* how far above the stack pointer a frame is searched for */
#define SEARCH_TRIES    64u        /* candidates that one walk follows */
#define SEARCH_FRAMES   8u         /* frames found by search in one walk */
#define SEARCH_FUNCTION (1u << 20) /* largest function, in bytes */

/* Whether the code from `from` to `to` may be one function: an entry, and no gap up to `to`. */
static bool is_one_function(const struct state *state, uint64_t from, uint64_t to) {
    struct unwind_code code;
    if (to < from || to - from > SEARCH_FUNCTION ||
        !state->remote->find(state->remote->context, to, &code) || !code.image)
        return false;
    const struct unwind_rule *first = unwind_table_rule(code.image, from - code.bias);
    if (!unwind_is_entry(first))
        return false;
    uint32_t row = unwind_table_row(code.image, from - code.bias);
    uint32_t last = unwind_table_row(code.image, to - code.bias);
    while (row < last && unwind_table_rule_of(code.image, row)->cfa != UNWIND_CFA_NONE)
        row++;
    return row == last;
}

/* Whether a call of `callee` is one of the linkage table, which may reach any function. */
static bool is_plt_entry(const struct state *state, uint64_t callee) {
    struct unwind_code there;
    uint64_t code;
    if (!state->remote->find(state->remote->context, callee, &there) || !there.image)
        return false;
    const struct unwind_rule *rule = unwind_table_rule(there.image, callee - there.bias);
    return UNWIND_PLT_HAS_RULES
               ? unwind_is_plt_rule(rule)
               : unwind_is_entry(rule) && read_word(state, callee, &code) && unwind_is_stub(code);
}

/* Whether a return address follows a call. A direct call must call the function that holds pc. */
static bool follows_a_call(const struct state *state, uint64_t address, uint64_t pc, bool *direct) {
    struct unwind_code code;
    uint64_t before, callee;
    if (!is_code(address) || !state->remote->find(state->remote->context, address - 1, &code) ||
        !read_word(state, address - 8, &before))
        return false;
    *direct = false;
    if (unwind_is_direct_call(before, address, &callee)) {
        *direct = is_one_function(state, callee, pc);
        return *direct || is_plt_entry(state, callee);
    }
    return unwind_is_pointer_call(before);
}

/* Walks from a candidate for the frame pointer. If that does not reach the root, restores the
 * walk. */
static bool follow(struct state *state, uint64_t frame) {
    struct unwind_remote_walk *walk = state->walk, before = *walk;
    struct state attempt = *state;
    attempt.registers = walk->at_end;
    attempt.registers.value[UNWIND_REG_FP] = frame;
    attempt.registers.known |= 1ull << UNWIND_REG_FP;
    walk->guessed++;
    walk_on(&attempt);
    if (walk->count > before.count &&
        (walk->end == UNWIND_REMOTE_ROOT || unwind_remote_search(state->remote, walk)))
        return true;
    before.tries = walk->tries;
    *walk = before;
    return false;
}

static bool search(struct state *state, bool only_direct) {
    uint64_t sp = state->walk->at_end.value[UNWIND_REG_SP], caller_bp, address;
    for (uint64_t frame = sp; frame < sp + SEARCH_BYTES && state->walk->tries < SEARCH_TRIES;
         frame += 8) {
        bool direct;
        if (!read_word(state, frame, &caller_bp) || !read_word(state, frame + 8, &address))
            return false;
        address = unwind_strip(address);
        if (!follows_a_call(state, address, state->key, &direct) || direct != only_direct)
            continue;
        state->walk->tries++;
        if (follow(state, frame))
            return true;
    }
    return false;
}

bool unwind_remote_search(const struct unwind_remote *remote, struct unwind_remote_walk *walk) {
    uint64_t pc = walk->pcs[walk->count - 1];
    bool exact = walk->count == 1 || pc & UNWIND_REMOTE_EXACT;
    struct state state = {remote, walk, walk->at_end, (pc & ~UNWIND_REMOTE_EXACT) - !exact};
    if (walk->end != UNWIND_REMOTE_REGISTER || walk->wanted != UNWIND_REG_FP ||
        walk->guessed >= SEARCH_FRAMES)
        return false;
    return search(&state, true) || search(&state, false);
}
