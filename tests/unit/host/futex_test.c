/* SPDX-License-Identifier: Apache-2.0
 *
 * Owners of locks: what libc writes, from the locks of this process, and what a hostile program may
 * write. */
#include "service/host/futex.h"

#include "tests/unit/check.h"

#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WAITERS 0x80000000u

/* As the system call and the kernel's copy of the memory have it. */
static struct host_futex at(const void *word, int op) {
    struct host_futex futex;
    CHECK(host_futex_read_call((uint64_t)(uintptr_t)word, (uint64_t)op, &futex));
    memcpy(futex.words, word, sizeof futex.words);
    futex.has_words = true;
    return futex;
}

static uint32_t own_tid(void) {
    return (uint32_t)syscall(SYS_gettid);
}

static pthread_mutex_t locked(int type, int protocol, int robust) {
    pthread_mutexattr_t attributes;
    pthread_mutex_t mutex;
    CHECK_INT(pthread_mutexattr_init(&attributes), ==, 0);
    CHECK_INT(pthread_mutexattr_settype(&attributes, type), ==, 0);
    CHECK_INT(pthread_mutexattr_setprotocol(&attributes, protocol), ==, 0);
    CHECK_INT(pthread_mutexattr_setrobust(&attributes, robust), ==, 0);
    CHECK_INT(pthread_mutex_init(&mutex, &attributes), ==, 0);
    return mutex;
}

static uint32_t owner_of(pthread_mutex_t *mutex, uint32_t waiting, int op) {
    CHECK_INT(pthread_mutex_lock(mutex), ==, 0);
    uint32_t *word = (uint32_t *)mutex, before = *word;
    *word = waiting == WAITERS ? before | WAITERS : waiting;
    struct host_futex futex = at(word, op);
    *word = before;
    CHECK_INT(pthread_mutex_unlock(mutex), ==, 0);
    return host_futex_mutex_owner(&futex);
}

TEST(the_owner_of_each_kind_of_mutex_is_this_thread) {
    static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
                                PTHREAD_MUTEX_ERRORCHECK};
    for (size_t i = 0; i < 3; i++) {
        pthread_mutex_t mutex = locked(types[i], PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
        CHECK_INT(owner_of(&mutex, 2, FUTEX_WAIT | FUTEX_PRIVATE_FLAG), ==, own_tid());
        pthread_mutex_t robust = locked(types[i], PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
        CHECK_INT(owner_of(&robust, WAITERS, FUTEX_WAIT), ==, own_tid());
        pthread_mutex_t inherits = locked(types[i], PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
        CHECK_INT(owner_of(&inherits, WAITERS, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG), ==, own_tid());
    }
}

TEST(a_mutex_for_which_nobody_waits_has_no_owner) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    CHECK_INT(owner_of(&mutex, 1, FUTEX_WAIT), ==, 0);
    CHECK_INT(owner_of(&mutex, 0, FUTEX_WAIT), ==, 0);
    pthread_mutex_t robust = locked(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
    CHECK_INT(owner_of(&robust, own_tid(), FUTEX_WAIT), ==, 0);
}

TEST(the_writer_of_a_read_write_lock_is_its_owner_and_readers_are_not) {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    uint32_t *words = (uint32_t *)&lock;
    CHECK_INT(pthread_rwlock_wrlock(&lock), ==, 0);
    for (int i = 2; i < 4; i++) {
        uint32_t before = words[i];
        words[i] |= 2;
        struct host_futex futex = at(&words[i], FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG);
        words[i] = before;
        CHECK_INT(host_futex_rwlock_owner(&futex), ==, own_tid());
        CHECK_INT(host_futex_rwlock_start(futex.address), ==, (uint64_t)(uintptr_t)&lock);
    }
    CHECK_INT(pthread_rwlock_unlock(&lock), ==, 0);
    CHECK_INT(pthread_rwlock_rdlock(&lock), ==, 0);
    struct host_futex futex = at(&words[2], FUTEX_WAIT_BITSET);
    futex.words[0] |= 2;
    CHECK_INT(host_futex_rwlock_owner(&futex), ==, 0);
    CHECK_INT(pthread_rwlock_unlock(&lock), ==, 0);
}

/* musl's words are 4 bytes behind the start of its mutexes, which is a multiple of 8. */
TEST(musl_has_the_owner_in_the_word_unless_the_mutex_is_a_normal_one) {
    static const uint32_t memory[8] __attribute__((aligned(8))) = {1, 4711 | WAITERS};
    static const uint32_t normal[8] __attribute__((aligned(8))) = {0, 16 | WAITERS};
    struct host_futex futex = at(&memory[1], FUTEX_WAIT);
    CHECK_INT(host_futex_mutex_owner(&futex), ==, 4711);
    futex = at(&normal[1], FUTEX_WAIT);
    CHECK_INT(host_futex_mutex_owner(&futex), ==, 0);
}

TEST(only_calls_that_wait_are_waits) {
    static const int waits[] = {FUTEX_WAIT, FUTEX_WAIT_BITSET, FUTEX_LOCK_PI, FUTEX_WAIT_REQUEUE_PI,
                                13};
    static const int others[] = {
        FUTEX_WAKE, FUTEX_REQUEUE, FUTEX_CMP_REQUEUE, FUTEX_UNLOCK_PI, FUTEX_TRYLOCK_PI, 31, 63,
        127};
    struct host_futex futex;
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        CHECK(host_futex_read_call(4096, (uint64_t)waits[i] | FUTEX_PRIVATE_FLAG, &futex));
        CHECK(host_futex_read_call(4096, (uint64_t)waits[i] | FUTEX_CLOCK_REALTIME, &futex));
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK(!host_futex_read_call(4096, (uint64_t)others[i], &futex));
    CHECK(!host_futex_read_call(0, FUTEX_WAIT, &futex));
    CHECK(!host_futex_read_call(4097, FUTEX_WAIT, &futex));
}

TEST(hostile_words_claim_at_most_a_tid) {
    struct host_futex futex = {0};
    uint64_t random = 1;
    for (int i = 0; i < 100000; i++) {
        for (size_t k = 0; k < HOST_FUTEX_WORDS; k++) {
            random = random * 6364136223846793005ull + 1442695040888963407ull;
            futex.words[k] = random >> 62 ? (uint32_t)(random >> 32) : (uint32_t)(random >> 32) % 4;
        }
        (void)host_futex_read_call(random & ~3ull, random >> 40, &(struct host_futex){0});
        futex.address = random & ~3ull;
        futex.op = (uint32_t)(random >> 17);
        futex.has_words = true;
        (void)host_futex_mutex_owner(&futex);
        (void)host_futex_rwlock_owner(&futex);
    }
    futex.has_words = false;
    CHECK_INT(host_futex_mutex_owner(&futex), ==, 0);
    CHECK_INT(host_futex_rwlock_owner(&futex), ==, 0);
}
