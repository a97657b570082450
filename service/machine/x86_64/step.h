/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of the interpreter of rules (service/unwind/step/step.h) that each machine has, and
 * Bazel chooses one as service/machine/own/step.h.
 *
 *     rule of the pc ──▶ CFA ──▶ caller's registers: saved at CFA + n, or unchanged, or lost
 *                         └────▶ caller's rip at CFA - 8, caller's rsp = CFA
 *
 * Signal-safe if the callbacks are. */
#ifndef SONDE_SERVICE_MACHINE_OWN_STEP_H
#define SONDE_SERVICE_MACHINE_OWN_STEP_H

#include "service/unwind/step/access.h"

#define UNWIND_USER_END      (1ull << 47)
#define UNWIND_RED_ZONE      128u /* bytes below rsp that a leaf function may use */
#define UNWIND_VSYSCALL      0xffffffffff600000ull
#define UNWIND_VSYSCALL_SIZE 4096u

/* The address in a word of the stack that may be a signed return address. */
UNWIND_INLINE uint64_t unwind_strip(uint64_t address) {
    return address;
}

/* Where a ucontext has a register: rax rdx rcx rbx rsi rdi rbp rsp r8 ... r15 rip of its gregs,
 * which are r8 ... r15 rdi rsi rbp rbx rdx rax rcx rsp rip. */
UNWIND_INLINE uint64_t unwind_context_offset(uint32_t number) {
    static const uint8_t gregs[UNWIND_REGISTERS] = {13, 12, 14, 11, 9, 8, 10, 15, 0,
                                                    1,  2,  3,  4,  5, 6, 7,  16};
    return 40 + 8ull * gregs[number];
}

/* Of a function's first instruction. */
UNWIND_INLINE bool unwind_is_entry(const struct unwind_rule *rule) {
    return rule->cfa == UNWIND_CFA_RSP && rule->cfa_offset == 8;
}

/* The vsyscall page, which no file has. It has no unwind table; its functions are leaves. */
UNWIND_INLINE bool unwind_is_fixed(uint64_t pc) {
    return pc - UNWIND_VSYSCALL < UNWIND_VSYSCALL_SIZE;
}

static const struct unwind_rule unwind_fixed_rule = {
    .cfa = UNWIND_CFA_RSP,
    .cfa_offset = 8,
    .saved = {UNWIND_SAME, UNWIND_SAME, UNWIND_SAME, UNWIND_SAME, UNWIND_SAME, UNWIND_SAME}};

/* --- hot rules --- */

UNWIND_INLINE uint64_t unwind_hot(const struct unwind_rule *rule) {
    return unwind_rule_hot(rule);
}

/* Where a frame with a hot rule has what a walk needs. If rbp is not saved, the return address is
 * loaded twice instead of a branch. */
struct unwind_places {
    uint64_t pc, fp;
    uint64_t is_saved; /* all bits, or none: rbp is unchanged */
};

UNWIND_INLINE struct unwind_places unwind_hot_places(uint64_t hot, uint64_t cfa) {
    int64_t saved = (int16_t)(hot >> 16);
    uint64_t is_saved = saved < UNWIND_LOST ? ~0ull : 0, place = cfa - 8;
    return (struct unwind_places){place, place + ((uint64_t)(saved + 8) & is_saved), is_saved};
}

/* Where the return address is, from the caller's stack pointer and the place of rbp. */
UNWIND_INLINE uint64_t unwind_pc_place(uint64_t caller_sp, uint64_t fp_place) {
    return caller_sp - 8;
}

/* From the CFA to the return address, in bytes. rule: NULL = none. */
UNWIND_INLINE int64_t unwind_pc_offset(const struct unwind_rule *rule) {
    return -8;
}

/* Whether rbp, if the return address is above sp, cannot be loaded, or is out of the frame. */
UNWIND_INLINE bool unwind_is_fp_outside(const struct unwind_places *at, uint64_t sp, uint64_t low) {
    return at->fp - sp > at->pc - sp;
}

/* --- whole rules --- */

/* DWARF numbers in the order of unwind_rule.saved. */
static const uint8_t unwind_saved_registers[UNWIND_SAVED_COUNT] = {
    UNWIND_REG_FP, UNWIND_REG_RBX, UNWIND_REG_R12, 13, 14, 15};

