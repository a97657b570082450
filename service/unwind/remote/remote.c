/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/remote/remote.h"

#include "service/unwind/remote/call_site.h"
#include "service/unwind/table/table_lookup.h"

#include <stddef.h>
#include <string.h>
#include <ucontext.h>

#define RED_ZONE    128u
#define NULL_PAGE   4096u
#define USER_END    (1ull << 47)
#define ALL_KNOWN   ((1u << UNWIND_REMOTE_REGISTERS) - 1)
#define PLACE_KNOWN (1u << UNWIND_REMOTE_RSP | 1u << UNWIND_REMOTE_RIP)

/* rax rdx rcx rbx rsi rdi rbp rsp r8 ... r15 rip */
static const uint8_t gregs[UNWIND_REMOTE_REGISTERS] = {
    REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
    REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};

/* DWARF numbers in the order of unwind_rule.saved. */
static const uint8_t saved_registers[UNWIND_SAVED_COUNT] = {UNWIND_REMOTE_RBP, 3, 12, 13, 14, 15};

void unwind_registers_take(struct unwind_registers *registers,
                           const struct user_regs_struct *from) {
    const uint64_t in_order[UNWIND_REMOTE_REGISTERS] = {
        from->rax, from->rdx, from->rcx, from->rbx, from->rsi, from->rdi,
        from->rbp, from->rsp, from->r8,  from->r9,  from->r10, from->r11,
        from->r12, from->r13, from->r14, from->r15, from->rip};
    memcpy(registers->value, in_order, sizeof in_order);
    registers->known = ALL_KNOWN;
}

/* A walk under way: the registers of the frame that is to be left. */
struct state {
    const struct unwind_remote *remote;
    struct unwind_remote_walk *walk;
    struct unwind_registers registers;
    uint64_t key; /* what to look up for it */
};

static bool end_with(struct state *state, enum unwind_remote_end why) {
    state->walk->end = why;
    return false;
}

static bool is_code(uint64_t pc) {
    return pc - NULL_PAGE < USER_END - NULL_PAGE;
}

static bool read_word(const struct state *state, uint64_t address, uint64_t *word) {
    return is_code(address) && state->remote->read(state->remote->context, address, word);
}

static bool is_known(const struct unwind_registers *registers, uint32_t number) {
    return registers->known >> number & 1;
}

static bool wants(struct state *state, uint32_t number) {
    state->walk->wanted = number;
    return end_with(state, UNWIND_REMOTE_REGISTER);
}

/* Believed when it rises and leads into code. */
static bool step_by_pointer(struct state *state) {
    struct unwind_registers *registers = &state->registers;
    uint64_t sp = registers->value[UNWIND_REMOTE_RSP], bp = registers->value[UNWIND_REMOTE_RBP];
    uint64_t caller_bp, pc;
    struct unwind_code code;
    if (!is_known(registers, UNWIND_REMOTE_RBP))
        return wants(state, UNWIND_REMOTE_RBP);
    if ((bp & 7) != 0 || bp < sp || !read_word(state, bp, &caller_bp) ||
        !read_word(state, bp + 8, &pc) ||
        !state->remote->find(state->remote->context, pc - 1, &code))
        return end_with(state, UNWIND_REMOTE_NO_TABLE);
    registers->value[UNWIND_REMOTE_RSP] = bp + 16;
    registers->value[UNWIND_REMOTE_RBP] = caller_bp;
    registers->value[UNWIND_REMOTE_RIP] = pc;
    registers->known = PLACE_KNOWN | 1u << UNWIND_REMOTE_RBP;
    state->key = pc - 1;
    return true;
}

/* All registers of the interrupted code stand in the ucontext. */
static bool step_signal(struct state *state, const struct unwind_rule *rule) {
    struct unwind_registers *registers = &state->registers;
    uint64_t from = registers->value[UNWIND_REMOTE_RSP] + (uint64_t)(int64_t)rule->cfa_offset +
                    offsetof(ucontext_t, uc_mcontext.gregs);
    for (uint32_t i = 0; i < UNWIND_REMOTE_REGISTERS; i++)
        if (!read_word(state, from + 8ull * gregs[i], &registers->value[i]))
            return end_with(state, UNWIND_REMOTE_BAD_STACK);
    registers->known = ALL_KNOWN;
    state->key = registers->value[UNWIND_REMOTE_RIP];
    return true;
}

