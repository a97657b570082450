/* SPDX-License-Identifier: Apache-2.0
 *
 * How much CPU time each thread of each process on this machine used since the last scan: exact,
 * without a guest and without any rights.
 *
 * A process's CPU clock costs one system call; only of processes that ran since the last scan, the
 * threads' clocks in /proc/PID/task/TID/schedstat are read, too. No file stays open. Time of
 * threads that ended meanwhile is the process's "(ended)". A process that begins and ends between
 * two scans is not seen, nor the last seconds of one that ends: what the machine used according to
 * /proc/stat, and no process, is the row "(ended)". Where a pid namespace or hidepid hides
 * processes, there is no such row. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_RECORDING_TOTALS_H
#define SONDE_SERVICE_RECORDING_TOTALS_H

#include "api/error.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TOTALS_MAX_PROCESSES 65536u
/* Threads whose clocks are remembered; time of further ones is that of the main thread. */
#define TOTALS_MAX_THREADS 65536u
#define TOTALS_MAX_ROWS    4096u /* the others are one row, "(other)" */

struct totals;

struct totals_row {
    char process[16];
    char thread[16]; /* "" = the main thread */
    int64_t cpu_ns;
};

/* proc: "/proc", or a copy of it in tests. cpu_ns returns the CPU clock of a process, 0 if it is
 * gone; NULL = the kernel's. NULL when out of memory. */
struct totals *totals_create(const char *proc, uint64_t (*cpu_ns)(pid_t pid));
void totals_destroy(struct totals *totals);
/* What was used since the last scan, the largest first; the first scan has no rows. *rows is valid
 * until the next call. SONDE_IO: proc cannot be listed; SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err totals_scan(struct totals *totals, const struct totals_row **rows,
                                     size_t *count, struct sonde_diag *diag);
/* For tests: instead of TOTALS_MAX_THREADS. */
void totals_limit_threads(struct totals *totals, uint32_t max_threads);

#endif
