/* SPDX-License-Identifier: Apache-2.0
 *
 * The registers that the kernel stored when a thread entered it, as BPF programs read them. Each
 * machine has this header, and Bazel chooses one as service/machine/own/entry.h. BPF programs
 * include it, too. Any thread. */
#ifndef SONDE_SERVICE_MACHINE_OWN_ENTRY_H
#define SONDE_SERVICE_MACHINE_OWN_ENTRY_H

#include "service/machine/own/registers.h"

#define ENTRY_CODE_64 0x33u
#define ENTRY_CODE_32 0x23u

#define ENTRY_CALL_FUTEX 202

/* The kernel's struct pt_regs. */
struct entry_registers {
    uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
    uint64_t orig_rax, rip, cs, flags, rsp, ss;
};

static inline uint64_t entry_sp(const struct entry_registers *entry) {
    return entry->rsp;
}

/* 64 or 32: what the program is made for; 0 = it was not a program that entered the kernel. */
static inline unsigned entry_bits(const struct entry_registers *entry) {
    return entry->cs == ENTRY_CODE_64 ? 64 : entry->cs == ENTRY_CODE_32 ? 32 : 0;
}

/* The system call that the program made; -1 = it entered the kernel for another reason. */
static inline int64_t entry_call(const struct entry_registers *entry) {
    return (int64_t)entry->orig_rax;
}

/* Its first two arguments. */
static inline uint64_t entry_first(const struct entry_registers *entry) {
    return entry->rdi;
}
static inline uint64_t entry_second(const struct entry_registers *entry) {
    return entry->rsi;
}

/* All are known. */
static inline void entry_take_registers(struct unwind_registers *registers,
                                        const struct entry_registers *entry) {
    *registers = (struct unwind_registers){
        .value = {entry->rax, entry->rdx, entry->rcx, entry->rbx, entry->rsi, entry->rdi,
                  entry->rbp, entry->rsp, entry->r8, entry->r9, entry->r10, entry->r11, entry->r12,
                  entry->r13, entry->r14, entry->r15, entry->rip},
        .known = UNWIND_ALL_KNOWN};
}

/* For BPF programs: stores a word after all stores before it and before all stores behind it, which
 * this machine does in any case. */
#define ENTRY_STORE_IN_ORDER(place, value)   \
    do {                                     \
        __asm__ volatile("" : : : "memory"); \
        *(place) = (value);                  \
        __asm__ volatile("" : : : "memory"); \
    } while (0)

#endif
