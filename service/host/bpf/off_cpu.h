/* SPDX-License-Identifier: Apache-2.0
 *
 * Off-CPU time from outside: a BPF program on sched_switch. The kernel decides which processes and
 * which waits are recorded, so other processes pay one look-up per switch.
 *
 *     switch out of a watched thread: copy registers and top of stack into the thread's slot
 *     switch in: waited >= threshold? send the slot with the time : add the time to short_ns
 *
 * Which waits are sent follows the sampling period: those of at least a period all are, with their
 * own time. A shorter one is sent with probability wait / period, and then stands for a period. So
 * sums are right, and a thread sends at most about one record per period. When there are more than
 * max_per_second, or the ring was full, the period grows, and shrinks again later.
 *
 * Threads that are still blocked are read from their slots by off_cpu_flush. A thread that was
 * blocked before its process was watched has no slot until it wakes up. Thread safety: one thread
 * at a time. */
#ifndef SONDE_SERVICE_HOST_BPF_OFF_CPU_H
#define SONDE_SERVICE_HOST_BPF_OFF_CPU_H

#include "api/error.h"
#include "service/host/bpf/off_cpu_load.h"
#include "service/host/record.h"

#define OFF_CPU_THREADS 16384u /* slots at most; further threads are counted as lost */

/* How the program is loaded: off_cpu_load, or the sampler's request. Returns 0 or -errno. */
typedef int off_cpu_loader(void *context, const struct off_cpu_spec *spec, int fds[OFF_CPU_FDS]);

struct off_cpu_options {
    off_cpu_loader *load; /* NULL = off_cpu_load in this process */
    void *load_context;
    uint64_t capabilities;   /* of the process that loads it, a bit each; for messages */
    uint32_t max_threads;    /* slots, of stack_bytes each; 0 = OFF_CPU_THREADS */
    uint64_t threshold_ns;   /* shorter waits are not recorded; their time is counted */
    uint64_t period_ns;      /* 0 = send every wait */
    uint32_t stack_bytes;    /* HOST_MIN_STACK to 16384, a multiple of 8 */
    uint32_t max_per_second; /* records; 0 = no limit */
};

struct off_cpu;

/* SONDE_NOT_AVAILABLE: no right, no BPF or no BTF; diag says what would allow it. */
SONDE_MUST_USE sonde_err off_cpu_open(const struct off_cpu_options *options,
                                      struct off_cpu **off_cpu, struct sonde_diag *diag);
void off_cpu_close(struct off_cpu *off_cpu);
/* Watches a process (by its pid in sonded's namespace), or stops to. False: that is not a pid. */
bool off_cpu_watch(struct off_cpu *off_cpu, pid_t pid, bool is_watched);
void off_cpu_watch_all(struct off_cpu *off_cpu, bool is_watched);
bool off_cpu_watches(const struct off_cpu *off_cpu, pid_t pid);
void off_cpu_set_period(struct off_cpu *off_cpu, uint64_t period_ns);
/* Whether records also have the memory of the futex that the thread waits for. At first they do
 * not. A wait that began before has only the address. */
void off_cpu_set_locks(struct off_cpu *off_cpu, bool are_wanted);
/* Delivers HOST_OFF_CPU and HOST_LOST records, until is_over (may be NULL) says so. True if there
 * are more. */
bool off_cpu_drain(struct off_cpu *off_cpu, host_on_record *on_record, void *context,
                   bool (*is_over)(void *context));
/* Delivers a record for each thread that is still off the CPU, for its time since it left it or
 * since the last flush, up to now. Call it after off_cpu_drain. */
void off_cpu_flush(struct off_cpu *off_cpu, host_on_record *on_record, void *context);
/* Readable when the ring is half full, for epoll. */
int off_cpu_poll_fd(const struct off_cpu *off_cpu);

struct off_cpu_counts {
    uint64_t switches;  /* of watched threads */
    uint64_t sent;      /* records, without those of flushes */
    uint64_t lost;      /* waits that found no slot or no room in the ring */
    uint64_t short_ns;  /* time of the waits below the threshold */
    uint64_t period_ns; /* at present */
};
void off_cpu_counts(const struct off_cpu *off_cpu, struct off_cpu_counts *counts);

#endif
