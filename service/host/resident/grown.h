/* SPDX-License-Identifier: Apache-2.0
 *
 * Which page faults have made a process grow: divides the pages that are resident now and were not
 * before among sampled faults.
 *
 * A page that is resident at both looks has not grown, whatever happened to it in between, such as
 * copy-on-write after a fork. Nor has one that came back from swap. A page that was given back
 * counts for nobody. So memory that a program maps and unmaps all the time does not count, although
 * it has many faults, and the sum is exact although only some faults are sampled. Memory that
 * mremap moves, as realloc does with large blocks, counts as given back and as growth. Any thread.
 */
#ifndef SONDE_SERVICE_HOST_RESIDENT_GROWN_H
#define SONDE_SERVICE_HOST_RESIDENT_GROWN_H

#include "service/host/resident/resident.h"

/* A sampled page fault. */
struct grown_sample {
    uint64_t address;
    uint64_t weight; /* faults that it stands for, at least 1 */
    uint32_t tag;    /* the caller's */
    /* Set by grown_divide: */
    uint32_t stratum;
    enum resident_kind kind;
    uint64_t bytes; /* that have grown by it and those that it stands for; 0 = none */
};

/* All in bytes. */
struct grown {
    uint64_t grown[RESIDENT_KINDS];    /* resident now and not before */
    uint64_t no_fault[RESIDENT_KINDS]; /* of these, what no sampled fault explains */
    uint64_t huge;                     /* of the anonymous ones: in huge pages */
    uint64_t gone;                     /* anonymous, resident before and not now */
    uint64_t back;                     /* resident again after it was swapped out */
};

/* Sorts the samples by address; of two with the same address, the later one in the array counts.
 * `missed`, at least 1, is the number of samples that were taken for each one that was kept. The
 * samples' bytes and no_fault add up to grown. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err grown_divide(const struct resident_set *before,
                                      const struct resident_set *now, struct grown_sample *samples,
                                      size_t count, double missed, struct grown *grown);

#endif
