/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of the interpreter of rules (service/unwind/step/step.h) that each machine has, and
 * Bazel chooses one as service/machine/own/step.h.
 *
 *     rule of the pc ──▶ CFA ──▶ caller's registers: saved at CFA + n, or unchanged, or lost
 *                         └────▶ caller's sp = CFA, caller's pc = its x30
 *
 * Until a function stores x30, the return address is in it. Only an interrupted frame's x30 is
 * known: a call has overwritten that of every other frame.
 *
 *     sp ──▶ | x29 of the caller | return address | x19 | ... | locals | CFA
 *            └─ a frame record, which x29 points at
 *
 * A frame record can be anywhere in its frame. So after a frame that was left by its record, sp is
 * not known. If the caller's rule has the place of a record, x29 points at that, and the CFA
 * follows.
 *
 * Signal-safe if the callbacks are. */
#ifndef SONDE_SERVICE_MACHINE_OWN_STEP_H
#define SONDE_SERVICE_MACHINE_OWN_STEP_H

#include "service/machine/aarch64/packed.h"
#include "service/unwind/step/access.h"

#define UNWIND_USER_END  (1ull << 48)
#define UNWIND_RED_ZONE  8u /* Go stores x29 just below sp */
#define UNWIND_SIGNATURE (0x7full << 48)

/* The address in a word of the stack that may be a signed return address. Addresses of programs are
 * assumed to have 48 bits. Where the kernel is built for fewer, signed addresses keep a part of
 * their signature. Larger ones exist only in a program that asks the kernel for them. */
UNWIND_INLINE uint64_t unwind_strip(uint64_t address) {
    return address & ~UNWIND_SIGNATURE;
}

/* Where a ucontext has a register: x0 to x30, sp and pc, behind the address of a fault. */
UNWIND_INLINE uint64_t unwind_context_offset(uint32_t number) {
    return UNWIND_CONTEXT_REGISTERS + 8ull * number;
}

/* Of a function's first instruction. */
UNWIND_INLINE bool unwind_is_entry(const struct unwind_rule *rule) {
    return rule->cfa == UNWIND_CFA_RSP && rule->cfa_offset == 0 && rule->arm64.link == UNWIND_SAME;
}

/* Code outside of all files at the same address of every process: none. */
UNWIND_INLINE bool unwind_is_fixed(uint64_t pc) {
    return false;
}

static const struct unwind_rule unwind_fixed_rule = {.cfa = UNWIND_CFA_NONE};

/* --- hot rules --- */

UNWIND_INLINE uint64_t unwind_hot(const struct unwind_rule *rule) {
    return aarch64_hot(rule);
}

/* Where a frame with a hot rule has what a walk needs: its frame record. */
struct unwind_places {
    uint64_t pc, fp;
    uint64_t is_saved; /* all bits */
};

UNWIND_INLINE struct unwind_places unwind_hot_places(uint64_t hot, uint64_t cfa) {
    uint64_t record = cfa + 8 * (uint64_t)(int64_t)(int16_t)(hot >> 16);
    return (struct unwind_places){record + 8, record, ~0ull};
}

/* Where the return address is, from the caller's stack pointer and the place of x29. */
UNWIND_INLINE uint64_t unwind_pc_place(uint64_t caller_sp, uint64_t fp_place) {
    return fp_place + 8;
}

/* From the CFA to the return address of a frame that has stored it, in bytes. rule: NULL = none. */
UNWIND_INLINE int64_t unwind_pc_offset(const struct unwind_rule *rule) {
    return rule && rule->arm64.link < UNWIND_LOST ? 8 * (int64_t)rule->arm64.link : -8;
}

/* Whether x29, if the return address is above sp, cannot be loaded. */
UNWIND_INLINE bool unwind_is_fp_outside(const struct unwind_places *at, uint64_t sp, uint64_t low) {
    return at->pc - low < 8;
}

/* --- whole rules --- */

UNWIND_INLINE bool unwind_is_owned(void *walk, uint64_t sp, uint64_t place) {
    return place >= sp - UNWIND_RED_ZONE;
}

UNWIND_INLINE bool unwind_has_place(int16_t saved) {
    return saved < UNWIND_LOST;
}

UNWIND_INLINE bool unwind_has_record(const struct unwind_rule *rule) {
    return unwind_has_place(rule->arm64.frame) && rule->arm64.link == rule->arm64.frame + 1;
}

UNWIND_INLINE uint64_t unwind_place(uint64_t from, int units) {
    return from + 8 * (uint64_t)(int64_t)units;
}

