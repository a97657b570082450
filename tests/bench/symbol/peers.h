/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the symbolizers that Sonde is compared with, and measures what a run costs. */
#ifndef SONDE_TESTS_BENCH_SYMBOL_PEERS_H
#define SONDE_TESTS_BENCH_SYMBOL_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer_cost {
    double cpu_s, wall_s;
    long peak_kib;
    bool ran;
};

/* Runs a shell command without its output. Its last program should replace the shell (exec). */
struct peer_cost peer_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* CPU time in seconds of this process and of the children it has waited for. */
double peer_own_cpu(void);
double peer_children_cpu(void);
long peer_children_peak_kib(void);

#endif
