/* SPDX-License-Identifier: Apache-2.0
 *
 * What this sonded may do from outside, found by trying it. One row per right, for `sonde doctor`,
 * for GetInfo, and for the sentence with which a capture is refused. */
#ifndef SONDE_SERVICE_HOST_RIGHTS_H
#define SONDE_SERVICE_HOST_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>

enum host_right_kind {
    RIGHT_PERF_ALL = 0, /* cpu-clocks of all CPUs with kernel frames: CAP_PERFMON */
    RIGHT_PERF_OWN,     /* cpu-clocks of own processes: perf_event_paranoid <= 2 */
    RIGHT_BPF,          /* off-CPU by BPF: CAP_BPF, CAP_PERFMON, BTF */
    RIGHT_MEMORY,       /* maps and memory of other users' processes: CAP_SYS_PTRACE */
    RIGHT_FILES,        /* files of other users and of containers: CAP_DAC_READ_SEARCH and
                           CAP_CHECKPOINT_RESTORE */
    RIGHT_KERNEL_NAMES, /* addresses in /proc/kallsyms: CAP_SYSLOG */
    RIGHT_KINDS
};

struct host_right {
    const char *name;
    bool is_granted;
    const char *lost;  /* what does not work without it, one sentence; "" = granted */
    char command[384]; /* grants it: a setcap, a sysctl or a unit setting; "" = nothing does */
    char reason[192];  /* what the kernel said, to which capabilities; "" = granted */
};

struct sampler;

/* RIGHT_KINDS rows, each tried now; with the sampler's capabilities if there is one. Takes some
 * milliseconds; any thread. */
void host_rights_read(struct sampler *sampler, struct host_right rights[RIGHT_KINDS]);
/* One of them, because that of BPF loads a program, which a capture of CPU time does not need. */
void host_right_read(struct sampler *sampler, enum host_right_kind kind, struct host_right *right);

#endif
