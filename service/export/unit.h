/* SPDX-License-Identifier: Apache-2.0
 *
 * What one record is sent as. CPU and off-CPU time: one unit, the record's profile. A heap has two:
 * what is in use, and what was allocated since the last snapshot of the process; the first snapshot
 * only has the former.
 *
 * Thread safety: one thread at a time per unit_maker. */
#ifndef SONDE_SERVICE_EXPORT_UNIT_H
#define SONDE_SERVICE_EXPORT_UNIT_H

#include "api/profile/profile.h"
#include "service/engine/record/record.h"

#define UNITS_MAX      2
#define UNIT_HEAPS     256            /* processes whose allocations are remembered */
#define UNIT_HEAP_ROWS (1u << 17)     /* stacks of one process */
#define UNIT_HEAP_NS   600000000000ll /* a process whose last snapshot is older is forgotten */

struct export_unit {
    const struct record *record;
    const char *name; /* Pyroscope's: "process_cpu" */
    struct sonde_profile *profile;
    int64_t begin_unix_ns, duration_ns;
};

struct unit_heap {
    char instance[33];
    uint64_t epoch;
    int64_t unix_ns;
    struct sonde_profile *allocated; /* since profiling was switched on */
};

/* Zeroed memory is an empty one. */
struct unit_maker {
    struct unit_heap *heaps;
    size_t heap_count;
};

/* *count units, at most UNITS_MAX; the caller calls unit_finish for each. A record without samples
 * has none. SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err units_make(struct unit_maker *maker, const struct record *record,
                                    struct export_unit units[UNITS_MAX], size_t *count);
void unit_finish(struct export_unit *unit);
void unit_maker_finish(struct unit_maker *maker);

/* All types and samples of a profile. */
struct sonde_profile_part unit_everything(const struct sonde_profile *profile);
/* Half of a unit's samples: half 0 or 1. The caller calls unit_finish. */
SONDE_MUST_USE sonde_err unit_halve(const struct export_unit *unit, int half,
                                    struct export_unit *part);

#endif
