/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/futex.h"

#include <linux/futex.h>

#define OP_BITS 0x7fu /* without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME */
#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

/* The words of host_futex, in units of 4 bytes. */
enum { MUTEX_OWNER = 2, MUTEX_KIND = 4 };

/* glibc's __kind. */
#define KIND_ROBUST  16u
#define KIND_PROTECT 64u

#define CONTENDED      2u
#define PROTECT_BITS   0x7ffffu /* below the priority ceiling */
#define MUSL_NO_OWNER  16u      /* EBUSY: its normal mutexes do not store the tid */
#define RWLOCK_WAITERS 2u       /* in both words */

static uint32_t op_of(const struct host_futex *futex) {
    return futex->op & OP_BITS;
}

static bool inherits(const struct host_futex *futex) {
    return op_of(futex) == FUTEX_LOCK_PI || op_of(futex) == FUTEX_LOCK_PI2;
}

bool host_futex_read_call(uint64_t address, uint64_t op, struct host_futex *futex) {
    static const uint32_t waits = 1u << FUTEX_WAIT | 1u << FUTEX_LOCK_PI | 1u << FUTEX_WAIT_BITSET |
                                  1u << FUTEX_WAIT_REQUEUE_PI | 1u << FUTEX_LOCK_PI2;
    *futex = (struct host_futex){.address = address, .op = (uint32_t)op};
    uint32_t command = op_of(futex);
    return address != 0 && address % 4 == 0 && command < 32 && waits >> command & 1;
}

/* The tid in the word, if it also says that a thread waits. */
static uint32_t owner_in_word(uint32_t word) {
    return word & FUTEX_WAITERS ? word & FUTEX_TID_MASK : 0;
}

uint32_t host_futex_mutex_owner(const struct host_futex *futex) {
    uint32_t word = futex->words[0], kind = futex->words[MUTEX_KIND];
    if (!futex->has_words)
        return 0;
    if (inherits(futex))
        return owner_in_word(word);
    if (futex->address % 8 == 4)
        return (word & FUTEX_TID_MASK) == MUSL_NO_OWNER ? 0 : owner_in_word(word);
    if (kind & KIND_ROBUST)
        return owner_in_word(word);
    uint32_t state = kind & KIND_PROTECT ? word & PROTECT_BITS : word;
    return state == CONTENDED ? futex->words[MUTEX_OWNER] : 0;
}

/* Readers that hold it are not stored. */
uint32_t host_futex_rwlock_owner(const struct host_futex *futex) {
    bool is_writers = futex->address % 8 == 4;
    if (!futex->has_words || inherits(futex) || !(futex->words[0] & RWLOCK_WAITERS))
        return 0;
    return futex->words[is_writers ? 3 : 4];
}

bool host_futex_is_plain_wait(const struct host_futex *futex) {
    return op_of(futex) == FUTEX_WAIT;
}

uint64_t host_futex_rwlock_start(uint64_t word) {
    return word - (word % 8 == 4 ? 12 : 8);
}

uint64_t host_futex_condition_start(uint64_t word) {
    return word - (word % 8 == 4 ? 44 : 40);
}