/* Returns UNWIND_STEP_CALLER if it finds the CFA. */
UNWIND_INLINE enum unwind_step unwind_find_cfa(const struct unwind_access *access, void *walk,
                                               const struct unwind_registers *registers,
                                               const struct unwind_rule *rule, uint64_t *cfa,
                                               uint32_t *wanted) {
    bool by_sp = rule->cfa == UNWIND_CFA_RSP || rule->cfa == UNWIND_CFA_RETURN;
    *wanted = by_sp                         ? UNWIND_REG_SP
              : rule->cfa == UNWIND_CFA_RBP ? UNWIND_REG_FP
                                            : rule->cfa_register;
    if (by_sp && !unwind_is_known(registers, UNWIND_REG_SP) &&
        unwind_is_known(registers, UNWIND_REG_FP) && unwind_has_record(rule)) {
        uint64_t fp = registers->value[UNWIND_REG_FP], next;
        if (access->load(walk, fp, &next) && next != 0 && next <= fp) /* not a frame record */
            return UNWIND_STEP_NEEDS;
        *cfa = unwind_place(fp, -rule->arm64.frame);
        return UNWIND_STEP_CALLER;
    }
    if (!unwind_is_known(registers, *wanted))
        return UNWIND_STEP_NEEDS;
    *cfa = registers->value[*wanted] + (uint64_t)(int64_t)rule->cfa_offset;
    if (rule->cfa == UNWIND_CFA_DEREF) {
        if (!access->load(walk, *cfa, cfa))
            return UNWIND_STEP_BAD_STACK;
        *cfa += (uint64_t)(int64_t)rule->cfa_add;
    }
    return UNWIND_STEP_CALLER;
}

/* Restores one register. A place that the function cannot own is that of a rule which an epilogue
 * has left behind: the register has its value already. */
UNWIND_INLINE bool unwind_restore_one(const struct unwind_access *access, void *walk,
                                      const struct unwind_registers *before, uint32_t number,
                                      uint64_t place, struct unwind_registers *registers) {
    bool is_saved = place && access->may_save(walk, before->value[UNWIND_REG_SP], place);
    if (is_saved && !access->load(walk, place, &registers->value[number]))
        return false;
    registers->known |= is_saved ? 1ull << number : before->known & 1ull << number;
    return true;
}

/* Restores the callee-saved registers; after that only they, sp and pc can be known. */
UNWIND_INLINE bool unwind_restore(const struct unwind_access *access, void *walk,
                                  struct unwind_registers *registers,
                                  const struct unwind_rule *rule, uint64_t cfa) {
    const struct unwind_registers before = *registers;
    int16_t frame = rule->arm64.frame, link = rule->arm64.link;
    uint64_t anchor = unwind_place(cfa, unwind_has_place(frame)  ? frame
                                        : unwind_has_place(link) ? link
                                                                 : 0);
    registers->known = 1ull << UNWIND_REG_SP | 1ull << UNWIND_REG_PC;
    if (frame != UNWIND_LOST &&
        !unwind_restore_one(access, walk, &before, UNWIND_REG_FP,
                            frame == UNWIND_SAME ? 0 : unwind_place(cfa, frame), registers))
        return false;
    for (uint32_t i = 0; i < UNWIND_NEAR_COUNT; i++) {
        int8_t near = rule->arm64.near[i];
        uint64_t place = near == UNWIND_NEAR_SAME ? 0 : unwind_place(anchor, near);
        if (near != UNWIND_NEAR_LOST &&
            !unwind_restore_one(access, walk, &before, UNWIND_REG_NEAR + i, place, registers))
            return false;
    }
    return true;
}

/* The return address of a frame that has not stored it: in x30, or where the rule says. */
UNWIND_INLINE enum unwind_step unwind_find_link(const struct unwind_access *access, void *walk,
                                                const struct unwind_registers *registers,
                                                const struct unwind_rule *rule, uint64_t cfa,
                                                uint64_t *address, uint32_t *wanted) {
    *wanted = rule->cfa == UNWIND_CFA_RETURN ? rule->cfa_register : UNWIND_REG_LINK;
    if (!unwind_is_known(registers, *wanted))
        return UNWIND_STEP_NEEDS;
    *address = registers->value[*wanted];
    return access->may_follow(walk, registers->value[UNWIND_REG_SP], cfa, UNWIND_BY_RULE)
               ? UNWIND_STEP_CALLER
               : UNWIND_STEP_BAD_STACK;
}

/* The same of one that has. */
UNWIND_INLINE enum unwind_step unwind_load_link(const struct unwind_access *access, void *walk,
                                                const struct unwind_registers *registers,
                                                const struct unwind_rule *rule, uint64_t cfa,
                                                uint64_t *address) {
    uint64_t place = unwind_place(cfa, rule->arm64.link);
    return access->may_follow(walk, registers->value[UNWIND_REG_SP], place, UNWIND_BY_RULE) &&
                   access->load(walk, place, address)
               ? UNWIND_STEP_CALLER
               : UNWIND_STEP_BAD_STACK;
}

