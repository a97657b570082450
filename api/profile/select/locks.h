/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile of waits as a table of locks: how often and for how long threads waited for each,
 * where, and who held it. Thread safety: any thread; the profile must not change meanwhile. */
#ifndef SONDE_API_PROFILE_SELECT_LOCKS_H
#define SONDE_API_PROFILE_SELECT_LOCKS_H

#include "api/profile/select/wait_kind.h"

#define SONDE_LOCK_OWNERS 3u /* of one lock, those with the longest time */

struct sonde_lock_owner {
    const char *name; /* "TID NAME" */
    int64_t ns;       /* of the waits that it held the lock for when they began */
};

struct sonde_lock {
    const char *name; /* of the label "lock", without the kind; "" = its address is unknown */
    enum sonde_wait_kind kind;
    int64_t pid; /* of the label "pid"; 0 = the profile has one process */
    int64_t waits, ns;
    uint32_t threads;     /* that waited */
    const char *function; /* the one that waited longest; "" = unknown */
    int64_t function_ns;
    struct sonde_lock_owner owners[SONDE_LOCK_OWNERS];
    uint32_t owner_count; /* in `owners` */
    int64_t owned_ns;     /* of the waits whose owner is known, whoever it was */
};

/* Time of samples that are not in the table. */
struct sonde_lock_rest {
    int64_t waits, ns;
};

struct sonde_lock_table {
    struct sonde_lock *locks; /* the longest time first */
    size_t count;
    int64_t waits, ns;           /* of all locks in the table */
    struct sonde_lock_rest work; /* condition variables, semaphores and other futexes */
    struct sonde_lock_rest rest; /* sleeps, I/O, waits for a CPU */
};

/* Fills the table from a profile with contentions and delay. all_waits: the table also has waits
 * for work, and `work` is 0. Texts are the profile's. The caller finishes the table.
 * SONDE_INVALID_ARGUMENT: the profile has other sample types. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err sonde_lock_table_init(struct sonde_lock_table *table,
                                               const struct sonde_profile *profile, bool all_waits);
void sonde_lock_table_finish(struct sonde_lock_table *table);

#endif
