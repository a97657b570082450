/* SPDX-License-Identifier: Apache-2.0
 *
 * The registers that the kernel stored when a thread entered it, as BPF programs read them. Each
 * machine has this header, and Bazel chooses one as service/machine/own/entry.h. BPF programs
 * include it, too. Any thread. */
#ifndef SONDE_SERVICE_MACHINE_OWN_ENTRY_H
#define SONDE_SERVICE_MACHINE_OWN_ENTRY_H

#include "service/machine/own/registers.h"

#define ENTRY_MODE    0xfu  /* exception level and stack bits of pstate; 0 = user mode */
#define ENTRY_MODE_32 0x10u /* 32-bit mode */

#define ENTRY_CALL_FUTEX 98

/* The beginning of the kernel's struct pt_regs, of little-endian kernels. */
struct entry_registers {
    uint64_t x[31], sp, pc, pstate;
    uint64_t first_argument; /* x[0] at the entry */
    int32_t call;
    uint32_t unused;
};

static inline uint64_t entry_sp(const struct entry_registers *entry) {
    return entry->sp;
}

/* 64 or 32: what the program is made for; 0 = the kernel was not entered from user mode. */
static inline unsigned entry_bits(const struct entry_registers *entry) {
    return entry->pstate & ENTRY_MODE ? 0 : entry->pstate & ENTRY_MODE_32 ? 32 : 64;
}

/* The system call that the program made; -1 = it entered the kernel for another reason. */
static inline int64_t entry_call(const struct entry_registers *entry) {
    return entry->call;
}

/* Its first two arguments. */
static inline uint64_t entry_first(const struct entry_registers *entry) {
    return entry->first_argument;
}
static inline uint64_t entry_second(const struct entry_registers *entry) {
    return entry->x[1];
}

/* All are known. */
static inline void entry_take_registers(struct unwind_registers *registers,
                                        const struct entry_registers *entry) {
    for (uint32_t i = 0; i < UNWIND_REG_SP; i++)
        registers->value[i] = entry->x[i];
    registers->value[UNWIND_REG_SP] = entry->sp;
    registers->value[UNWIND_REG_PC] = entry->pc;
    registers->known = UNWIND_ALL_KNOWN;
}

/* For BPF programs: stores a word after all stores before it and before all stores behind it. With
 * -mcpu=v3, BPF has no barrier, so this is an atomic exchange, which orders stores. */
#define ENTRY_STORE_IN_ORDER(place, value) ((void)__sync_lock_test_and_set(place, value))

#endif