UNWIND_INLINE bool unwind_is_owned(void *walk, uint64_t sp, uint64_t place) {
    return place >= sp - UNWIND_RED_ZONE;
}

/* Whether an interrupted function without a rule may have no frame yet, no frame any more, or none
 * at all: a return address is at the top of the stack, or just below the caller's rbp. Then rbp is
 * the caller's, and following it would leave the caller out. */
UNWIND_INLINE bool unwind_may_lack_frame(const struct unwind_access *access, void *walk,
                                         const struct unwind_registers *registers) {
    uint64_t sp = registers->value[UNWIND_REG_SP], word;
    if (!access->load(walk, sp, &word))
        return false;
    if (access->is_code(walk, word - 1))
        return true;
    return word == registers->value[UNWIND_REG_FP] && access->load(walk, sp + 8, &word) &&
           access->is_code(walk, word - 1);
}

/* By a return address in a register, where machines have that. */
UNWIND_INLINE enum unwind_step unwind_step_link(const struct unwind_access *access, void *walk,
                                                struct unwind_registers *registers) {
    return UNWIND_STEP_NO_TABLE;
}

/* Code without a rule may still have frame pointers. One is believed if it is aligned, points up
 * the stack and its return address is in code. */
UNWIND_INLINE enum unwind_step unwind_step_pointer(const struct unwind_access *access, void *walk,
                                                   struct unwind_registers *registers,
                                                   bool is_exact, uint32_t *wanted) {
    uint64_t sp = registers->value[UNWIND_REG_SP], bp = registers->value[UNWIND_REG_FP];
    uint64_t caller_bp, pc;
    *wanted = UNWIND_REG_FP;
    if (!unwind_is_known(registers, UNWIND_REG_FP))
        return UNWIND_STEP_NEEDS;
    if ((bp & 7) != 0 || !access->may_follow(walk, sp, bp, UNWIND_BY_POINTER))
        return UNWIND_STEP_NO_TABLE;
    if (!access->load(walk, bp, &caller_bp) || !access->load(walk, bp + 8, &pc))
        return UNWIND_STEP_BAD_STACK;
    if (!access->is_code(walk, pc - 1))
        return UNWIND_STEP_NO_TABLE;
    if (is_exact && unwind_may_lack_frame(access, walk, registers))
        return UNWIND_STEP_NO_TABLE;
    registers->value[UNWIND_REG_SP] = bp + 16;
    registers->value[UNWIND_REG_FP] = caller_bp;
    registers->value[UNWIND_REG_PC] = pc;
    registers->known = 1ull << UNWIND_REG_SP | 1ull << UNWIND_REG_FP | 1ull << UNWIND_REG_PC;
    return UNWIND_STEP_POINTER;
}

/* Returns UNWIND_STEP_CALLER if it finds the CFA. */
UNWIND_INLINE enum unwind_step unwind_find_cfa(const struct unwind_access *access, void *walk,
                                               const struct unwind_registers *registers,
                                               const struct unwind_rule *rule, uint64_t *cfa,
                                               uint32_t *wanted) {
    uint8_t base = rule->cfa_register;
    if (rule->cfa == UNWIND_CFA_RSP || rule->cfa == UNWIND_CFA_PLT)
        base = UNWIND_REG_SP;
    else if (rule->cfa == UNWIND_CFA_RBP)
        base = UNWIND_REG_FP;
    *wanted = base;
    if (!unwind_is_known(registers, base))
        return UNWIND_STEP_NEEDS;
    *cfa = registers->value[base] + (uint64_t)(int64_t)rule->cfa_offset;
    if (rule->cfa == UNWIND_CFA_PLT)
        *cfa = registers->value[UNWIND_REG_SP] +
               ((int)(registers->value[UNWIND_REG_PC] & 15) >= rule->cfa_add ? 16 : 8);
    if (rule->cfa == UNWIND_CFA_DEREF) {
        if (!access->load(walk, *cfa, cfa))
            return UNWIND_STEP_BAD_STACK;
        *cfa += (uint64_t)(int64_t)rule->cfa_add;
    }
    return UNWIND_STEP_CALLER;
}

