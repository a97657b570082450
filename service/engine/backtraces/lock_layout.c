/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/backtraces/lock_layout.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13 /* Linux 5.14 */
#endif

/* pthread_mutex_t */
#define MUTEX_OWNER_AT  8
#define MUTEX_KIND_AT   16
#define MUTEX_ROBUST    16u /* bits of the kind */
#define MUTEX_INHERITS  32u
#define MUTEX_SHARED    128u
#define MUTEX_KINDS     0x3ffu
#define MUTEX_CONTENDED 2u /* the word of a mutex that is neither of the two */

/* pthread_rwlock_t. A wait for a phase is in one of two words, and which one the value shows. */
#define RWLOCK_PHASE_AT   8
#define RWLOCK_WRITERS_AT 12
#define RWLOCK_WRITER_AT  24
#define RWLOCK_SHARED_AT  28
#define RWLOCK_WRITE_HELD \
    3u /* bits of the state: the phase is that of a writer, who has the lock */
#define RWLOCK_IS_WRITING 1u
#define RWLOCK_WAITING    4u /* readers wait for the state itself */
#define RWLOCK_COUNT_AT   3  /* the readers' number is above these bits */
#define RWLOCK_USED       2u /* values of the other words: somebody waits */
#define RWLOCK_USED_SET   3u

bool futex_wait_read(const struct tracee_snapshot *snapshot, struct futex_wait *wait) {
    /* A wait with a timeout that a stop interrupted goes on as SYS_restart_syscall. */
    bool is_restarted = snapshot->call == SYS_restart_syscall;
    if (snapshot->call != SYS_futex && !is_restarted)
        return false;
    *wait = (struct futex_wait){.address = snapshot->arguments[0],
                                .operation = (uint32_t)snapshot->arguments[1] & FUTEX_CMD_MASK,
                                .value = (uint32_t)snapshot->arguments[2],
                                .is_timed = is_restarted || snapshot->arguments[3] != 0};
    switch (wait->operation) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_LOCK_PI:
    case FUTEX_LOCK_PI2:
        return wait->address != 0 && wait->address % sizeof(uint32_t) == 0;
    default:
        return false;
    }
}

static bool is_inheriting(const struct futex_wait *wait) {
    return wait->operation == FUTEX_LOCK_PI || wait->operation == FUTEX_LOCK_PI2;
}

void futex_wait_correct(const struct futex_wait *futex, struct sonde_wait *wait) {
    bool is_mutex_again = wait->kind == SONDE_WAIT_CONDITION && futex->operation == FUTEX_WAIT &&
                          futex->value == MUTEX_CONTENDED;
    if (is_inheriting(futex) || is_mutex_again) {
        wait->kind = SONDE_WAIT_MUTEX;
        wait->layout = SONDE_LOCK_PTHREAD_MUTEX;
    }
    if (wait->kind == SONDE_WAIT_OTHER)
        wait->kind = SONDE_WAIT_FUTEX;
}

uint64_t lock_layout_start(enum sonde_lock_layout layout, const struct futex_wait *wait) {
    if (layout != SONDE_LOCK_PTHREAD_RWLOCK)
        return layout == SONDE_LOCK_PTHREAD_MUTEX ? wait->address : 0;
    if (wait->value & RWLOCK_WAITING)
        return wait->address;
    if (wait->value != RWLOCK_USED && wait->value != RWLOCK_USED_SET)
        return 0;
    uint64_t at = wait->address % 8 ? RWLOCK_WRITERS_AT : RWLOCK_PHASE_AT;
    return wait->address > at ? wait->address - at : 0;
}

static uint32_t word_at(const uint8_t *bytes, size_t at) {
    uint32_t word;
    memcpy(&word, bytes + at, sizeof word);
    return word;
}

static struct lock_state read_mutex(const struct futex_wait *wait, const uint8_t *bytes) {
    uint32_t word = word_at(bytes, 0), kind = word_at(bytes, MUTEX_KIND_AT);
    struct lock_state state = {.is_shared = kind & MUTEX_SHARED};
    bool has_tid = is_inheriting(wait) || kind & (MUTEX_ROBUST | MUTEX_INHERITS);
    if (kind & ~MUTEX_KINDS)
        return (struct lock_state){0};
    if (!has_tid && word == MUTEX_CONTENDED)
        state.owner = word_at(bytes, MUTEX_OWNER_AT);
    else if (has_tid && word & FUTEX_WAITERS && !(word & FUTEX_OWNER_DIED))
        state.owner = word & FUTEX_TID_MASK;
    return state;
}

static struct lock_state read_rwlock(const struct futex_wait *wait, const uint8_t *bytes) {
    uint32_t word = word_at(bytes, 0), shared = word_at(bytes, RWLOCK_SHARED_AT);
    struct lock_state state = {.is_shared = shared == 1};
    if (shared > 1)
        return (struct lock_state){0};
    if ((word & RWLOCK_WRITE_HELD) == RWLOCK_WRITE_HELD)
        state.owner = word_at(bytes, RWLOCK_WRITER_AT);
    else if (!(word & RWLOCK_IS_WRITING) && !(wait->value & RWLOCK_WAITING))
        state.readers = word >> RWLOCK_COUNT_AT;
    return state;
}

struct lock_state lock_layout_read(enum sonde_lock_layout layout, const struct futex_wait *wait,
                                   const uint8_t bytes[LOCK_LAYOUT_BYTES]) {
    struct lock_state state = {0};
    if (layout == SONDE_LOCK_PTHREAD_MUTEX)
        state = read_mutex(wait, bytes);
    else if (layout == SONDE_LOCK_PTHREAD_RWLOCK)
        state = read_rwlock(wait, bytes);
    state.owner = state.owner > FUTEX_TID_MASK ? 0 : state.owner;
    return state;
}