/* By a rule of any other kind than NONE, END and SIGNAL. */
UNWIND_INLINE enum unwind_step unwind_step_rule(const struct unwind_access *access, void *walk,
                                                struct unwind_registers *registers,
                                                const struct unwind_rule *rule, uint32_t *wanted) {
    uint64_t cfa, address;
    bool is_stored = rule->cfa != UNWIND_CFA_RETURN && unwind_has_place(rule->arm64.link);
    if (rule->cfa != UNWIND_CFA_RETURN && rule->arm64.link == UNWIND_LOST)
        return UNWIND_STEP_RULE;
    enum unwind_step found = unwind_find_cfa(access, walk, registers, rule, &cfa, wanted);
    if (found == UNWIND_STEP_CALLER)
        found = is_stored ? unwind_load_link(access, walk, registers, rule, cfa, &address)
                          : unwind_find_link(access, walk, registers, rule, cfa, &address, wanted);
    if (found != UNWIND_STEP_CALLER)
        return found;
    if (!unwind_restore(access, walk, registers, rule, cfa))
        return UNWIND_STEP_BAD_STACK;
    registers->value[UNWIND_REG_PC] = unwind_strip(address);
    registers->value[UNWIND_REG_SP] = cfa;
    return UNWIND_STEP_CALLER;
}

/* --- code without a rule --- */

/* Sets what is known of a caller whose sp is not: it is at `low` or above. */
UNWIND_INLINE void unwind_go_to(struct unwind_registers *registers, uint64_t pc, uint64_t low) {
    registers->value[UNWIND_REG_PC] = pc;
    registers->value[UNWIND_REG_SP] = low;
    registers->known &= 1ull << UNWIND_REG_FP;
    registers->known |= 1ull << UNWIND_REG_PC;
}

/* x30 of an interrupted function is its return address until the function calls something; then it
 * points into the function itself. A function without a rule has x30 in a function with one only in
 * the first case, for example assembler code that C has called. So x30 is the return address. */
UNWIND_INLINE enum unwind_step unwind_step_link(const struct unwind_access *access, void *walk,
                                                struct unwind_registers *registers) {
    uint64_t address = unwind_strip(registers->value[UNWIND_REG_LINK]);
    const struct unwind_rule *rule = NULL;
    if (!unwind_is_known(registers, UNWIND_REG_LINK) || !access->is_code(walk, address - 1))
        return UNWIND_STEP_NO_TABLE;
    if (!access->find_rule(walk, address - 1, &rule)) /* its table is being loaded */
        return UNWIND_STEP_NO_CODE;
    if (!rule || rule->cfa == UNWIND_CFA_NONE)
        return UNWIND_STEP_NO_TABLE;
    unwind_go_to(registers, address, registers->value[UNWIND_REG_SP]);
    return UNWIND_STEP_POINTER;
}

/* Code without a rule may still have frame pointers. One is believed if it is aligned, points up
 * the stack and its return address is in code. */
UNWIND_INLINE enum unwind_step unwind_step_pointer(const struct unwind_access *access, void *walk,
                                                   struct unwind_registers *registers,
                                                   bool is_exact, uint32_t *wanted) {
    uint64_t sp = registers->value[UNWIND_REG_SP], fp = registers->value[UNWIND_REG_FP];
    uint64_t caller_fp = 0, pc = 0;
    *wanted = UNWIND_REG_FP;
    if (!unwind_is_known(registers, UNWIND_REG_FP))
        return UNWIND_STEP_NEEDS;
    bool is_plausible = (fp & 7) == 0 && access->may_follow(walk, sp, fp, UNWIND_BY_POINTER);
    bool is_loaded =
        is_plausible && access->load(walk, fp, &caller_fp) && access->load(walk, fp + 8, &pc);
    pc = unwind_strip(pc);
    if (is_exact && (!is_loaded || pc != unwind_strip(registers->value[UNWIND_REG_LINK]))) {
        enum unwind_step step = unwind_step_link(access, walk, registers);
        if (step != UNWIND_STEP_NO_TABLE)
            return step;
    }
    if (is_plausible && !is_loaded)
        return UNWIND_STEP_BAD_STACK;
    if (!is_plausible || !access->is_code(walk, pc - 1))
        return UNWIND_STEP_NO_TABLE;
    registers->value[UNWIND_REG_FP] = caller_fp;
    unwind_go_to(registers, pc, fp + 16);
    return UNWIND_STEP_POINTER;
}

#endif
