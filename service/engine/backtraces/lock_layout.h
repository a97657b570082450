/* SPDX-License-Identifier: Apache-2.0
 *
 * Who holds a lock, as glibc keeps it in the lock's memory on 64-bit machines:
 *
 *     pthread_mutex_t    0 lock   4 count    8 owner        12 users          16 kind
 *     pthread_rwlock_t   0 state  4 writers  8 phase futex  12 writers' futex 24 writer  28 shared
 *
 * Robust and priority-inheritance mutexes have the owner's tid in the lock word itself. The memory
 * belongs to the process, which may write anything there, and to another libc, which keeps
 * something else there. So a holder counts only if the lock's word says that somebody waits, and
 * the caller checks that the tid is a thread. Thread safety: any thread. */
#ifndef SONDE_SERVICE_ENGINE_BACKTRACES_LOCK_LAYOUT_H
#define SONDE_SERVICE_ENGINE_BACKTRACES_LOCK_LAYOUT_H

#include "api/profile/select/wait_kind.h"
#include "service/unwind/remote/tracee.h"

/* A wait in the system call futex. */
struct futex_wait {
    uint64_t address; /* of the word */
    uint32_t operation, value;
    bool is_timed; /* it ends by itself */
};

/* False: the thread is not blocked in futex, or waits for several at once. */
bool futex_wait_read(const struct tracee_snapshot *snapshot, struct futex_wait *wait);

/* Corrects what the functions of the stack say by what the call says: a wait for a condition ends
 * with one for its mutex, and only mutexes inherit priorities. */
void futex_wait_correct(const struct futex_wait *futex, struct sonde_wait *wait);

#define LOCK_LAYOUT_BYTES 32u

/* The state of a lock. */
struct lock_state {
    uint32_t owner;   /* tid, as the process numbers its threads; 0 = unknown */
    bool is_shared;   /* the owner may be a thread of another process */
    uint32_t readers; /* how many hold a read-write lock; their tids are unknown */
};

/* Where the lock begins that a thread waits for; 0 = unknown. */
uint64_t lock_layout_start(enum sonde_lock_layout layout, const struct futex_wait *wait);
/* Reads the state from the lock's first LOCK_LAYOUT_BYTES. */
struct lock_state lock_layout_read(enum sonde_lock_layout layout, const struct futex_wait *wait,
                                   const uint8_t bytes[LOCK_LAYOUT_BYTES]);

#endif
