/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs in the kernel at each switch of a CPU from one thread to another. off_cpu.h says what for.
 *
 * The stack must be copied when the thread leaves, before anybody knows how long it will wait: at
 * its return another thread's memory is still mapped. So every switch of a watched thread pays for
 * a copy, and the wait's length then decides whether the copy is sent. */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <stdbool.h>

#include "service/host/bpf/off_cpu_shared.h"

#define TASK_DEAD  0x80
#define PF_KTHREAD 0x00200000
#define PAGE_BYTES 4096ull
#define END_NS     10000000ull /* how long the end of a stack is remembered */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sched_entity {
    uint64_t sum_exec_runtime;
};
struct task_struct {
    int pid, tgid;
    unsigned int flags;
    unsigned int __state;
    struct sched_entity se;
};
/* Before 5.14. */
struct task_struct___old {
    volatile long state;
};
#pragma clang attribute pop

/* Set before the program is loaded. */
const volatile uint32_t stack_bytes = OFF_CPU_MIN_STACK;
const volatile uint32_t slot_count = OFF_CPU_SLOTS;
const volatile uint64_t namespace_device = 0; /* of the reader's pid namespace; 0 = the first */
const volatile uint64_t namespace_inode = 0;

struct off_cpu_control control;

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, OFF_CPU_SLOTS);
    __uint(key_size, sizeof(uint32_t));
    __uint(value_size, sizeof(struct off_cpu_slot) + OFF_CPU_MAX_STACK);
} slots SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 23);
} ring SEC(".maps");

char program_license[] SEC("license") = "Dual BSD/GPL";

#define NONE UINT32_MAX

static __always_inline struct off_cpu_counters *counters(void) {
    return &control.cpus[bpf_get_smp_processor_id() % OFF_CPU_CPUS];
}

static __always_inline bool is_watched(uint32_t pid) {
    return control.watched[pid % OFF_CPU_PIDS / 64] & 1ull << pid % 64;
}

static __always_inline uint32_t first_way(uint32_t tid) {
    uint32_t set = (tid * 2654435761u >> 16) & (slot_count / OFF_CPU_WAYS - 1);
    return set * OFF_CPU_WAYS;
}

static __always_inline uint32_t find_slot(uint32_t tid) {
    uint32_t first = first_way(tid);
    for (uint32_t i = 0; i < OFF_CPU_WAYS; i++) {
        if (control.tids[(first + i) % OFF_CPU_SLOTS] == tid)
            return first + i;
    }
    return NONE;
}

static __always_inline uint32_t claim_slot(uint32_t tid) {
    uint32_t first = first_way(tid);
    for (uint32_t i = 0; i < OFF_CPU_WAYS; i++) {
        uint32_t *owner = &control.tids[(first + i) % OFF_CPU_SLOTS];
        if (*owner == 0 && __sync_val_compare_and_swap(owner, 0, tid) == 0)
            return first + i;
    }
    return NONE;
}

static __always_inline long state_of(struct task_struct *task) {
    if (bpf_core_field_exists(task->__state))
        return task->__state;
    return BPF_CORE_READ((struct task_struct___old *)task, state);
}

/* The first page above `from` that cannot be read. */
static __always_inline uint64_t find_end(uint64_t from) {
    uint64_t word, page = (from & -PAGE_BYTES) + PAGE_BYTES;
    for (uint32_t i = 0; i < OFF_CPU_MAX_STACK / PAGE_BYTES; i++, page += PAGE_BYTES) {
        if (bpf_probe_read_user(&word, sizeof word, (void *)page))
            break;
    }
    return page;
}

/* Copies as much of the stack as is readable. A read that fails costs a microsecond, so the slot
 * remembers where the stack ends; not for long, because pages above the stack pointer that a thread
 * has not touched yet cannot be read either. */
static __always_inline void copy_stack(struct off_cpu_slot *slot, uint64_t now) {
    uint64_t from = entry_sp(&slot->regs), size = stack_bytes;
    slot->stack_bytes = 0;
    if (now > slot->end_until_ns)
        slot->stack_end = 0;
    if (slot->stack_end > from && slot->stack_end - from < size)
        size = slot->stack_end - from;
    if (bpf_probe_read_user(slot->stack, size, (void *)from)) {
        slot->stack_end = find_end(from);
        slot->end_until_ns = now + END_NS;
        size = slot->stack_end - from;
        if (size > stack_bytes)
            size = stack_bytes;
        if (bpf_probe_read_user(slot->stack, size, (void *)from))
            return;
    }
    slot->stack_bytes = size;
}

/* The lock may change hands at any moment, so its memory is read here, before the thread sleeps. */
static __always_inline void copy_lock(struct off_cpu_slot *slot) {
    slot->has_words = 0;
    if (!control.wants_locks || slot->is_waiting_for_cpu ||
        entry_call(&slot->regs) != ENTRY_CALL_FUTEX)
        return;
    slot->has_words =
        !bpf_probe_read_user(slot->words, sizeof slot->words, (void *)entry_first(&slot->regs));
}

