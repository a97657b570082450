/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks of stacks that are made from readelf's rows of an arm64 file. Thread safety: one thread. */
#ifndef SONDE_TESTS_UNIT_ELF_MACHINE_ARM64_STACKS_H
#define SONDE_TESTS_UNIT_ELF_MACHINE_ARM64_STACKS_H

#include "api/error.h"

#include <stdint.h>

struct arm64_stacks {
    uint64_t rows;     /* that a stack can have */
    uint64_t frames;   /* of all stacks */
    uint64_t by_other; /* whose CFA is relative to another register than sp and x29 */
    uint64_t wrong;    /* stacks of which a walk found other pcs, or another end */
    uint64_t lost;     /* stacks of which a walk restored a register wrongly */
};

/* Walks `rounds` stacks of random functions of the file. Prints the first that goes wrong. Errors
 * of arm64_rows_build and arm64_rows_read; SONDE_CORRUPT: there are rows, but none stores x30, or
 * they do not fit together. */
SONDE_MUST_USE sonde_err arm64_stacks_walk(const char *path, unsigned rounds,
                                           struct arm64_stacks *stacks, struct sonde_diag *diag);

#endif