static bool find_cfa(struct state *state, const struct unwind_rule *rule, uint64_t *cfa) {
    const struct unwind_registers *registers = &state->registers;
    uint8_t base = rule->cfa_register;
    if (rule->cfa == UNWIND_CFA_RSP || rule->cfa == UNWIND_CFA_PLT)
        base = UNWIND_REMOTE_RSP;
    else if (rule->cfa == UNWIND_CFA_RBP)
        base = UNWIND_REMOTE_RBP;
    if (!is_known(registers, base))
        return wants(state, base);
    *cfa = registers->value[base] + (uint64_t)(int64_t)rule->cfa_offset;
    if (rule->cfa == UNWIND_CFA_PLT)
        *cfa = registers->value[UNWIND_REMOTE_RSP] +
               ((int)(registers->value[UNWIND_REMOTE_RIP] & 15) >= rule->cfa_add ? 16 : 8);
    if (rule->cfa != UNWIND_CFA_DEREF)
        return true;
    if (!read_word(state, *cfa, cfa))
        return end_with(state, UNWIND_REMOTE_BAD_STACK);
    *cfa += (uint64_t)(int64_t)rule->cfa_add;
    return true;
}

/* Where a register is saved: 0 = it is unchanged. Rules left standing in epilogues are passed over,
 * as the guest's walker does (walk_slow.c, place_of). */
static uint64_t place_of(const struct unwind_registers *before, const struct unwind_rule *rule,
                         uint32_t which, uint64_t cfa) {
    uint64_t sp = before->value[UNWIND_REMOTE_RSP], bp = before->value[UNWIND_REMOTE_RBP], place;
    if (rule->saved[which] == UNWIND_SAME)
        return 0;
    bool from_rbp = rule->from_rbp >> which & 1;
    if (from_rbp && (!is_known(before, UNWIND_REMOTE_RBP) || bp < sp || bp >= cfa))
        return 0;
    place = (from_rbp ? bp : cfa) + (uint64_t)(int64_t)rule->saved[which];
    return place >= sp - RED_ZONE ? place : 0;
}

static bool restore(struct state *state, const struct unwind_rule *rule, uint64_t cfa) {
    struct unwind_registers *registers = &state->registers;
    const struct unwind_registers before = *registers;
    registers->known = PLACE_KNOWN;
    for (uint32_t i = 0; i < UNWIND_SAVED_COUNT; i++) {
        uint8_t number = saved_registers[i];
        if (rule->saved[i] == UNWIND_LOST)
            continue;
        uint64_t place = place_of(&before, rule, i, cfa);
        if (place && !read_word(state, place, &registers->value[number]))
            return false;
        registers->known |= place ? 1u << number : before.known & 1u << number;
    }
    return true;
}

static bool step_by_rule(struct state *state, const struct unwind_rule *rule) {
    struct unwind_registers *registers = &state->registers;
    uint64_t cfa;
    if (!find_cfa(state, rule, &cfa))
        return false;
    uint64_t sp = registers->value[UNWIND_REMOTE_RSP];
    if (cfa - 8 < sp || cfa - sp > 1ull << 32 || !restore(state, rule, cfa) ||
        !read_word(state, cfa - 8, &registers->value[UNWIND_REMOTE_RIP]))
        return end_with(state, UNWIND_REMOTE_BAD_STACK);
    registers->value[UNWIND_REMOTE_RSP] = cfa;
    state->key = registers->value[UNWIND_REMOTE_RIP] - 1;
    return true;
}

/* A root that is entered by a return and never by a call, as makecontext's: the byte before it is
 * nobody's. */
static bool is_root(const struct state *state, uint64_t pc) {
    struct unwind_code code;
    return state->remote->find(state->remote->context, pc, &code) && code.image &&
           unwind_table_rule(code.image, pc - code.bias)->cfa == UNWIND_CFA_END;
}

static bool step(struct state *state) {
    struct unwind_code code;
    if (!state->remote->find(state->remote->context, state->key, &code))
        return end_with(state, UNWIND_REMOTE_NO_CODE);
    if (!code.image)
        return step_by_pointer(state);
    const struct unwind_rule *rule = unwind_table_rule(code.image, state->key - code.bias);
    switch (rule->cfa) {
    case UNWIND_CFA_NONE:
        if (is_root(state, state->key + 1))
            return end_with(state, UNWIND_REMOTE_ROOT);
        return rule->cfa_add == UNWIND_NONE_GAP ? step_by_pointer(state)
                                                : end_with(state, UNWIND_REMOTE_RULE);
    case UNWIND_CFA_END:
        return end_with(state, UNWIND_REMOTE_ROOT);
    case UNWIND_CFA_SIGNAL:
        return step_signal(state, rule);
    default:
        return step_by_rule(state, rule);
    }
}

