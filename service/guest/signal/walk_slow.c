/* SPDX-License-Identifier: Apache-2.0
 *
 * The slow half of the walker: one frame by its whole rule with all registers, stack changes, and
 * the table of faults. A stack of ordinary frames comes here once, for its root. */
#include "service/guest/signal/walk_shared.h"

/* rax rdx rcx rbx rsi rdi rbp rsp r8 ... r15 rip */
const uint8_t walk_greg[WALK_REGISTERS] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                           REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                           REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};

/* DWARF numbers in the order of unwind_rule.saved. */
static const uint8_t saved_registers[UNWIND_SAVED_COUNT] = {WALK_RBP, 3, 12, 13, 14, 15};

static bool holds(const struct walk_stack *stack, uint64_t address) {
    return address >= stack->low && address < stack->high && stack->high - address >= 8;
}

static const struct walk_stack *stack_of(const struct walk *walk, uint64_t address) {
    const struct walk_bounds *bounds = walk->bounds;
    if (holds(&walk->alternate, address))
        return &walk->alternate;
    if (holds(&bounds->thread, address))
        return &bounds->thread;
    for (uint32_t i = 0; i < bounds->extra_count; i++)
        if (holds(&bounds->extra[i], address))
            return &bounds->extra[i];
    return NULL;
}

/* Below sp nothing but the red zone is the stack's. */
static void use_stack(struct walk *walk, const struct walk_stack *stack, uint64_t sp) {
    walk->low = sp - stack->low > WALK_RED_ZONE ? sp - WALK_RED_ZONE : stack->low;
    walk->span = stack->high - 8 - walk->low;
}

bool walk_enter_stack(struct walk *walk, uint64_t sp) {
    const struct walk_stack *stack = stack_of(walk, sp);
    if (stack) {
        use_stack(walk, stack, sp);
        return true;
    }
    if (!walk->bounds->faults_resume || sp < WALK_UNKNOWN_STACK || sp >= WALK_USER_END)
        return false;
    struct walk_stack unknown = {sp - WALK_RED_ZONE, sp + WALK_UNKNOWN_STACK};
    use_stack(walk, &unknown, sp);
    return true;
}

bool walk_change_stack(struct walk *walk, uint64_t address) {
    const struct walk_stack *stack = stack_of(walk, address);
    if (!stack || ++walk->switches > WALK_MAX_SWITCH)
        return false;
    if (address - walk->low <= walk->span || stack->high - 8 == walk->low + walk->span)
        return false; /* backwards in the same stack */
    use_stack(walk, stack, address);
    return true;
}

static enum walk_step end_with(struct walk *walk, uint8_t why) {
    walk->end = why;
    return WALK_STEP_END;
}

/* A frame pointer is believed when it rises, stays in the stack and leads into code. */
static enum walk_step step_by_pointer(struct walk *walk, struct walk_registers *registers) {
    uint64_t sp = registers->value[WALK_RSP], bp = registers->value[WALK_RBP];
    uint64_t caller_bp, pc;
    if (!(registers->known >> WALK_RBP & 1))
        return WALK_STEP_NEEDS;
    if ((bp & 7) != 0 || !walk_holds(walk, sp, bp) || !walk_holds(walk, sp, bp + 8))
        return end_with(walk, RING_END_NO_TABLE);
    if (!walk_load_stack(walk, bp, &caller_bp) || !walk_load_stack(walk, bp + 8, &pc))
        return end_with(walk, RING_END_BAD_STACK);
    if (!walk_map_find(walk->map, pc - 1))
        return end_with(walk, RING_END_NO_TABLE);
    registers->value[WALK_RSP] = bp + 16;
    registers->value[WALK_RBP] = caller_bp;
    registers->value[WALK_RIP] = pc;
    registers->known = WALK_ALWAYS_KNOWN;
    walk->fp_frames += walk->fp_frames < 255;
    return WALK_STEP_CALLER;
}

/* The interrupted registers stand in the ucontext the kernel pushed. If they are on another stack,
 * that one is next. */
static enum walk_step step_signal(struct walk *walk, struct walk_registers *registers,
                                  const struct unwind_rule *rule) {
    uint64_t sp = registers->value[WALK_RSP];
    uint64_t gregs =
        sp + (uint64_t)(int64_t)rule->cfa_offset + offsetof(ucontext_t, uc_mcontext.gregs);
    for (uint32_t i = 0; i < WALK_REGISTERS; i++)
        if (!walk_load_bounded(walk, gregs + 8ull * walk_greg[i], &registers->value[i]))
            return end_with(walk, RING_END_BAD_STACK);
    registers->known = (1u << WALK_REGISTERS) - 1;
    uint64_t interrupted = registers->value[WALK_RSP];
    if (!walk_holds(walk, sp, interrupted) && !walk_change_stack(walk, interrupted))
        return end_with(walk, RING_END_BAD_STACK);
    return WALK_STEP_EXACT;
}

static enum walk_step find_cfa(struct walk *walk, const struct walk_registers *registers,
                               const struct unwind_rule *rule, uint64_t *cfa) {
    uint8_t base = rule->cfa_register;
    if (rule->cfa == UNWIND_CFA_RSP || rule->cfa == UNWIND_CFA_PLT)
        base = WALK_RSP;
    else if (rule->cfa == UNWIND_CFA_RBP)
        base = WALK_RBP;
    if (!(registers->known >> base & 1))
        return WALK_STEP_NEEDS;
    *cfa = registers->value[base] + (uint64_t)(int64_t)rule->cfa_offset;
    if (rule->cfa == UNWIND_CFA_PLT)
        *cfa = registers->value[WALK_RSP] +
               ((int)(registers->value[WALK_RIP] & 15) >= rule->cfa_add ? 16 : 8);
    if (rule->cfa == UNWIND_CFA_DEREF) {
        if (!walk_load_bounded(walk, *cfa, cfa))
            return end_with(walk, RING_END_BAD_STACK);
        *cfa += (uint64_t)(int64_t)rule->cfa_add;
    }
    return WALK_STEP_CALLER;
}