struct ids {
    uint32_t pid, tid;
};

/* As the reader's namespace has them. False if the thread is not in it. */
static __always_inline bool current_ids(struct task_struct *task, struct ids *ids) {
    struct bpf_pidns_info info;
    ids->pid = task->tgid;
    ids->tid = task->pid;
    if (namespace_inode == 0)
        return true;
    if (bpf_get_ns_current_pid_tgid(namespace_device, namespace_inode, &info, sizeof info))
        return false;
    ids->pid = info.tgid;
    ids->tid = info.pid;
    return true;
}

/* A wait shorter than the period is sent with probability wait / period, and then stands for a
 * period. So the records of a thread are at most one per period of waiting. */
static __always_inline bool choose(uint64_t waited, uint64_t *weight) {
    uint64_t period = control.period_ns;
    *weight = waited;
    if (waited >= period)
        return true;
    *weight = period;
    return ((uint64_t)(bpf_get_prandom_u32() >> 8) * (period >> 8)) >> 16 < waited;
}

static __always_inline void send(struct off_cpu_slot *slot) {
    uint32_t bytes = slot->stack_bytes;
    if (bytes > stack_bytes)
        bytes = stack_bytes;
    bool is_half_full = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >
                        bpf_ringbuf_query(&ring, BPF_RB_RING_SIZE) / 2;
    uint64_t flags = is_half_full ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
    if (bpf_ringbuf_output(&ring, slot, sizeof *slot + bytes, flags))
        counters()->lost++;
    else
        counters()->sent++;
}

static __always_inline void end_wait(struct off_cpu_slot *slot, uint64_t start, uint64_t end) {
    uint64_t waited = end - start, weight;
    ENTRY_STORE_IN_ORDER(&slot->start_ns, 0);
    if (waited < control.threshold_ns) {
        counters()->short_ns += waited;
    } else if (choose(waited, &weight)) {
        slot->left_ns = start;
        slot->end_ns = end;
        slot->weight_ns = weight;
        send(slot);
    }
}

/* The kernel may leave out the event of a return, for example while another program is attached to
 * the tracepoint. What the thread has used since it left then tells how long it waited. */
static __always_inline void end_missed(struct off_cpu_slot *slot, uint64_t now, uint64_t cpu) {
    uint64_t start = slot->start_ns, ran = cpu - slot->cpu_ns;
    if (start && now - start > ran)
        end_wait(slot, start, now - ran);
}

static __always_inline void leave(struct task_struct *task, bool is_preempted) {
    struct ids ids;
    if (!current_ids(task, &ids) || !is_watched(ids.pid) || task->flags & PF_KTHREAD)
        return;
    uint32_t tid = task->pid, index = find_slot(tid);
    long state = state_of(task);
    if (state & TASK_DEAD) {
        if (index != NONE)
            control.tids[index % OFF_CPU_SLOTS] = 0;
        return;
    }
    counters()->switches++;
    bool is_new = index == NONE;
    if (is_new)
        index = claim_slot(tid);
    struct off_cpu_slot *slot = index == NONE ? NULL : bpf_map_lookup_elem(&slots, &index);
    if (!slot) {
        counters()->lost++;
        return;
    }
    uint64_t now = bpf_ktime_get_ns(), cpu = task->se.sum_exec_runtime;
    if (is_new)
        slot->stack_end = 0;
    else
        end_missed(slot, now, cpu);
    ENTRY_STORE_IN_ORDER(&slot->start_ns, 0);
    slot->cpu_ns = cpu;
    slot->index = index;
    slot->pid = ids.pid;
    slot->tid = ids.tid;
    slot->cpu = bpf_get_smp_processor_id();
    slot->is_waiting_for_cpu = is_preempted || state == 0;
    struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
    if (bpf_probe_read_kernel(&slot->regs, sizeof slot->regs, regs))
        return;
    copy_stack(slot, now);
    copy_lock(slot);
    ENTRY_STORE_IN_ORDER(&slot->start_ns, now);
}

static __always_inline void arrive(struct task_struct *task) {
    uint32_t index = find_slot(task->pid);
    if (index == NONE)
        return;
    struct off_cpu_slot *slot = bpf_map_lookup_elem(&slots, &index);
    if (!slot)
        return;
    if (slot->start_ns)
        end_wait(slot, slot->start_ns, bpf_ktime_get_ns());
    if (!is_watched(slot->pid))
        control.tids[index % OFF_CPU_SLOTS] = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next) {
    if (next->pid)
        arrive(next);
    if (prev->pid)
        leave(prev, preempt);
    return 0;
}
