/* SPDX-License-Identifier: Apache-2.0
 *
 * Off-CPU time from outside: a BPF program on sched_switch. The kernel decides which processes
 * and which waits are recorded, so others pay one look-up per switch.
 *
 *     switch out of a watched thread: copy registers and top of stack into the thread's slot
 *     switch in: waited >= threshold? send the slot with the time : forget it
 *
 * When there are more waits than the ring takes, one in N is sent with N times its weight, and N
 * is reported. Threads that are still blocked are read from their slots by off_cpu_flush. Thread
 * safety: one thread at a time. */
#ifndef SONDE_SERVICE_HOST_BPF_OFF_CPU_H
#define SONDE_SERVICE_HOST_BPF_OFF_CPU_H

#include "api/error.h"
#include "service/host/record.h"
#include "service/host/sampler/sampler.h"

#define OFF_CPU_THREADS 16384u /* slots; further threads are counted as lost */

struct off_cpu_options {
    struct sampler *sampler; /* loads the program; NULL = this process */
    bool all;                /* every process; otherwise those of off_cpu_watch */
    uint64_t threshold_ns;   /* shorter waits are not recorded; their time is counted */
    uint32_t stack_bytes;    /* HOST_MIN_STACK to 16384 */
    uint32_t max_per_second; /* records; 0 = no limit: one in N above it */
};

struct off_cpu;

/* SONDE_PERMISSION, SONDE_NOT_AVAILABLE (no BPF, no BTF); diag says what would allow it. */
SONDE_MUST_USE sonde_err off_cpu_open(const struct off_cpu_options *options,
                                      struct off_cpu **off_cpu, struct sonde_diag *diag);
void off_cpu_close(struct off_cpu *off_cpu);
/* Watches a process (by its pid in sonded's namespace), or stops to. At most 4,096. */
SONDE_MUST_USE sonde_err off_cpu_watch(struct off_cpu *off_cpu, pid_t pid, bool is_watched);
/* Delivers HOST_OFF_CPU and HOST_LOST records. True if there are more. */
bool off_cpu_drain(struct off_cpu *off_cpu, host_on_record *on_record, void *context,
                   bool (*is_over)(void *context));
/* Delivers a record for each thread that is still off the CPU, for its time since it left it or
 * since the last flush, up to now. */
void off_cpu_flush(struct off_cpu *off_cpu, host_on_record *on_record, void *context);
int off_cpu_poll_fd(const struct off_cpu *off_cpu);

struct off_cpu_counts {
    uint64_t switches; /* of watched threads */
    uint64_t sent, lost;
    uint64_t short_ns; /* time of the waits below the threshold */
    uint32_t one_in;   /* at present */
};
void off_cpu_counts(const struct off_cpu *off_cpu, struct off_cpu_counts *counts);

#endif
