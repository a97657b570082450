/* SPDX-License-Identifier: Apache-2.0
 *
 * A state says how deep the stack is and where the caller's registers are saved. The code is read
 * from its first byte to its last. A jump hands the state to its target, and code behind a jump or
 * a return continues with the state that was handed to it, until no state changes any more. Two
 * different states for one instruction mean that something was misunderstood; except after a call,
 * which then is of a function that does not return. Cases of a switch are reached by a jump through
 * a table: they get the state of that jump, unless there are several such jumps with different
 * states.
 *
 * Once a function has a frame pointer, its CFA is at a fixed distance from rbp, and rows say so.
 * rsp may then move by a number that only the process knows: after alloca, or after calls of V8's
 * builtins, which remove their arguments. */
#include "service/unwind/code/analysis.h"

#include "service/unwind/code/instruction.h"

#include <stdlib.h>
#include <string.h>

#define MAX_STATES 1000u
#define MAX_PASSES 8u
#define NO_STATE   0u
#define IS_SAME    INT32_MAX
#define BY_RBP     INT64_MIN /* a depth that is not known, although the distance to rbp is */

struct state {
    int64_t depth;                     /* CFA - rsp, 8 to INT16_MAX; or BY_RBP */
    int64_t frame;                     /* CFA - rbp, or 0: rbp is not a frame pointer */
    int32_t saved[UNWIND_SAVED_COUNT]; /* CFA + this, or IS_SAME */
    int64_t is_root; /* rbp was cleared as at the root of a stack: there is no caller */
};

/* How an instruction goes on. */
enum flow { FLOW_ON = 0, FLOW_CALL, FLOW_JUMP, FLOW_BRANCH, FLOW_SWITCH, FLOW_END, FLOW_LOST };

struct analysis {
    const uint8_t *code;
    uint32_t size;
    uint16_t *at; /* of each byte: the number of the state before it, or NO_STATE */
    struct state *states;
    uint32_t count;
    uint16_t in_switch; /* the state of a jump through a table */
    bool uses_switch;   /* it is for code that nothing else reaches */
    bool switches_differ;
    bool has_changed, is_wrong;
};

/* The number of a state; NO_STATE if there are too many. */
static uint16_t number_of(struct analysis *analysis, const struct state *state) {
    for (uint32_t i = analysis->count; i-- > 1;)
        if (memcmp(&analysis->states[i], state, sizeof *state) == 0)
            return (uint16_t)i;
    if (analysis->count == MAX_STATES) {
        analysis->is_wrong = true;
        return NO_STATE;
    }
    analysis->states[analysis->count] = *state;
    return (uint16_t)analysis->count++;
}

static int32_t *saved_place(struct state *state, uint8_t number) {
    static const int8_t places[16] = {[INSTRUCTION_RBX] = UNWIND_RBX + 1,
                                      [INSTRUCTION_RBP] = UNWIND_RBP + 1,
                                      [12] = UNWIND_R12 + 1,
                                      [13] = UNWIND_R13 + 1,
                                      [14] = UNWIND_R14 + 1,
                                      [15] = UNWIND_R15 + 1};
    return places[number & 15] ? &state->saved[places[number & 15] - 1] : NULL;
}

/* rsp moves down by a number of bytes. */
static void move_down(struct state *state, int64_t bytes) {
    if (state->depth != BY_RBP)
        state->depth += bytes;
}

/* rsp changes by a number that is not known. */
static enum flow lose_depth(struct state *state) {
    state->depth = BY_RBP;
    return state->frame ? FLOW_ON : FLOW_LOST;
}

/* rbp becomes something else. */
static enum flow lose_frame(struct state *state) {
    state->frame = 0;
    return state->depth == BY_RBP ? FLOW_LOST : FLOW_ON;
}

/* rbp becomes rsp + n. The caller's rbp must be on the stack by then. */
static enum flow set_frame(struct state *state, int64_t n) {
    if (state->depth == BY_RBP || state->saved[UNWIND_RBP] == IS_SAME)
        return lose_frame(state);
    int64_t frame = state->depth - n;
    state->frame = frame >= 16 && frame <= INT16_MAX ? frame : 0;
    return FLOW_ON;
}

