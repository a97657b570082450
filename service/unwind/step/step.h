/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter of unwind rules: from the registers of a frame to those of its caller. There is
 * one, so that the signal handler (service/guest/signal/walk_slow.c) and the walk of another
 * process (service/unwind/remote/remote.c) see the same stacks. They differ only in how they read
 * memory and find rules, which each of them passes in as a constant struct unwind_access.
 * Everything is inlined into the caller, so the handler makes no indirect call.
 *
 *     rule of the pc ──▶ CFA ──▶ caller's registers: saved at CFA + n, or unchanged, or lost
 *                         └────▶ caller's rip at CFA - 8, caller's rsp = CFA
 *
 * A register that a rule needs may be unknown: a thread that was not stopped shows only rip and
 * rsp, and a rule may lose a register. Then the step fails and says which register it needs.
 *
 * Signal-safe if the callbacks are. Rules are trusted (unwind_table_check); registers and stack
 * contents are not. */
#ifndef SONDE_SERVICE_UNWIND_STEP_STEP_H
#define SONDE_SERVICE_UNWIND_STEP_STEP_H

#include "service/unwind/step/registers.h"
#include "service/unwind/table/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

#define UNWIND_INLINE   static inline __attribute__((always_inline))
#define UNWIND_RED_ZONE 128u /* bytes below rsp that a leaf function may use */

/* How a caller's frame was found. */
enum unwind_link { UNWIND_BY_RULE, UNWIND_BY_POINTER, UNWIND_BY_SIGNAL };

struct unwind_access {
    /* The rule for a pc, NULL if its code has no table. False: the pc is not in code; end here. */
    bool (*find_rule)(void *walk, uint64_t pc, const struct unwind_rule **rule);
    /* Whether a pc is in code; decides whether a frame pointer is plausible. */
    bool (*is_code)(void *walk, uint64_t pc);
    /* Reads the 8 bytes at an address of the stack. */
    bool (*load)(void *walk, uint64_t address, uint64_t *word);
    /* Whether a caller's frame may be at `place` if the callee's rsp is sp. `place` is the address
     * of the return address (rule), the address of the saved rbp and return address (pointer), or
     * the rsp of the interrupted code (signal). */
    bool (*may_follow)(void *walk, uint64_t sp, uint64_t place, enum unwind_link link);
    /* Whether a function whose rsp is sp may have saved a register at `place`. */
    bool (*may_save)(void *walk, uint64_t sp, uint64_t place);
};

enum unwind_step {
    UNWIND_STEP_CALLER,  /* the registers are the caller's, rip its return address */
    UNWIND_STEP_POINTER, /* the same, found by the frame pointer */
    UNWIND_STEP_EXACT,   /* the registers are those of interrupted code */
    UNWIND_STEP_NEEDS,   /* the rule needs a register that is not known */
    /* The walk ends. */
    UNWIND_STEP_ROOT,
    UNWIND_STEP_ENTRY, /* the root was entered by a return: its pc is exact */
    UNWIND_STEP_NO_CODE,
    UNWIND_STEP_NO_TABLE, /* no rule, and no plausible frame pointer */
    UNWIND_STEP_RULE,     /* a rule that no row can hold */
    UNWIND_STEP_BAD_STACK /* an address that cannot be read, or that no stack has there */
};

/* Index in gregs of each DWARF register: rax rdx rcx rbx rsi rdi rbp rsp r8 ... r15 rip. */
static const uint8_t unwind_gregs[UNWIND_REGISTERS] = {
    REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
    REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};

/* DWARF numbers in the order of unwind_rule.saved. */
static const uint8_t unwind_saved_registers[UNWIND_SAVED_COUNT] = {
    UNWIND_REG_RBP, UNWIND_REG_RBX, UNWIND_REG_R12, 13, 14, 15};

UNWIND_INLINE bool unwind_step_is_end(enum unwind_step step) {
    return step >= UNWIND_STEP_ROOT;
}

UNWIND_INLINE bool unwind_is_owned(void *walk, uint64_t sp, uint64_t place) {
    return place >= sp - UNWIND_RED_ZONE;
}

UNWIND_INLINE bool unwind_is_known(const struct unwind_registers *registers, uint32_t number) {
    return registers->known >> number & 1;
}

/* Whether an interrupted function without a rule may have no frame yet, no frame any more, or none
 * at all: a return address is at the top of the stack, or just below the caller's rbp. Then rbp is
 * the caller's, and following it would leave the caller out. */
UNWIND_INLINE bool unwind_may_lack_frame(const struct unwind_access *access, void *walk,
                                         const struct unwind_registers *registers) {
    uint64_t sp = registers->value[UNWIND_REG_RSP], word;
    if (!access->load(walk, sp, &word))
        return false;
    if (access->is_code(walk, word - 1))
        return true;
    return word == registers->value[UNWIND_REG_RBP] && access->load(walk, sp + 8, &word) &&
           access->is_code(walk, word - 1);
}

