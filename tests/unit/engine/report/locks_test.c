/* SPDX-License-Identifier: Apache-2.0
 *
 * The labels "lock" and "lock_owner" of a report without symbols, whose frames have fixed texts. */
#include "service/engine/report/report.h"
#include "tests/unit/check.h"

#include <string.h>

#define MUTEX 0x7f0000001000ull

static struct report_input input;
static struct sonde_profile *profile;

static struct report_part *begin(void) {
    input = (struct report_input){.part_count = 1, .metadata = {.period_ns = 1000000}};
    input.parts[0].stacks = stacks_create(0, 0);
    return &input.parts[0];
}

static void build(void) {
    CHECK_INT(report_build(&input, NULL, &profile, NULL), ==, SONDE_OK);
}

static void end(void) {
    report_input_finish(&input);
    sonde_profile_destroy(profile);
}

static uint32_t add_text(struct stacks *stacks, uint32_t parent, const char *text) {
    uint32_t node = stacks_add_process(stacks, text);
    return stacks_add_frame(stacks, parent, STACKS_PROCESS, stacks_node(stacks, node)->pc);
}

/* function calls lock_function, which waits. */
static void add(struct report_part *part, const char *function, const char *lock_function,
                const struct stack_lock *lock, uint64_t n) {
    uint32_t parent = add_text(part->stacks, 0, function);
    const struct count_key key = {.stack = add_text(part->stacks, parent, lock_function),
                                  .lock = stacks_add_lock(part->stacks, lock)};
    CHECK_INT(counts_add(&part->counts, &key, n, 1), ==, SONDE_OK);
}

static const char *label(size_t index, const char *key) {
    struct sonde_sample sample = sonde_profile_sample(profile, index);
    return sonde_sample_label(profile, &sample, key);
}

TEST(all_waits_for_a_lock_have_its_name_and_their_own_owner) {
    struct report_part *part = begin();
    struct stack_lock lock = {.address = MUTEX, .pid = 1, .is_plain_wait = true};
    lock.mutex_owner = stacks_add_thread(part->stacks, 0, 4712, "worker-2");
    add(part, "take", "pthread_mutex_lock", &lock, 5);
    lock.mutex_owner = stacks_add_thread(part->stacks, 0, 4713, "");
    add(part, "take", "pthread_mutex_lock", &lock, 1);
    lock.mutex_owner = 0;
    add(part, "give", "pthread_mutex_lock", &lock, 2);
    build();
    for (size_t i = 0; i < 3; i++)
        CHECK_STR(label(i, "lock"), "mutex 0x7f0000001000 of take");
    CHECK_STR(label(0, "lock_owner"), "4712 worker-2");
    CHECK_STR(label(1, "lock_owner"), "4713");
    CHECK_STR(label(2, "lock_owner"), "");
    end();
}

TEST(both_words_of_a_read_write_lock_are_one_lock_whose_owner_is_the_writer) {
    struct report_part *part = begin();
    struct stack_lock lock = {.address = MUTEX + 8, .pid = 1};
    lock.mutex_owner = stacks_add_thread(part->stacks, 0, 1, "wrong");
    lock.rwlock_owner = stacks_add_thread(part->stacks, 0, 4712, "writer");
    add(part, "read", "pthread_rwlock_rdlock", &lock, 1);
    lock.address = MUTEX + 12;
    add(part, "write", "pthread_rwlock_wrlock", &lock, 9);
    build();
    for (size_t i = 0; i < 2; i++) {
        CHECK_STR(label(i, "lock"), "read-write lock 0x7f0000001000 of write");
        CHECK_STR(label(i, "lock_owner"), "4712 writer");
    }
    end();
}

TEST(a_wait_for_the_mutex_of_a_condition_is_not_a_wait_for_the_condition) {
    struct report_part *part = begin();
    struct stack_lock lock = {.address = MUTEX + 40, .pid = 1};
    add(part, "work", "pthread_cond_wait", &lock, 1);
    lock = (struct stack_lock){.address = MUTEX + 64, .pid = 1, .is_plain_wait = true};
    add(part, "work", "pthread_cond_wait", &lock, 1); /* musl waits like this for both */
    lock.mutex_owner = stacks_add_thread(part->stacks, 0, 4712, "");
    add(part, "work", "pthread_cond_wait", &lock, 1);
    build();
    CHECK_STR(label(0, "lock"), "condition variable 0x7f0000001000 of work");
    CHECK_STR(label(1, "lock"), "condition variable 0x7f0000001018 of work");
    CHECK_STR(label(2, "lock"), "mutex 0x7f0000001040 of work");
    CHECK_STR(label(2, "lock_owner"), "4712");
    end();
}

TEST(what_has_no_owner_claims_none_and_unknown_functions_are_a_futex) {
    struct report_part *part = begin();
    struct stack_lock lock = {.address = MUTEX, .pid = 1};
    lock.mutex_owner = lock.rwlock_owner = stacks_add_thread(part->stacks, 0, 4712, "wrong");
    add(part, "work", "sem_wait", &lock, 1);
    add(part, "work", "app::wait", &lock, 1);
    add(part, "app::serve", "app::Mutex::lock_contended", &lock, 1);
    build();
    CHECK_STR(label(0, "lock"), "semaphore 0x7f0000001000 of work");
    CHECK_STR(label(1, "lock"), "futex 0x7f0000001000");
    CHECK_STR(label(2, "lock"), "mutex 0x7f0000001000 of app::serve");
    for (size_t i = 0; i < 3; i++)
        CHECK_STR(label(i, "lock_owner"), "");
    end();
}

TEST(locks_of_two_processes_at_the_same_address_are_two_and_those_beyond_the_limit_share_a_label) {
    struct report_part *part = begin();
    struct stack_lock lock = {.address = MUTEX, .pid = 1};
    add(part, "take", "pthread_mutex_lock", &lock, 1);
    lock.pid = 2;
    add(part, "give", "pthread_mutex_lock", &lock, 1);
    while (part->stacks->locks.count < STACKS_MAX_LOCKS) {
        lock.address += 64;
        (void)stacks_add_lock(part->stacks, &lock);
    }
    lock.address += 64;
    add(part, "more", "pthread_mutex_lock", &lock, 7);
    build();
    CHECK_STR(sonde_profile_comment(profile, 0),
              "locks: 7 samples are of locks beyond the limit of 16384 locks and owners");
    CHECK_STR(label(0, "lock"), "mutex 0x7f0000001000 of take");
    CHECK_STR(label(1, "lock"), "mutex 0x7f0000001000 of give");
    CHECK_STR(label(2, "lock"), "futex: other locks");
    end();
}

TEST(long_names_are_cut_between_characters) {
    struct report_part *part = begin();
    const struct stack_lock lock = {.address = MUTEX, .pid = 1};
    static char name[80];
    for (size_t i = 0; i + 2 < sizeof name; i += 2)
        memcpy(name + i, "\xc3\xa4", 3);
    add(part, name, "pthread_mutex_lock", &lock, 1);
    build();
    CHECK(strlen(label(0, "lock")) <= 200);
    CHECK(!strstr(label(0, "lock"), "\\x"));
    end();
}