/* rsp becomes rbp + n. */
static enum flow set_depth(struct state *state, int64_t n) {
    state->depth = state->frame - n;
    return state->frame ? FLOW_ON : FLOW_LOST;
}

static void on_push(struct state *state, uint8_t number) {
    int32_t *saved = saved_place(state, number);
    move_down(state, 8);
    if (saved && *saved == IS_SAME && state->depth != BY_RBP)
        *saved = (int32_t)-state->depth;
}

static enum flow on_pop(struct state *state, uint8_t number) {
    int32_t *saved = saved_place(state, number);
    if (saved && state->depth != BY_RBP && *saved == -state->depth)
        *saved = IS_SAME;
    move_down(state, -8);
    if (number == INSTRUCTION_RBP)
        return lose_frame(state);
    return number == INSTRUCTION_RSP ? FLOW_LOST : FLOW_ON;
}

/* add, sub and the others with a number. */
static enum flow on_arithmetic(struct state *state, const struct instruction *instruction) {
    unsigned operation = instruction->reg & 7;
    if (instruction->mod != 3 || operation == 7)
        return FLOW_ON;
    if (instruction->rm == INSTRUCTION_RBP)
        return lose_frame(state);
    if (instruction->rm != INSTRUCTION_RSP)
        return FLOW_ON;
    if (!instruction->is_wide)
        return FLOW_LOST;
    if (operation == 0)
        move_down(state, -instruction->imm);
    else if (operation == 5)
        move_down(state, instruction->imm);
    else
        return lose_depth(state); /* and rsp, -32 */
    return FLOW_ON;
}

static enum flow on_lea(struct state *state, const struct instruction *instruction) {
    bool is_plain = instruction->index == INSTRUCTION_NONE && instruction->is_wide;
    bool from_rsp = is_plain && instruction->base == INSTRUCTION_RSP;
    if (instruction->reg == INSTRUCTION_RBP)
        return from_rsp ? set_frame(state, instruction->disp) : lose_frame(state);
    if (instruction->reg != INSTRUCTION_RSP)
        return FLOW_ON;
    if (is_plain && instruction->base == INSTRUCTION_RBP)
        return set_depth(state, instruction->disp);
    if (!from_rsp)
        return lose_depth(state);
    move_down(state, -instruction->disp);
    return FLOW_ON;
}

/* mov between rsp and rbp, in its two encodings. */
static bool is_move(const struct instruction *instruction, uint8_t from, uint8_t to) {
    if (instruction->mod != 3 || !instruction->is_wide)
        return false;
    return (instruction->opcode == 0x89 && instruction->reg == from && instruction->rm == to) ||
           (instruction->opcode == 0x8b && instruction->rm == from && instruction->reg == to);
}

static enum flow on_group_5(struct state *state, const struct instruction *instruction) {
    switch (instruction->reg & 7) {
    case 2:
    case 3:
        return FLOW_CALL;
    case 4:
    case 5:
        return FLOW_SWITCH;
    case 6:
        move_down(state, 8);
        return FLOW_ON;
    default:
        if (instruction->mod == 3 && instruction->rm == INSTRUCTION_RBP)
            return lose_frame(state);
        return instruction->mod == 3 && instruction->rm == INSTRUCTION_RSP ? FLOW_LOST : FLOW_ON;
    }
}

/* Whether a one-byte instruction with a modrm byte changes a register. */
static bool writes(const struct instruction *instruction, uint8_t number) {
    static const uint8_t to_rm[] = {0x01, 0x09, 0x11, 0x19, 0x21, 0x29, 0x31, 0x87,
                                    0x89, 0xc1, 0xc7, 0xd1, 0xd3, 0xf7, 0x8f};
    static const uint8_t to_reg[] = {0x03, 0x0b, 0x13, 0x1b, 0x23, 0x2b,
                                     0x33, 0x63, 0x69, 0x6b, 0x87, 0x8b};
    bool is_rm = instruction->mod == 3 && instruction->rm == number;
    bool is_reg = instruction->reg == number;
    return instruction->has_modrm &&
           ((is_rm && memchr(to_rm, instruction->opcode, sizeof to_rm)) ||
            (is_reg && memchr(to_reg, instruction->opcode, sizeof to_reg)));
}

