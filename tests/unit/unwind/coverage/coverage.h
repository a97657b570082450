/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of a file's code its unwind table covers, and what the rest is: for the report and the
 * test of requirement E22. Thread safety: any thread. */
#ifndef SONDE_TESTS_UNIT_UNWIND_COVERAGE_COVERAGE_H
#define SONDE_TESTS_UNIT_UNWIND_COVERAGE_COVERAGE_H

#include "api/error.h"
#include "service/unwind/table/table.h"

#include <stdint.h>

/* Bytes of executable sections. */
struct coverage {
    uint32_t machine; /* EM_* */
    uint64_t text;
    uint64_t covered;                  /* there is a rule */
    uint64_t padding;                  /* between functions: nops, int3, zeros */
    uint64_t complex;                  /* the function's rule is too complex for a row */
    uint64_t bare;                     /* code without any unwind information */
    uint64_t by_cfa[UNWIND_CFA_COUNT]; /* covered bytes by kind of rule */
    uint64_t lost;                     /* covered bytes whose rule loses a register */
    uint32_t functions, rows, rules;
    uint64_t table_bytes;
};

SONDE_MUST_USE sonde_err coverage_of(const char *path, struct coverage *coverage,
                                     struct sonde_diag *diag);
/* The covered share of the code: 0 to 1. */
double coverage_share(const struct coverage *coverage);

#endif
