/* SPDX-License-Identifier: Apache-2.0
 *
 * One record of the kernel about a process, after it was checked: what service/host/rings (perf)
 * and service/host/bpf (off-CPU) deliver, and service/engine/host takes.
 *
 * Everything in a record but its pid, tid and times may have been chosen by the process: names,
 * paths, addresses, registers, stack. Pointers are valid during the call that delivers the
 * record. */
#ifndef SONDE_SERVICE_HOST_RECORD_H
#define SONDE_SERVICE_HOST_RECORD_H

#include "service/host/futex.h"
#include "service/machine/own/registers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HOST_MAX_STACK  65528u /* bytes copied of one stack at most; a multiple of 8 */
#define HOST_MIN_STACK  1024u
#define HOST_MAX_KERNEL 127u /* frames of the kernel */
#define HOST_PATH_BYTES 4096u
#define HOST_COMM_BYTES 16u /* with the final NUL */

enum host_record_kind {
    HOST_SAMPLE = 0, /* CPU time, or counted events */
    HOST_OFF_CPU,    /* time for which the thread was blocked or waited for a CPU, until time_ns */
    HOST_MMAP,       /* an executable mapping */
    HOST_COMM,       /* the thread's new name; is_exec: the process runs another program */
    HOST_FORK,       /* a new thread (pid == parent pid) or process */
    HOST_EXIT,       /* the thread has ended */
    HOST_LOST,       /* `count` records did not fit into a ring; of any kind and any process */
    HOST_RECORD_KINDS
};

enum host_abi { HOST_ABI_NONE = 0 /* a kernel thread */, HOST_ABI_32, HOST_ABI_64 };

struct host_sample {
    /* The time that the sample stands for. Of a counted event: how many of it. */
    uint64_t weight_ns;
    uint64_t address; /* of a page fault, GROWTH; 0 otherwise */
    uint64_t span_ns; /* that time is spread over so much, up to time_ns; 0 = it is all of it */
    /* The first sample of a clock whose rate has changed also stands for the time since its last
     * sample before. To a capture that began with the new rate, it stands for this. 0 = none of
     * that. */
    uint64_t renewed_weight_ns, renewed_ns; /* the weight, and when the rate changed */
    enum host_abi abi;
    bool is_in_kernel; /* the thread was in the kernel; registers are those of its entry */
    double waits; /* HOST_OFF_CPU: how many waits begin in its time; 0 = the rest of one that was
                     reported in part */
    bool is_waiting_for_cpu; /* HOST_OFF_CPU: the thread could have run; otherwise it blocked */
    struct host_futex futex; /* HOST_OFF_CPU: that the thread waits for; address 0 = none */
    struct unwind_registers registers;
    const uint8_t *stack; /* a copy of the memory from the rsp in registers on */
    uint32_t stack_bytes; /* may be 0, for example because the page was not resident */
    uint32_t
        asked_bytes; /* what was asked for; with fewer in stack_bytes, the stack ends there or is
                             not resident */
    const uint64_t *kernel; /* pcs in the kernel, leaf first; the first is exact */
    uint32_t kernel_count;
};

struct host_mmap {
    uint64_t start, end, offset, inode;
    uint64_t inode_generation; /* 0 = unknown */
    uint32_t device_major, device_minor;
    const char *path; /* "" = anonymous; "[vdso]" ... as in /proc/PID/maps */
};

struct host_record {
    enum host_record_kind kind;
    pid_t pid, tid;   /* in sonded's pid namespace; 0 = outside of it, or unknown */
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint32_t cpu;
    union {
        struct host_sample sample; /* HOST_SAMPLE, HOST_OFF_CPU */
        struct host_mmap mmap;
        struct {
            const char *name;
            bool is_exec;
        } comm;
        struct {
            pid_t parent_pid, parent_tid;
        } fork;
        uint64_t lost;
    };
};

typedef void host_on_record(void *context, const struct host_record *record);

#endif