/* Where a register is saved; 0 = it is unchanged. In epilogues compilers leave rules in place that
 * no longer apply: "saved at rbp + n" after rbp was popped and points out of this frame, or a place
 * below rsp, which the function no longer owns. The registers are restored by then. */
UNWIND_INLINE uint64_t unwind_place_of(const struct unwind_access *access, void *walk,
                                       const struct unwind_registers *before,
                                       const struct unwind_rule *rule, uint32_t which,
                                       uint64_t cfa) {
    uint64_t sp = before->value[UNWIND_REG_SP], bp = before->value[UNWIND_REG_FP], place;
    if (rule->saved[which] == UNWIND_SAME)
        return 0;
    bool from_rbp = rule->from_rbp >> which & 1;
    if (from_rbp && (!unwind_is_known(before, UNWIND_REG_FP) || bp < sp || bp >= cfa))
        return 0;
    place = (from_rbp ? bp : cfa) + (uint64_t)(int64_t)rule->saved[which];
    return access->may_save(walk, sp, place) ? place : 0;
}

/* Restores the callee-saved registers; after that only they, rsp and rip can be known. */
UNWIND_INLINE bool unwind_restore(const struct unwind_access *access, void *walk,
                                  struct unwind_registers *registers,
                                  const struct unwind_rule *rule, uint64_t cfa) {
    const struct unwind_registers before = *registers;
    registers->known = 1ull << UNWIND_REG_SP | 1ull << UNWIND_REG_PC;
    for (uint32_t i = 0; i < UNWIND_SAVED_COUNT; i++) {
        uint8_t number = unwind_saved_registers[i];
        if (rule->saved[i] == UNWIND_LOST)
            continue;
        uint64_t place = unwind_place_of(access, walk, &before, rule, i, cfa);
        if (place && !access->load(walk, place, &registers->value[number]))
            return false;
        registers->known |= place ? 1u << number : before.known & 1u << number;
    }
    return true;
}

/* The return address is in a register, which only an interrupted frame's are sure to be known. */
UNWIND_INLINE enum unwind_step unwind_step_return(const struct unwind_access *access, void *walk,
                                                  struct unwind_registers *registers,
                                                  const struct unwind_rule *rule,
                                                  uint32_t *wanted) {
    uint64_t sp = registers->value[UNWIND_REG_SP];
    uint64_t cfa = sp + (uint64_t)(int64_t)rule->cfa_offset;
    *wanted = rule->cfa_register;
    if (!unwind_is_known(registers, rule->cfa_register))
        return UNWIND_STEP_NEEDS;
    registers->value[UNWIND_REG_PC] = registers->value[rule->cfa_register];
    if (!access->may_follow(walk, sp, cfa, UNWIND_BY_RULE) ||
        !unwind_restore(access, walk, registers, rule, cfa))
        return UNWIND_STEP_BAD_STACK;
    registers->value[UNWIND_REG_SP] = cfa;
    return UNWIND_STEP_CALLER;
}

UNWIND_INLINE enum unwind_step unwind_step_ordinary(const struct unwind_access *access, void *walk,
                                                    struct unwind_registers *registers,
                                                    const struct unwind_rule *rule,
                                                    uint32_t *wanted) {
    uint64_t cfa;
    enum unwind_step found = unwind_find_cfa(access, walk, registers, rule, &cfa, wanted);
    if (found != UNWIND_STEP_CALLER)
        return found;
    if (!access->may_follow(walk, registers->value[UNWIND_REG_SP], cfa - 8, UNWIND_BY_RULE) ||
        !unwind_restore(access, walk, registers, rule, cfa) ||
        !access->load(walk, cfa - 8, &registers->value[UNWIND_REG_PC]))
        return UNWIND_STEP_BAD_STACK;
    registers->value[UNWIND_REG_SP] = cfa;
    return UNWIND_STEP_CALLER;
}

/* By a rule of any other kind than NONE, END and SIGNAL. */
UNWIND_INLINE enum unwind_step unwind_step_rule(const struct unwind_access *access, void *walk,
                                                struct unwind_registers *registers,
                                                const struct unwind_rule *rule, uint32_t *wanted) {
    return rule->cfa == UNWIND_CFA_RETURN
               ? unwind_step_return(access, walk, registers, rule, wanted)
               : unwind_step_ordinary(access, walk, registers, rule, wanted);
}

#endif
