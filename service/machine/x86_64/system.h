/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls without libc, and what the kernel and libc put where. Each machine has this header,
 * and Bazel chooses one as service/machine/own/system.h. Signal-safe. */
#ifndef SONDE_SERVICE_MACHINE_OWN_SYSTEM_H
#define SONDE_SERVICE_MACHINE_OWN_SYSTEM_H

#include <linux/audit.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

#define SYSTEM_AUDIT_ARCH AUDIT_ARCH_X86_64

/* Calls of the guest (service/guest/process/seccomp_program.c) that not every machine has. */
#define SYSTEM_GUEST_CALLS SYS_access, SYS_open, SYS_poll, SYS_readlink, SYS_unlink

#define SYSTEM_TLS_IS_BELOW 1 /* static thread-local storage, of the descriptor */

/* A failure returns -errno. */
static inline long system_call(long number, long a, long b, long c, long d, long e) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}

static inline long system_call3(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

/* A file descriptor; the file exists. */
static inline long system_open(const char *name, int flags) {
    return system_call3(SYS_open, (long)name, flags, 0);
}

static inline long system_unlink(const char *name) {
    return system_call3(SYS_unlink, (long)name, 0, 0);
}

/* The address of the calling thread's descriptor. Its stack is below it, with static thread-local
 * storage between them. */
static inline uint64_t system_thread_descriptor(void) {
    uint64_t descriptor;
    __asm__("movq %%fs:0, %0" : "=r"(descriptor));
    return descriptor;
}

/* In a loop that waits for another thread. */
static inline void system_pause(void) {
    __builtin_ia32_pause();
}

/* A load with an entry in the section walk_faults, which has the offsets from itself to the load
 * and to the code that runs after a fault. Then it returns false. */
__attribute__((always_inline)) static inline bool system_load(uint64_t address, uint64_t *value) {
    __asm__ goto("1: movq %[from], %[to]\n\t"
                 ".pushsection walk_faults, \"a\"\n\t"
                 ".balign 4\n\t"
                 ".long 1b - ., %l[fault] - .\n\t"
                 ".popsection"
                 : [to] "=r"(*value)
                 : [from] "m"(*(const uint64_t *)address)
                 :
                 : fault);
    return true;
fault:
    return false;
}

#endif