/* The same for those of two bytes that write general registers: cmov, imul, bsf, movzx, movsx. */
static bool writes_wide(const struct instruction *instruction, uint8_t number) {
    static const uint8_t to_reg[] = {0xaf, 0xb6, 0xb7, 0xbc, 0xbd, 0xbe, 0xbf};
    return instruction->has_modrm && instruction->reg == number &&
           (instruction->opcode >> 4 == 4 || memchr(to_reg, instruction->opcode, sizeof to_reg));
}

/* Other instructions, which change rbp and rsp in ways that need not be understood: rbp becomes a
 * number, and rsp is set from memory, as when stacks are changed, or by a register. */
static enum flow apply_other(struct state *state, const struct instruction *instruction) {
    if (is_move(instruction, INSTRUCTION_RSP, INSTRUCTION_RBP))
        return set_frame(state, 0);
    if (is_move(instruction, INSTRUCTION_RBP, INSTRUCTION_RSP))
        return set_depth(state, 0);
    if (writes(instruction, INSTRUCTION_RSP))
        return lose_depth(state);
    bool is_number = instruction->opcode >> 3 == 0xb8 >> 3 && instruction->low == INSTRUCTION_RBP;
    return is_number || writes(instruction, INSTRUCTION_RBP) ? lose_frame(state) : FLOW_ON;
}

/* leave: mov rsp, rbp; pop rbp. */
static enum flow on_leave(struct state *state) {
    enum flow flow = set_depth(state, 0);
    return flow == FLOW_ON ? on_pop(state, INSTRUCTION_RBP) : flow;
}

/* "xor ebp, ebp" while rbp is the caller's: the ABI's mark of the outermost frame. */
static bool is_root_mark(const struct state *state, const struct instruction *instruction) {
    return (instruction->opcode == 0x31 || instruction->opcode == 0x33) && instruction->mod == 3 &&
           instruction->reg == INSTRUCTION_RBP && instruction->rm == INSTRUCTION_RBP &&
           state->saved[UNWIND_RBP] == IS_SAME;
}

static enum flow apply_one_byte(struct state *state, const struct instruction *instruction) {
    uint8_t opcode = instruction->opcode;
    switch (opcode) {
    case 0x68:
    case 0x6a:
    case 0x9c:
        move_down(state, 8);
        return FLOW_ON;
    case 0x9d:
        move_down(state, -8);
        return FLOW_ON;
    case 0x8f:
        move_down(state, -8);
        return apply_other(state, instruction);
    case 0x81:
    case 0x83:
        return on_arithmetic(state, instruction);
    case 0x8d:
        return on_lea(state, instruction);
    case 0xff:
        return on_group_5(state, instruction);
    case 0xe8:
        if (instruction->imm == 0) /* "call next; pop" */
            move_down(state, 8);
        return instruction->imm == 0 ? FLOW_ON : FLOW_CALL;
    case 0xe9:
    case 0xeb:
        return FLOW_JUMP;
    case 0xc2:
    case 0xc3:
    case 0xca:
    case 0xcb:
    case 0xcc:
    case 0xcf:
    case 0xf4:
        return FLOW_END;
    case 0xc9:
        return on_leave(state);
    case 0xc8: /* enter */
    case 0x94: /* xchg rax, rsp */
        return FLOW_LOST;
    default:
        state->is_root |= is_root_mark(state, instruction);
        return apply_other(state, instruction);
    }
}

static enum flow apply(struct state *state, const struct instruction *instruction) {
    uint8_t opcode = instruction->opcode;
    if (instruction->map == INSTRUCTION_VECTOR)
        return FLOW_ON;
    if (instruction->map == INSTRUCTION_TWO_BYTES && writes_wide(instruction, INSTRUCTION_RBP))
        return lose_frame(state);
    if (instruction->map == INSTRUCTION_TWO_BYTES)
        return opcode >> 4 == 8 ? FLOW_BRANCH : opcode == 0x0b ? FLOW_END : FLOW_ON;
    if (opcode >> 3 == 10)
        return on_push(state, instruction->low), FLOW_ON;
    if (opcode >> 3 == 11)
        return on_pop(state, instruction->low);
    if (opcode >> 4 == 7 || (opcode >= 0xe0 && opcode <= 0xe3))
        return FLOW_BRANCH;
    return apply_one_byte(state, instruction);
}

