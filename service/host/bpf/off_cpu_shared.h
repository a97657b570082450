/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that the BPF program and this process share. Included by both; nothing here is written
 * by a profiled process except the registers and the stack in a slot.
 *
 *     control   mapped read-write: which processes, thresholds, the slots' owners, counters
 *     slots     mapped read-only: one per thread, found by control.tids
 *     ring      waits that have ended: each is a slot, cut after its stack
 */
#ifndef SONDE_SERVICE_HOST_BPF_OFF_CPU_SHARED_H
#define SONDE_SERVICE_HOST_BPF_OFF_CPU_SHARED_H

#include "service/machine/own/entry.h"

#include <stdint.h>

#define OFF_CPU_PIDS      (1u << 22) /* the kernel's PID_MAX_LIMIT */
#define OFF_CPU_SLOTS     16384u
#define OFF_CPU_WAYS      16u /* slots in which a thread may be; one cache line of tids */
#define OFF_CPU_CPUS      1024u
#define OFF_CPU_MIN_STACK 1024u
#define OFF_CPU_MAX_STACK 16384u
#define OFF_CPU_WORDS     5u /* of 4 bytes, from a futex on: see host_futex */

/* One thread. start_ns is written last when the thread leaves its CPU and cleared first when it
 * returns, so a reader that sees the same start_ns before and after has read one state. */
struct off_cpu_slot {
    uint64_t start_ns;                /* when it left the CPU, CLOCK_MONOTONIC; 0 = it runs */
    uint64_t left_ns, end_ns;         /* in the ring: from when to when it was off the CPU */
    uint64_t weight_ns;               /* in the ring: the time that it stands for */
    uint32_t index;                   /* of the slot */
    uint32_t pid, tid, cpu;           /* ids as the reader's pid namespace has them */
    uint32_t is_waiting_for_cpu;      /* it was preempted; otherwise it blocked */
    uint32_t stack_bytes;             /* copied from the stack pointer on */
    uint64_t cpu_ns;                  /* the thread's CPU time when it left */
    uint64_t stack_end, end_until_ns; /* the kernel's note where the stack's mapping ends */
    uint32_t has_words;               /* it waits for a futex, and locks were asked for */
    uint32_t words[OFF_CPU_WORDS];    /* the memory of the futex when the thread left */
    struct entry_registers regs;      /* of its entry into the kernel */
    uint8_t stack[];
};

/* Of one CPU. */
struct off_cpu_counters {
    uint64_t switches, sent, lost, short_ns;
    uint64_t reserved[4]; /* a cache line */
};

struct off_cpu_control {
    uint64_t threshold_ns;
    uint64_t period_ns;                  /* 0 = send every wait */
    uint64_t wants_locks;                /* the memory of futexes that threads wait for */
    uint64_t watched[OFF_CPU_PIDS / 64]; /* a bit per process */
    uint32_t tids[OFF_CPU_SLOTS];        /* the kernel's id of the thread in each slot; 0 = free */
    struct off_cpu_counters cpus[OFF_CPU_CPUS];
};

#endif
