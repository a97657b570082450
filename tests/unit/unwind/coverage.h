/* SPDX-License-Identifier: Apache-2.0
 *
 * What of a file's code its unwind table covers, and what the rest is: E22's report and its test.
 * Thread safety: any thread. */
#ifndef SONDE_TESTS_UNIT_UNWIND_COVERAGE_H
#define SONDE_TESTS_UNIT_UNWIND_COVERAGE_H

#include "api/error.h"
#include "service/unwind/table/table.h"

#include <stdint.h>

/* Bytes of executable sections. */
struct coverage {
    uint64_t text;
    uint64_t covered;                  /* a rule says how to go on, or that this is the root */
    uint64_t padding;                  /* between functions: nops, int3, zeros */
    uint64_t complex;                  /* a function's rule that no row can hold */
    uint64_t bare;                     /* code without any unwind information */
    uint64_t by_cfa[UNWIND_CFA_COUNT]; /* the covered ones */
    uint64_t lost;                     /* of them, under a rule that loses a register */
    uint32_t functions, rows, rules;
    uint64_t table_bytes;
};

SONDE_MUST_USE sonde_err coverage_of(const char *path, struct coverage *coverage,
                                     struct sonde_diag *diag);
/* Of what is code, the share that is covered: 0..1. */
double coverage_share(const struct coverage *coverage);

#endif
