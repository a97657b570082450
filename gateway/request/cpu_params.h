/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters that every CPU path reads. An absent one leaves its value unchanged; a bad one is
 * SONDE_INVALID_ARGUMENT with its name, value and bounds in the text. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_CPU_PARAMS_H
#define SONDE_GATEWAY_REQUEST_CPU_PARAMS_H

#include "gateway/request/query.h"

/* Reads `seconds` (1 to 3600) and `frequency` (1 to 10000 Hz). */
SONDE_MUST_USE sonde_err cpu_params_read_times(const struct query *query, uint64_t *seconds,
                                               uint64_t *frequency, struct sonde_diag *diag);

struct cpu_mode {
    int mode;            /* sonde.v1.CpuMode */
    int source;          /* sonde.v1.Source */
    double max_overhead; /* share of the target's CPU time, 0.0001 to 1; 0 = no limit */
    const char *event;   /* a counted event instead of the mode; "" = none */
    uint64_t period;     /* of it, for one sample; 0 = at the frequency */
    bool locks;          /* label waits with the lock and its owner */
};
/* Reads `mode`, `source` and `max_overhead` (0.01 or 1%). */
SONDE_MUST_USE sonde_err cpu_params_read_mode(const struct query *query, struct cpu_mode *mode,
                                              struct sonde_diag *diag);
/* Reads `event`, `period` (1 to 2^40) and `locks`, after cpu_params_read_mode. */
SONDE_MUST_USE sonde_err cpu_params_read_event(const struct query *query, struct cpu_mode *mode,
                                               struct sonde_diag *diag);

#endif