/* The state of an instruction that is reached with two states; NO_STATE if they contradict each
 * other. With the same frame pointer they may have different depths. */
static uint16_t join(struct analysis *analysis, uint16_t one, uint16_t other) {
    if (one == other)
        return one;
    struct state state = analysis->states[one], second = analysis->states[other];
    state.depth = second.depth = BY_RBP;
    bool may_differ = state.frame && memcmp(&state, &second, sizeof state) == 0;
    return may_differ ? number_of(analysis, &state) : NO_STATE;
}

/* Hands a state to the target of a jump. */
static void hand_to(struct analysis *analysis, uint32_t from, int64_t distance, uint16_t state) {
    int64_t target = (int64_t)from + distance;
    if (target < 0 || target >= analysis->size)
        return; /* another function: a tail call */
    uint16_t *known = &analysis->at[target];
    uint16_t joined = *known == NO_STATE ? state : join(analysis, *known, state);
    if (joined == NO_STATE) {
        analysis->is_wrong = true;
    } else if (joined != *known) {
        *known = joined;
        analysis->has_changed |= target < from;
    }
}

/* What fills the space before the target of a jump. */
static bool is_nop(const struct instruction *instruction) {
    return (instruction->map == INSTRUCTION_ONE_BYTE && instruction->opcode == 0x90) ||
           (instruction->map == INSTRUCTION_TWO_BYTES && instruction->opcode == 0x1f);
}

/* The state before the instruction at `at`. `now`: the state after the one before. */
static uint16_t meet(struct analysis *analysis, uint32_t at, const struct instruction *instruction,
                     uint16_t now, enum flow before) {
    uint16_t known = analysis->at[at];
    if (now == NO_STATE && known == NO_STATE && before >= FLOW_JUMP && analysis->uses_switch &&
        !is_nop(instruction))
        now = analysis->in_switch;
    if (known != NO_STATE && now != NO_STATE) {
        now = join(analysis, known, now);
        analysis->is_wrong |= now == NO_STATE && before != FLOW_CALL;
    }
    now = now == NO_STATE ? known : now;
    analysis->at[at] = now;
    return now;
}

/* The state after an instruction; NO_STATE if the next one is not reached from here. */
static uint16_t follow(struct analysis *analysis, const struct instruction *instruction,
                       uint32_t end, uint16_t before, enum flow *flow) {
    struct state state = analysis->states[before];
    *flow = before == NO_STATE ? FLOW_END : apply(&state, instruction);
    if (state.is_root) { /* nobody walks on from there */
        state.depth = 8;
        *flow = *flow == FLOW_LOST ? FLOW_ON : *flow;
    }
    if (before == NO_STATE || *flow == FLOW_END || *flow == FLOW_LOST)
        return NO_STATE;
    if (state.depth == 0 && instruction->opcode >> 3 == 11) { /* it pops its return address */
        *flow = FLOW_END;
        return NO_STATE;
    }
    if (state.depth != BY_RBP && (state.depth < 8 || state.depth > INT16_MAX)) {
        *flow = FLOW_LOST;
        return NO_STATE;
    }
    uint16_t after = number_of(analysis, &state);
    if (*flow == FLOW_JUMP || *flow == FLOW_BRANCH)
        hand_to(analysis, end, instruction->imm, after);
    if (*flow == FLOW_SWITCH) {
        analysis->switches_differ |= analysis->in_switch && analysis->in_switch != after;
        analysis->in_switch = after;
    }
    return *flow == FLOW_JUMP || *flow == FLOW_SWITCH ? NO_STATE : after;
}

/* Reads all code once. */
static void pass(struct analysis *analysis) {
    uint16_t now = analysis->at[0];
    enum flow flow = FLOW_ON;
    for (uint32_t at = 0; at < analysis->size && !analysis->is_wrong;) {
        struct instruction instruction;
        if (!instruction_decode(analysis->code + at, analysis->size - at, &instruction)) {
            analysis->is_wrong = now != NO_STATE || analysis->at[at] != NO_STATE;
            return; /* data after the code */
        }
        now = meet(analysis, at, &instruction, now, flow);
        at += instruction.length;
        now = follow(analysis, &instruction, at, now, &flow);
        analysis->is_wrong |= flow == FLOW_LOST;
    }
}