/* The frame whose registers are in the state goes into pcs. */
static bool push(struct state *state, uint64_t mark) {
    struct unwind_remote_walk *walk = state->walk;
    uint64_t pc = state->registers.value[UNWIND_REMOTE_RIP];
    if (!is_code(pc))
        return end_with(state, pc == 0 ? UNWIND_REMOTE_ROOT : UNWIND_REMOTE_BAD_STACK);
    if (walk->count == walk->capacity || walk->count == UNWIND_REMOTE_FRAMES)
        return end_with(state, UNWIND_REMOTE_DEPTH);
    walk->pcs[walk->count++] = pc | mark;
    walk->at_end = state->registers;
    return true;
}

static void go_on(struct state *state) {
    uint64_t mark;
    do {
        if (!step(state))
            return;
        mark = state->key == state->registers.value[UNWIND_REMOTE_RIP] ? UNWIND_REMOTE_EXACT : 0;
    } while (push(state, mark));
}

void unwind_remote_walk(const struct unwind_remote *remote,
                        const struct unwind_registers *registers, struct unwind_remote_walk *walk) {
    struct state state = {remote, walk, *registers, registers->value[UNWIND_REMOTE_RIP]};
    walk->count = walk->guessed = walk->wanted = walk->tries = 0;
    if (push(&state, 0))
        go_on(&state);
}

/* --- The search -------------------------------------------------------------------------------*/

#define SEARCH_BYTES    65536u     /* how far above rsp a frame is looked for */
#define SEARCH_TRIES    64u        /* candidates that are followed, of one walk */
#define SEARCH_FRAMES   8u         /* of one walk */
#define SEARCH_FUNCTION (1u << 20) /* bytes of a function at most */

/* Whether the code from `from` to `to` may be one function: no gap lies between. */
static bool is_one_function(const struct state *state, uint64_t from, uint64_t to) {
    struct unwind_code code;
    if (to < from || to - from > SEARCH_FUNCTION ||
        !state->remote->find(state->remote->context, to, &code) || !code.image)
        return false;
    const struct unwind_rule *first = unwind_table_rule(code.image, from - code.bias);
    if (first->cfa != UNWIND_CFA_RSP || first->cfa_offset != 8)
        return false;
    uint32_t row = unwind_table_row(code.image, from - code.bias);
    uint32_t last = unwind_table_row(code.image, to - code.bias);
    while (row < last && unwind_table_rule_of(code.image, row)->cfa != UNWIND_CFA_NONE)
        row++;
    return row == last;
}

/* Whether the code before a return address calls. Direct calls must go into the function of pc. */
static bool follows_a_call(const struct state *state, uint64_t address, uint64_t pc, bool *direct) {
    struct unwind_code code;
    uint64_t before, callee;
    if (!is_code(address) || !state->remote->find(state->remote->context, address - 1, &code) ||
        !read_word(state, address - 8, &before))
        return false;
    *direct = false;
    if (unwind_is_direct_call(before, address, &callee)) {
        struct unwind_code there;
        *direct = is_one_function(state, callee, pc);
        if (*direct)
            return true;
        /* By way of a PLT it may be anybody's. */
        return state->remote->find(state->remote->context, callee, &there) && there.image &&
               unwind_table_rule(there.image, callee - there.bias)->cfa == UNWIND_CFA_PLT;
    }
    return unwind_is_pointer_call(before);
}

/* Follows the frame at `frame` to the root, with the walk as it was when it does not lead there. */
static bool follow(struct state *state, uint64_t frame) {
    struct unwind_remote_walk *walk = state->walk, before = *walk;
    struct state way = *state;
    way.registers = walk->at_end;
    way.registers.value[UNWIND_REMOTE_RBP] = frame;
    way.registers.known |= 1u << UNWIND_REMOTE_RBP;
    walk->guessed++;
    go_on(&way);
    if (walk->count > before.count &&
        (walk->end == UNWIND_REMOTE_ROOT || unwind_remote_search(state->remote, walk)))
        return true;
    before.tries = walk->tries;
    *walk = before;
    return false;
}

static bool search(struct state *state, bool only_direct) {
    uint64_t sp = state->walk->at_end.value[UNWIND_REMOTE_RSP], caller_bp, address;
    for (uint64_t frame = sp; frame < sp + SEARCH_BYTES && state->walk->tries < SEARCH_TRIES;
         frame += 8) {
        bool direct;
        if (!read_word(state, frame, &caller_bp) || !read_word(state, frame + 8, &address))
            return false;
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
    if (walk->end != UNWIND_REMOTE_REGISTER || walk->wanted != UNWIND_REMOTE_RBP ||
        walk->guessed >= SEARCH_FRAMES)
        return false;
    return search(&state, true) || search(&state, false);
}