/* Where a register is saved; 0 = it is unchanged. Compilers leave rules standing in epilogues:
 * "saved at rbp + n" when rbp has been popped and is not in this frame any more, or a place below
 * rsp that is the function's no longer. The registers are back by then. */
static uint64_t place_of(const struct walk_registers *before, const struct unwind_rule *rule,
                         uint32_t which, uint64_t cfa) {
    uint64_t sp = before->value[WALK_RSP], bp = before->value[WALK_RBP], place;
    if (rule->saved[which] == UNWIND_SAME)
        return 0;
    bool from_rbp = rule->from_rbp >> which & 1;
    if (from_rbp && (bp < sp || bp >= cfa))
        return 0;
    place = (from_rbp ? bp : cfa) + (uint64_t)(int64_t)rule->saved[which];
    return place >= sp - WALK_RED_ZONE ? place : 0;
}

static bool restore(struct walk *walk, struct walk_registers *registers,
                    const struct unwind_rule *rule, uint64_t cfa) {
    const struct walk_registers before = *registers;
    registers->known = 1u << WALK_RSP | 1u << WALK_RIP;
    for (uint32_t i = 0; i < UNWIND_SAVED_COUNT; i++) {
        uint8_t number = saved_registers[i];
        if (rule->saved[i] == UNWIND_LOST)
            continue;
        uint64_t place = place_of(&before, rule, i, cfa);
        if (place && !walk_load_bounded(walk, place, &registers->value[number]))
            return false;
        registers->known |= place ? 1u << number : before.known & 1u << number;
    }
    if (rule->saved[UNWIND_RBP] == UNWIND_LOST) {
        registers->value[WALK_RBP] = WALK_LOST;
        registers->known |= 1u << WALK_RBP;
    }
    return true;
}

static enum walk_step step_by_rule(struct walk *walk, struct walk_registers *registers,
                                   const struct unwind_rule *rule) {
    uint64_t cfa;
    enum walk_step found = find_cfa(walk, registers, rule, &cfa);
    if (found != WALK_STEP_CALLER)
        return found;
    if (!walk_holds(walk, registers->value[WALK_RSP], cfa - 8) && !walk_change_stack(walk, cfa - 8))
        return end_with(walk, RING_END_BAD_STACK);
    if (!restore(walk, registers, rule, cfa) ||
        !walk_load_stack(walk, cfa - 8, &registers->value[WALK_RIP]))
        return end_with(walk, RING_END_BAD_STACK);
    registers->value[WALK_RSP] = cfa;
    return WALK_STEP_CALLER;
}

/* A root that is entered by a return and never by a call, as makecontext's: the byte before it is
 * nobody's. */
static bool is_root(const struct walk *walk, uint64_t pc) {
    struct walk_position position = walk_look_up(walk->map, pc);
    return position.rule && position.rule->cfa == UNWIND_CFA_END;
}

enum walk_step walk_step(struct walk *walk, struct walk_registers *registers, uint64_t key) {
    struct walk_position position = walk_look_up(walk->map, key);
    if (!position.rule)
        return step_by_pointer(walk, registers);
    switch (position.rule->cfa) {
    case UNWIND_CFA_NONE:
        if (is_root(walk, key + 1))
            return end_with(walk, RING_END_ROOT);
        /* Code that came without unwind information in a file that has some, as V8's builtins in
         * node: by convention it has frame pointers. */
        return position.rule->cfa_add == UNWIND_NONE_GAP ? step_by_pointer(walk, registers)
                                                         : end_with(walk, RING_END_RULE);
    case UNWIND_CFA_END:
        return end_with(walk, RING_END_ROOT);
    case UNWIND_CFA_SIGNAL:
        return step_signal(walk, registers, position.rule);
    default:
        return step_by_rule(walk, registers, position.rule);
    }
}

void walk_slowly(struct walk *walk, const struct walk_registers *first) {
    struct walk_registers registers = *first;
    uint64_t key = registers.value[WALK_RIP], mark;
    do {
        enum walk_step step = walk_step(walk, &registers, key);
        if (step == WALK_STEP_NEEDS)
            walk->end = RING_END_RULE;
        if (step == WALK_STEP_NEEDS || step == WALK_STEP_END)
            return;
        mark = step == WALK_STEP_EXACT ? RING_PC_EXACT : 0;
        key = registers.value[WALK_RIP] - (mark ? 0 : 1);
    } while (walk_has_room(walk) && walk_push(walk, registers.value[WALK_RIP], mark));
}

/* Made by walk_load; the linker gives the bounds of a section with a C name. */
struct walk_fault {
    int32_t load;   /* offset from this field to the instruction */
    int32_t resume; /* offset from this field to where it goes on */
};
extern WALK_HIDDEN const struct walk_fault __start_walk_faults[], __stop_walk_faults[];

uint64_t walk_fault_resume(uint64_t rip) {
    for (const struct walk_fault *fault = __start_walk_faults; fault < __stop_walk_faults; fault++)
        if ((uint64_t)&fault->load + (uint64_t)(int64_t)fault->load == rip)
            return (uint64_t)&fault->resume + (uint64_t)(int64_t)fault->resume;
    return 0;
}
