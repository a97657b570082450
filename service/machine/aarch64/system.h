/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls without libc, and what the kernel and libc put where. Each machine has this header,
 * and Bazel chooses one as service/machine/own/system.h. Signal-safe. */
#ifndef SONDE_SERVICE_MACHINE_OWN_SYSTEM_H
#define SONDE_SERVICE_MACHINE_OWN_SYSTEM_H

#include <fcntl.h>
#include <linux/audit.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

#define SYSTEM_AUDIT_ARCH AUDIT_ARCH_AARCH64

/* Calls of the guest (service/guest/process/seccomp_program.c) that not every machine has. */
#define SYSTEM_GUEST_CALLS SYS_faccessat, SYS_readlinkat, SYS_unlinkat

#define SYSTEM_TLS_IS_BELOW 0 /* static thread-local storage, of the descriptor */

/* A failure returns -errno. */
static inline long system_call(long number, long a, long b, long c, long d, long e) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}

static inline long system_call3(long number, long a, long b, long c) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}

/* A file descriptor; the file exists. */
static inline long system_open(const char *name, int flags) {
    return system_call3(SYS_openat, AT_FDCWD, (long)name, flags);
}

static inline long system_unlink(const char *name) {
    return system_call3(SYS_unlinkat, AT_FDCWD, (long)name, 0);
}

/* The end of the calling thread's descriptor. Its stack is below it. Static thread-local storage is
 * above it. */
static inline uint64_t system_thread_descriptor(void) {
    uint64_t descriptor;
    __asm__("mrs %0, tpidr_el0" : "=r"(descriptor));
    return descriptor;
}

/* In a loop that waits for another thread. */
static inline void system_pause(void) {
    __asm__ volatile("yield");
}

/* A load with an entry in the section walk_faults, which has the offsets from itself to the load
 * and to the code that runs after a fault. Then it returns false. */
__attribute__((always_inline)) static inline bool system_load(uint64_t address, uint64_t *value) {
    __asm__ goto("1: ldr %[to], %[from]\n\t"
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
