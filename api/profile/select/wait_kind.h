/* SPDX-License-Identifier: Apache-2.0
 *
 * What a blocked thread waits for, by the functions at the leaf of its stack. A libc exports its
 * functions of locks, so stacks have their names without debug information. Thread safety: any
 * thread; a profile must not change meanwhile. */
#ifndef SONDE_API_PROFILE_SELECT_WAIT_KIND_H
#define SONDE_API_PROFILE_SELECT_WAIT_KIND_H

#include "api/profile/profile.h"

enum sonde_wait_kind {
    SONDE_WAIT_OTHER = 0, /* none of the functions below: sleeps, I/O */
    SONDE_WAIT_MUTEX,
    SONDE_WAIT_RWLOCK,
    SONDE_WAIT_CONDITION,
    SONDE_WAIT_SEMAPHORE,
    SONDE_WAIT_FUTEX, /* barriers, ends of threads, and what only its system call shows */
    SONDE_WAIT_KINDS
};

/* What the memory around the futex word is. */
enum sonde_lock_layout {
    SONDE_LOCK_PLAIN = 0, /* unknown, or without an owner */
    SONDE_LOCK_PTHREAD_MUTEX,
    SONDE_LOCK_PTHREAD_RWLOCK,
    SONDE_LOCK_PTHREAD_CONDITION, /* has no owner, but a beginning that is known */
};

struct sonde_wait {
    enum sonde_wait_kind kind;
    enum sonde_lock_layout layout;
    const char *function; /* the one that locks: the first above the lock's own; "" = unknown */
};

/* "mutex", "read-write lock", "condition variable", "semaphore", "futex"; "" for OTHER. */
const char *sonde_wait_kind_name(enum sonde_wait_kind kind);
/* Whether another thread holds what is waited for. The other kinds wait for work. */
bool sonde_wait_is_contention(enum sonde_wait_kind kind);
/* What the stack waits for; locations as in a sonde_sample. */
struct sonde_wait sonde_wait_of_stack(const struct sonde_profile *profile,
                                      const uint32_t *locations, uint32_t count);
/* The same for the functions of a stack, leaf first. */
struct sonde_wait sonde_wait_of_names(const char *const *names, uint32_t count);

/* The label "lock" of a sample is the name of its kind, a space, and a name or an address. Returns
 * the kind, and the name in *name; OTHER if the text has no kind. */
enum sonde_wait_kind sonde_wait_of_label(const char *text, const char **name);

#endif
