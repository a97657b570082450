/* SPDX-License-Identifier: Apache-2.0
 *
 * Real locks of the running libc, and words that a hostile program may put there. */
#include "service/engine/backtraces/lock_layout.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TID 4711u

static struct tracee_snapshot call(uint64_t address, uint32_t operation, uint32_t value) {
    return (struct tracee_snapshot){.call = SYS_futex, .arguments = {address, operation, value}};
}

/* A wait for the word of a normal mutex. */
static struct futex_wait normal_wait(void) {
    return (struct futex_wait){.address = 0x1000, .operation = FUTEX_WAIT, .value = 2};
}

static struct lock_state read_words(enum sonde_lock_layout layout, const struct futex_wait *wait,
                                    const uint32_t words[LOCK_LAYOUT_BYTES / 4]) {
    uint8_t bytes[LOCK_LAYOUT_BYTES];
    memcpy(bytes, words, sizeof bytes);
    return lock_layout_read(layout, wait, bytes);
}

/* --- calls ------------------------------------------------------------------------------------ */

TEST(waits_are_those_for_one_word) {
    static const struct {
        uint32_t operation;
        bool is_wait;
    } rows[] = {
        {FUTEX_WAIT, true},
        {FUTEX_WAIT | FUTEX_PRIVATE_FLAG, true},
        {FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME, true},
        {FUTEX_LOCK_PI, true},
        {FUTEX_WAKE, false},
        {FUTEX_WAIT_REQUEUE_PI, false},
        {0x7fff, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tracee_snapshot snapshot = call(0x1000, rows[i].operation, 2);
        struct futex_wait wait;
        CHECK_INT(futex_wait_read(&snapshot, &wait), ==, rows[i].is_wait);
    }
}

TEST(other_calls_and_bad_addresses_are_no_waits) {
    struct tracee_snapshot read = call(0x1000, FUTEX_WAIT, 2), null = call(0, FUTEX_WAIT, 2),
                           odd = call(0x1001, FUTEX_WAIT, 2);
    struct futex_wait wait;
    read.call = SYS_read;
    CHECK(!futex_wait_read(&read, &wait));
    CHECK(!futex_wait_read(&null, &wait));
    CHECK(!futex_wait_read(&odd, &wait));
}

TEST(a_wait_with_a_timeout_ends_by_itself_also_after_a_stop) {
    struct tracee_snapshot snapshot = call(0x1000, FUTEX_WAIT_BITSET, 2);
    struct futex_wait wait;
    CHECK(futex_wait_read(&snapshot, &wait) && !wait.is_timed);
    snapshot.arguments[3] = 0x7ffc0000;
    CHECK(futex_wait_read(&snapshot, &wait) && wait.is_timed);
    snapshot.arguments[3] = 0;
    snapshot.call = SYS_restart_syscall;
    CHECK(futex_wait_read(&snapshot, &wait) && wait.is_timed);
}

/* What it waits for if the functions say `kind`. */
static struct sonde_wait corrected(enum sonde_wait_kind kind, uint32_t operation, uint32_t value) {
    const struct futex_wait futex = {.address = 0x1000, .operation = operation, .value = value};
    struct sonde_wait wait = {.kind = kind, .function = "f"};
    futex_wait_correct(&futex, &wait);
    CHECK_STR(wait.function, "f");
    CHECK_INT(wait.layout == SONDE_LOCK_PTHREAD_MUTEX, ==, wait.kind == SONDE_WAIT_MUTEX);
    return wait;
}

TEST(the_call_says_more_than_the_functions) {
    CHECK_INT(corrected(SONDE_WAIT_CONDITION, FUTEX_WAIT, 2).kind, ==, SONDE_WAIT_MUTEX);
    CHECK_INT(corrected(SONDE_WAIT_CONDITION, FUTEX_WAIT, 0).kind, ==, SONDE_WAIT_CONDITION);
    CHECK_INT(corrected(SONDE_WAIT_CONDITION, FUTEX_WAIT_BITSET, 2).kind, ==, SONDE_WAIT_CONDITION);
    CHECK_INT(corrected(SONDE_WAIT_OTHER, FUTEX_WAIT, 2).kind, ==, SONDE_WAIT_FUTEX);
    CHECK_INT(corrected(SONDE_WAIT_OTHER, FUTEX_LOCK_PI, 0).kind, ==, SONDE_WAIT_MUTEX);
}

/* --- this libc -------------------------------------------------------------------------------- */

/* The owner of a mutex that this thread holds, whose word says that somebody waits. */
static struct lock_state owner_of(int protocol, int robust, int shared, uint32_t contended) {
    pthread_mutexattr_t kind;
    pthread_mutex_t mutex;
    uint32_t word;
    CHECK_INT(pthread_mutexattr_init(&kind), ==, 0);
    CHECK_INT(pthread_mutexattr_setprotocol(&kind, protocol), ==, 0);
    CHECK_INT(pthread_mutexattr_setrobust(&kind, robust), ==, 0);
    CHECK_INT(pthread_mutexattr_setpshared(&kind, shared), ==, 0);
    CHECK_INT(pthread_mutex_init(&mutex, &kind), ==, 0);
    CHECK_INT(pthread_mutex_lock(&mutex), ==, 0);
    memcpy(&word, &mutex, sizeof word);
    word = contended == 2 ? 2 : word | contended;
    uint8_t bytes[sizeof mutex];
    memcpy(bytes, &mutex, sizeof mutex);
    memcpy(bytes, &word, sizeof word);
    CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
    struct futex_wait wait = normal_wait();
    return lock_layout_read(SONDE_LOCK_PTHREAD_MUTEX, &wait, bytes);
}

TEST(this_libcs_mutexes_have_their_owner_where_it_is_read) {
    uint32_t self = (uint32_t)syscall(SYS_gettid);
    struct lock_state normal =
        owner_of(PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE, 2);
    CHECK_INT(normal.owner, ==, self);
    CHECK(!normal.is_shared);
    struct lock_state robust =
        owner_of(PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST, PTHREAD_PROCESS_SHARED, FUTEX_WAITERS);
    CHECK_INT(robust.owner, ==, self);
    CHECK(robust.is_shared);
    CHECK_INT(owner_of(PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE,
                       FUTEX_WAITERS)
                  .owner,
              ==, self);
}

TEST(a_mutex_that_nobody_waits_for_has_no_owner) {
    CHECK_INT(owner_of(PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE, 0).owner,
              ==, 0);
    CHECK_INT(
        owner_of(PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE, 0).owner, ==,
        0);
}

TEST(this_libcs_read_write_locks_have_their_writer_or_the_number_of_readers) {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    struct futex_wait wait = {.operation = FUTEX_WAIT_BITSET, .value = 3};
    CHECK_INT(pthread_rwlock_wrlock(&lock), ==, 0);
    struct lock_state held = lock_layout_read(SONDE_LOCK_PTHREAD_RWLOCK, &wait, (uint8_t *)&lock);
    CHECK_INT(held.owner, ==, (uint32_t)syscall(SYS_gettid));
    CHECK_INT(held.readers, ==, 0);
    CHECK_INT(pthread_rwlock_unlock(&lock), ==, 0);
    CHECK_INT(pthread_rwlock_rdlock(&lock), ==, 0);
    CHECK_INT(pthread_rwlock_rdlock(&lock), ==, 0);
    held = lock_layout_read(SONDE_LOCK_PTHREAD_RWLOCK, &wait, (uint8_t *)&lock);
    CHECK_INT(held.owner, ==, 0);
    CHECK_INT(held.readers, ==, 2);
}

TEST(a_read_write_lock_begins_before_the_word_that_is_waited_for) {
    struct futex_wait wait = {.address = 0x1008, .value = 3};
    CHECK_INT(lock_layout_start(SONDE_LOCK_PTHREAD_RWLOCK, &wait), ==, 0x1000);
    wait.value = 2;
    CHECK_INT(lock_layout_start(SONDE_LOCK_PTHREAD_RWLOCK, &wait), ==, 0x1000);
    wait = (struct futex_wait){.address = 0x100c, .value = 3};
    CHECK_INT(lock_layout_start(SONDE_LOCK_PTHREAD_RWLOCK, &wait), ==, 0x1000);
    wait = (struct futex_wait){.address = 0x1000, .value = 0x0d};
    CHECK_INT(lock_layout_start(SONDE_LOCK_PTHREAD_RWLOCK, &wait), ==, 0x1000);
}

/* --- hostile words ---------------------------------------------------------------------------- */

TEST(only_the_words_of_a_lock_that_somebody_waits_for_have_an_owner) {
    static const struct {
        const char *what;
        uint32_t word, owner, kind, expected;
    } rows[] = {
        {"a normal mutex", 2, TID, 0, TID},
        {"a recursive one", 2, TID, 1, TID},
        {"a free one", 0, TID, 0, 0},
        {"one without waiters", 1, TID, 0, 0},
        {"a wrong word", 3, TID, 0, 0},
        {"another libc's", FUTEX_WAITERS | 16, TID, 0, 0},
        {"no kind", 2, TID, 0x8000, 0},
        {"all bits", UINT32_MAX, UINT32_MAX, UINT32_MAX, 0},
        {"a large owner", 2, UINT32_MAX, 0, 0},
        {"a negative owner", 2, 0x80000000u, 0, 0},
        {"a robust one", FUTEX_WAITERS | TID, 1, 16, TID},
        {"a robust one without waiters", TID, TID, 16, 0},
        {"a robust one whose owner has ended", FUTEX_WAITERS | FUTEX_OWNER_DIED | TID, TID, 16, 0},
        {"one with priority inheritance", FUTEX_WAITERS | TID, 1, 32, TID},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint32_t words[8] = {rows[i].word, 0, rows[i].owner, 1, rows[i].kind};
        struct futex_wait wait = normal_wait();
        struct lock_state state = read_words(SONDE_LOCK_PTHREAD_MUTEX, &wait, words);
        if (state.owner != rows[i].expected)
            check_fail(__FILE__, __LINE__, "%s: %u", rows[i].what, state.owner);
    }
}

TEST(a_read_write_lock_with_impossible_words_has_no_owner) {
    static const uint32_t rows[][8] = {
        {3, 0, 0, 0, 0, 0, TID, 2},        /* neither private nor shared */
        {3, 0, 0, 0, 0, 0, UINT32_MAX, 0}, /* no tid */
        {1, 0, 0, 0, 0, 0, TID, 0},        /* not held for writing */
        {2, 0, 0, 0, 0, 0, TID, 0},        {0, 0, 0, 0, 0, 0, TID, 0},
    };
    struct futex_wait wait = {.operation = FUTEX_WAIT_BITSET, .value = 3};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_INT(read_words(SONDE_LOCK_PTHREAD_RWLOCK, &wait, rows[i]).owner, ==, 0);
}

TEST(other_locks_have_no_owner_and_no_start) {
    const uint32_t words[8] = {2, 0, TID};
    struct futex_wait wait = normal_wait();
    CHECK_INT(read_words(SONDE_LOCK_PLAIN, &wait, words).owner, ==, 0);
    CHECK_INT(lock_layout_start(SONDE_LOCK_PLAIN, &wait), ==, 0);
}

TEST(a_read_write_lock_has_no_start_before_the_first_address_or_with_another_value) {
    struct futex_wait low = {.address = 8, .value = 3}, value = {.address = 0x1008, .value = 8};
    CHECK_INT(lock_layout_start(SONDE_LOCK_PTHREAD_RWLOCK, &low), ==, 0);
    CHECK_INT(lock_layout_start(SONDE_LOCK_PTHREAD_RWLOCK, &value), ==, 0);
}
