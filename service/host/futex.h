/* SPDX-License-Identifier: Apache-2.0
 *
 * A futex that a thread waits for, and the memory of its lock. Only the functions on the stack show
 * which kind of lock it is, and their names come later, so the owner is read for each layout:
 *
 *     pthread_mutex_t   word +0, owner's tid +8, kind +16; robust ones and those with priority
 *                       inheritance have the tid in the word, as musl's have, whose word is at +4
 *     pthread_rwlock_t  words at +8 and +12, the writer's tid +24
 *     pthread_cond_t    words at +40 and +44, no owner
 *
 * All bytes are the program's, which may write anything there. The result is a claim: the caller
 * checks whether it is a thread of the process. Any thread. */
#ifndef SONDE_SERVICE_HOST_FUTEX_H
#define SONDE_SERVICE_HOST_FUTEX_H

#include <stdbool.h>
#include <stdint.h>

#define HOST_FUTEX_WORDS 5u

/* What a blocked thread waits for. */
struct host_futex {
    uint64_t address; /* 0 = it does not wait for a futex, or nobody asked for locks */
    uint32_t op;      /* of the system call, with its flags */
    bool has_words;
    uint32_t words[HOST_FUTEX_WORDS]; /* memory from the address on, when the wait began */
};

/* Whether a system call waits for a futex; fills in address and op. Its arguments are the first two
 * of the call. */
bool host_futex_read_call(uint64_t address, uint64_t op, struct host_futex *futex);

/* The tid of the owner, in the process's pid namespace; 0 = nobody, or unknown: the word does not
 * say that a thread waits. */
uint32_t host_futex_mutex_owner(const struct host_futex *futex);
uint32_t host_futex_rwlock_owner(const struct host_futex *futex);

/* Whether glibc waits like this for a mutex, and not for a condition variable: it calls both inside
 * of pthread_cond_wait. */
bool host_futex_is_plain_wait(const struct host_futex *futex);

/* The address of a pthread_rwlock_t and of a pthread_cond_t, which have two words each. */
uint64_t host_futex_rwlock_start(uint64_t word);
uint64_t host_futex_condition_start(uint64_t word);

#endif