/* Code without a rule may still have frame pointers. One is believed if it is aligned, points up
 * the stack and its return address is in code. */
UNWIND_INLINE enum unwind_step unwind_step_pointer(const struct unwind_access *access, void *walk,
                                                   struct unwind_registers *registers,
                                                   bool is_exact, uint32_t *wanted) {
    uint64_t sp = registers->value[UNWIND_REG_RSP], bp = registers->value[UNWIND_REG_RBP];
    uint64_t caller_bp, pc;
    *wanted = UNWIND_REG_RBP;
    if (!unwind_is_known(registers, UNWIND_REG_RBP))
        return UNWIND_STEP_NEEDS;
    if ((bp & 7) != 0 || !access->may_follow(walk, sp, bp, UNWIND_BY_POINTER))
        return UNWIND_STEP_NO_TABLE;
    if (!access->load(walk, bp, &caller_bp) || !access->load(walk, bp + 8, &pc))
        return UNWIND_STEP_BAD_STACK;
    if (!access->is_code(walk, pc - 1))
        return UNWIND_STEP_NO_TABLE;
    if (is_exact && unwind_may_lack_frame(access, walk, registers))
        return UNWIND_STEP_NO_TABLE;
    registers->value[UNWIND_REG_RSP] = bp + 16;
    registers->value[UNWIND_REG_RBP] = caller_bp;
    registers->value[UNWIND_REG_RIP] = pc;
    registers->known = 1u << UNWIND_REG_RSP | 1u << UNWIND_REG_RBP | 1u << UNWIND_REG_RIP;
    return UNWIND_STEP_POINTER;
}

/* A signal frame: all registers of the interrupted code are in the ucontext that the kernel pushed.
 * That code may have run on another stack. */
UNWIND_INLINE enum unwind_step unwind_step_signal(const struct unwind_access *access, void *walk,
                                                  struct unwind_registers *registers,
                                                  const struct unwind_rule *rule) {
    uint64_t sp = registers->value[UNWIND_REG_RSP];
    uint64_t gregs =
        sp + (uint64_t)(int64_t)rule->cfa_offset + offsetof(ucontext_t, uc_mcontext.gregs);
    for (uint32_t i = 0; i < UNWIND_REGISTERS; i++)
        if (!access->load(walk, gregs + 8ull * unwind_gregs[i], &registers->value[i]))
            return UNWIND_STEP_BAD_STACK;
    registers->known = UNWIND_ALL_KNOWN;
    if (!access->may_follow(walk, sp, registers->value[UNWIND_REG_RSP], UNWIND_BY_SIGNAL))
        return UNWIND_STEP_BAD_STACK;
    return UNWIND_STEP_EXACT;
}

/* Returns UNWIND_STEP_CALLER if it finds the CFA. */
UNWIND_INLINE enum unwind_step unwind_find_cfa(const struct unwind_access *access, void *walk,
                                               const struct unwind_registers *registers,
                                               const struct unwind_rule *rule, uint64_t *cfa,
                                               uint32_t *wanted) {
    uint8_t base = rule->cfa_register;
    if (rule->cfa == UNWIND_CFA_RSP || rule->cfa == UNWIND_CFA_PLT)
        base = UNWIND_REG_RSP;
    else if (rule->cfa == UNWIND_CFA_RBP)
        base = UNWIND_REG_RBP;
    *wanted = base;
    if (!unwind_is_known(registers, base))
        return UNWIND_STEP_NEEDS;
    *cfa = registers->value[base] + (uint64_t)(int64_t)rule->cfa_offset;
    if (rule->cfa == UNWIND_CFA_PLT)
        *cfa = registers->value[UNWIND_REG_RSP] +
               ((int)(registers->value[UNWIND_REG_RIP] & 15) >= rule->cfa_add ? 16 : 8);
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
    uint64_t sp = before->value[UNWIND_REG_RSP], bp = before->value[UNWIND_REG_RBP], place;
    if (rule->saved[which] == UNWIND_SAME)
        return 0;
    bool from_rbp = rule->from_rbp >> which & 1;
    if (from_rbp && (!unwind_is_known(before, UNWIND_REG_RBP) || bp < sp || bp >= cfa))
        return 0;
    place = (from_rbp ? bp : cfa) + (uint64_t)(int64_t)rule->saved[which];
    return access->may_save(walk, sp, place) ? place : 0;
}