static void add_row(struct unwind_rows *rows, uint32_t pc, const struct state *state) {
    struct unwind_rule rule = {.cfa = UNWIND_CFA_RSP, .cfa_offset = (int32_t)state->depth};
    if (state->frame)
        rule = (struct unwind_rule){.cfa = UNWIND_CFA_RBP, .cfa_offset = (int32_t)state->frame};
    for (uint32_t i = 0; i < UNWIND_SAVED_COUNT; i++)
        rule.saved[i] = state->saved[i] == IS_SAME ? UNWIND_SAME : (int16_t)state->saved[i];
    if (state->is_root)
        rule = (struct unwind_rule){.cfa = UNWIND_CFA_END};
    unwind_rows_add(rows, pc, &rule);
}

static void emit(const struct analysis *analysis, uint32_t pc, struct unwind_rows *rows) {
    static const struct unwind_rule unreached = {.cfa = UNWIND_CFA_NONE,
                                                 .cfa_add = UNWIND_NONE_NO_POINTER};
    uint16_t last = NO_STATE;
    for (uint32_t at = 0; at < analysis->size;) {
        struct instruction instruction;
        if (!instruction_decode(analysis->code + at, analysis->size - at, &instruction))
            break;
        uint16_t now = analysis->at[at];
        if (now == NO_STATE && last != NO_STATE)
            unwind_rows_add(rows, pc + at, &unreached);
        else if (now != last)
            add_row(rows, pc + at, &analysis->states[now]);
        last = now;
        at += instruction.length;
    }
    unwind_rows_gap(rows, pc + analysis->size);
}

bool unwind_analysis_run(const uint8_t *code, uint32_t size, uint32_t pc,
                         struct unwind_rows *rows) {
    struct state entry = {.depth = 8};
    for (uint32_t i = 0; i < UNWIND_SAVED_COUNT; i++)
        entry.saved[i] = IS_SAME;
    if (size == 0 || size > ANALYSIS_MAX_BYTES)
        return false;
    struct analysis analysis = {.code = code, .size = size, .count = 1};
    analysis.at = calloc(size, sizeof *analysis.at);
    analysis.states = calloc(MAX_STATES, sizeof *analysis.states);
    analysis.is_wrong = !analysis.at || !analysis.states;
    if (!analysis.is_wrong)
        analysis.at[0] = number_of(&analysis, &entry);
    analysis.has_changed = true;
    for (uint32_t i = 0; i < MAX_PASSES && analysis.has_changed && !analysis.is_wrong; i++) {
        analysis.has_changed = false;
        pass(&analysis);
        if (!analysis.has_changed && !analysis.uses_switch && analysis.in_switch &&
            !analysis.switches_differ)
            analysis.uses_switch = analysis.has_changed = true;
    }
    bool is_certain = !analysis.is_wrong && !analysis.has_changed;
    if (is_certain)
        emit(&analysis, pc, rows);
    free(analysis.at);
    free(analysis.states);
    return is_certain;
}

static bool loads_rsp(const struct instruction *instruction) {
    if (instruction->map != INSTRUCTION_ONE_BYTE || !instruction->has_modrm)
        return false;
    if (instruction->opcode == 0x89)
        return instruction->mod == 3 && instruction->rm == INSTRUCTION_RSP &&
               instruction->reg != INSTRUCTION_RBP;
    return instruction->opcode == 0x8b && instruction->reg == INSTRUCTION_RSP &&
           (instruction->mod != 3 || instruction->rm != INSTRUCTION_RBP);
}

uint32_t unwind_analysis_find_switch(const uint8_t *code, uint32_t size) {
    struct instruction instruction;
    for (uint32_t at = 0; at < size; at += instruction.length) {
        if (!instruction_decode(code + at, size - at, &instruction))
            return size;
        if (loads_rsp(&instruction))
            return at + instruction.length;
    }
    return size;
}
