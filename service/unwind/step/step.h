/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter of unwind rules: from the registers of a frame to those of its caller. There is
 * one, so that the signal handler (service/guest/signal/walk_slow.c) and the walk of another
 * process (service/unwind/remote/remote.c) see the same stacks. They differ only in how they read
 * memory and find rules, which each of them passes in as a constant struct unwind_access.
 * Everything is inlined into the caller, so the handler makes no indirect call.
 *
 * A register that a rule needs may be unknown: a thread that was not stopped shows only its pc and
 * stack pointer, and a rule may lose a register. Then the step fails and says which register it
 * needs. Each machine has its registers and rules in service/machine.
 *
 * Signal-safe if the callbacks are. Rules are trusted (unwind_table_check); registers and stack
 * contents are not. */
#ifndef SONDE_SERVICE_UNWIND_STEP_STEP_H
#define SONDE_SERVICE_UNWIND_STEP_STEP_H

#include "service/machine/own/step.h"

#include <string.h>

/* Takes the registers of interrupted code from the ucontext of a signal's handler. */
UNWIND_INLINE void unwind_take_context(struct unwind_registers *registers, const void *context) {
    for (uint32_t i = 0; i < UNWIND_REGISTERS; i++)
        memcpy(&registers->value[i], (const uint8_t *)context + unwind_context_offset(i), 8);
    registers->known = UNWIND_ALL_KNOWN;
}

/* A signal frame: all registers of the interrupted code are in the ucontext that the kernel pushed.
 * That code may have run on another stack. */
UNWIND_INLINE enum unwind_step unwind_step_signal(const struct unwind_access *access, void *walk,
                                                  struct unwind_registers *registers,
                                                  const struct unwind_rule *rule,
                                                  uint32_t *wanted) {
    uint64_t sp = registers->value[UNWIND_REG_SP];
    uint64_t context = sp + (uint64_t)(int64_t)rule->cfa_offset;
    *wanted = UNWIND_REG_SP;
    if (!unwind_is_known(registers, UNWIND_REG_SP))
        return UNWIND_STEP_NEEDS;
    for (uint32_t i = 0; i < UNWIND_REGISTERS; i++)
        if (!access->load(walk, context + unwind_context_offset(i), &registers->value[i]))
            return UNWIND_STEP_BAD_STACK;
    registers->known = UNWIND_ALL_KNOWN;
    if (!access->may_follow(walk, sp, registers->value[UNWIND_REG_SP], UNWIND_BY_SIGNAL))
        return UNWIND_STEP_BAD_STACK;
    return UNWIND_STEP_EXACT;
}

/* The rule of code that is entered by a return and never by a call: the trampolines of signals,
 * roots, and makecontext's, which has the rule of any function. The byte before such code belongs
 * to no function. Otherwise NULL. */
UNWIND_INLINE const struct unwind_rule *unwind_entry_rule(const struct unwind_access *access,
                                                          void *walk, uint64_t pc, bool is_padded) {
    const struct unwind_rule *rule;
    if (!access->find_rule(walk, pc, &rule) || !rule)
        return NULL;
    bool is_entry = rule->cfa == UNWIND_CFA_END || rule->cfa == UNWIND_CFA_SIGNAL;
    return is_entry || (is_padded && unwind_is_entry(rule)) ? rule : NULL;
}

UNWIND_INLINE enum unwind_step unwind_step_gap(const struct unwind_access *access, void *walk,
                                               struct unwind_registers *registers,
                                               const struct unwind_rule *rule, uint64_t key,
                                               uint32_t *wanted) {
    bool is_exact = key == registers->value[UNWIND_REG_PC];
    bool is_padded = rule && rule->cfa_add == UNWIND_NONE_PADDING;
    const struct unwind_rule *entry =
        is_exact ? NULL : unwind_entry_rule(access, walk, key + 1, is_padded);
    if (entry && entry->cfa == UNWIND_CFA_SIGNAL)
        return unwind_step_signal(access, walk, registers, entry, wanted);
    if (entry)
        return UNWIND_STEP_ENTRY;
    if (rule && rule->cfa_add == UNWIND_NONE_COMPLEX)
        return UNWIND_STEP_RULE;
    if (rule && rule->cfa_add != UNWIND_NONE_GAP)
        return is_exact ? unwind_step_link(access, walk, registers) : UNWIND_STEP_NO_TABLE;
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
        return unwind_step_signal(access, walk, registers, rule, wanted);
    return unwind_step_rule(access, walk, registers, rule, wanted);
}

#endif