/* Restores the callee-saved registers; after that only they, rsp and rip can be known. */
UNWIND_INLINE bool unwind_restore(const struct unwind_access *access, void *walk,
                                  struct unwind_registers *registers,
                                  const struct unwind_rule *rule, uint64_t cfa) {
    const struct unwind_registers before = *registers;
    registers->known = 1u << UNWIND_REG_RSP | 1u << UNWIND_REG_RIP;
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
    uint64_t sp = registers->value[UNWIND_REG_RSP];
    uint64_t cfa = sp + (uint64_t)(int64_t)rule->cfa_offset;
    *wanted = rule->cfa_register;
    if (!unwind_is_known(registers, rule->cfa_register))
        return UNWIND_STEP_NEEDS;
    registers->value[UNWIND_REG_RIP] = registers->value[rule->cfa_register];
    if (!access->may_follow(walk, sp, cfa, UNWIND_BY_RULE) ||
        !unwind_restore(access, walk, registers, rule, cfa))
        return UNWIND_STEP_BAD_STACK;
    registers->value[UNWIND_REG_RSP] = cfa;
    return UNWIND_STEP_CALLER;
}

UNWIND_INLINE enum unwind_step unwind_step_rule(const struct unwind_access *access, void *walk,
                                                struct unwind_registers *registers,
                                                const struct unwind_rule *rule, uint32_t *wanted) {
    uint64_t cfa;
    enum unwind_step found = unwind_find_cfa(access, walk, registers, rule, &cfa, wanted);
    if (found != UNWIND_STEP_CALLER)
        return found;
    if (!access->may_follow(walk, registers->value[UNWIND_REG_RSP], cfa - 8, UNWIND_BY_RULE) ||
        !unwind_restore(access, walk, registers, rule, cfa) ||
        !access->load(walk, cfa - 8, &registers->value[UNWIND_REG_RIP]))
        return UNWIND_STEP_BAD_STACK;
    registers->value[UNWIND_REG_RSP] = cfa;
    return UNWIND_STEP_CALLER;
}

/* The rule of code that is entered by a return and never by a call: the trampolines of signals,
 * roots, and makecontext's, which has the rule of any function. The byte before such code belongs
 * to no function. Otherwise NULL. */
UNWIND_INLINE const struct unwind_rule *unwind_entry_rule(const struct unwind_access *access,
                                                          void *walk, uint64_t pc, bool is_padded) {
    const struct unwind_rule *rule;
    if (!access->find_rule(walk, pc, &rule) || !rule)
        return NULL;
    bool is_function = rule->cfa == UNWIND_CFA_RSP && rule->cfa_offset == 8;
    bool is_entry = rule->cfa == UNWIND_CFA_END || rule->cfa == UNWIND_CFA_SIGNAL;
    return is_entry || (is_padded && is_function) ? rule : NULL;
}

UNWIND_INLINE enum unwind_step unwind_step_gap(const struct unwind_access *access, void *walk,
                                               struct unwind_registers *registers,
                                               const struct unwind_rule *rule, uint64_t key,
                                               uint32_t *wanted) {
    bool is_exact = key == registers->value[UNWIND_REG_RIP];
    bool is_padded = rule && rule->cfa_add == UNWIND_NONE_PADDING;
    const struct unwind_rule *entry =
        is_exact ? NULL : unwind_entry_rule(access, walk, key + 1, is_padded);
    if (entry && entry->cfa == UNWIND_CFA_SIGNAL)
        return unwind_step_signal(access, walk, registers, entry);
    if (entry)
        return UNWIND_STEP_ENTRY;
    if (rule && rule->cfa_add != UNWIND_NONE_GAP)
        return rule->cfa_add == UNWIND_NONE_COMPLEX ? UNWIND_STEP_RULE : UNWIND_STEP_NO_TABLE;
    /* Code without unwind information in a file that has some, such as V8's builtins in node, has
     * frame pointers by convention. */
    return unwind_step_pointer(access, walk, registers, is_exact, wanted);
}

/* Steps from a frame to its caller. key: the pc to look up, which is the return address less 1, or
 * the exact pc of an interrupted frame. *wanted: the register that UNWIND_STEP_NEEDS is about.
 * After a step that ends the walk the registers are undefined. */
UNWIND_INLINE enum unwind_step unwind_step(const struct unwind_access *access, void *walk,
                                           struct unwind_registers *registers, uint64_t key,
                                           uint32_t *wanted) {
    const struct unwind_rule *rule;
    if (!access->find_rule(walk, key, &rule))
        return UNWIND_STEP_NO_CODE;
    if (!rule || rule->cfa == UNWIND_CFA_NONE)
        return unwind_step_gap(access, walk, registers, rule, key, wanted);
    if (rule->cfa == UNWIND_CFA_END)
        return UNWIND_STEP_ROOT;
    if (rule->cfa == UNWIND_CFA_SIGNAL)
        return unwind_step_signal(access, walk, registers, rule);
    if (rule->cfa == UNWIND_CFA_RETURN)
        return unwind_step_return(access, walk, registers, rule, wanted);
    return unwind_step_rule(access, walk, registers, rule, wanted);
}

#endif
