/* SPDX-License-Identifier: Apache-2.0
 *
 * The labels "lock" and "lock_owner" of a report without symbols, whose frames have fixed texts,
 * and of one with this program's. */
#include "service/engine/report/report.h"
#include "tests/unit/check.h"
#include "tests/unit/symbol/fixture.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

TEST(a_lock_has_the_function_with_the_most_waiting_of_all_its_threads) {
    struct report_part *part = begin();
    struct stack_lock lock = {.address = MUTEX, .pid = 1, .is_plain_wait = true};
    add(part, "take", "pthread_mutex_lock", &lock, 5);
    for (uint32_t tid = 1; tid <= 3; tid++) {
        lock.mutex_owner = stacks_add_thread(part->stacks, 0, tid, "");
        add(part, "give", "pthread_mutex_lock", &lock, 4);
    }
    lock.address += 64;
    add(part, "give", "pthread_mutex_lock", &lock, 1);
    add(part, "take", "pthread_mutex_lock", &lock, 2);
    build();
    for (size_t i = 0; i < 4; i++)
        CHECK_STR(label(i, "lock"), "mutex 0x7f0000001000 of give");
    for (size_t i = 4; i < 6; i++)
        CHECK_STR(label(i, "lock"), "mutex 0x7f0000001040 of take");
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
    lock = (struct stack_lock){.address = MUTEX + 68, .pid = 1, .is_plain_wait = true};
    add(part, "work", "pthread_cond_wait", &lock, 1); /* musl waits like this for both */
    lock.address = MUTEX + 64;
    add(part, "work", "pthread_cond_wait", &lock, 1); /* its owner has just released it */
    lock.mutex_owner = stacks_add_thread(part->stacks, 0, 4712, "");
    add(part, "work", "pthread_cond_wait", &lock, 1);
    build();
    CHECK_STR(label(0, "lock"), "condition variable 0x7f0000001000 of work");
    CHECK_STR(label(1, "lock"), "condition variable 0x7f0000001044 of work");
    CHECK_STR(label(2, "lock"), "mutex 0x7f0000001040 of work");
    CHECK_STR(label(2, "lock_owner"), "");
    CHECK_STR(label(3, "lock"), "mutex 0x7f0000001040 of work");
    CHECK_STR(label(3, "lock_owner"), "4712");
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

/* --- variables -------------------------------------------------------------------------------- */

#define TEN(text) text text text text text text text text text text

static uint32_t planted_lock[16] = {2};
/* Its name has 161 bytes: there is no room for the last one, which is half a character. */
static uint32_t long_lock[16] __asm__("x" TEN("\xc3\xa4"
                                              "\xc3\xa4"
                                              "\xc3\xa4"
                                              "\xc3\xa4"
                                              "\xc3\xa4"
                                              "\xc3\xa4"
                                              "\xc3\xa4"
                                              "\xc3\xa4")) = {2};

/* The mapping of this process that has the code. */
static struct mapping *open_mapping(struct symbol_store *store, uint64_t pc) {
    struct symbol_mapping from;
    struct symbol_module *module;
    CHECK(fixture_mapping(getpid(), pc, &from));
    CHECK_INT(symbol_module_open(store, getpid(), &from, &module, NULL), ==, SONDE_OK);
    struct mapping *mapping = mapping_create(&from);
    CHECK(mapping);
    mapping->has_bias = symbol_module_bias(module, &from, &mapping->bias);
    atomic_store(&mapping->module, module);
    atomic_store(&mapping->has_names, true);
    return mapping;
}

/* The label of a wait for a lock in this program's function, below which `calls` functions of a
 * library are called, each from another mapping than the one before. Valid until the next call. */
static const char *label_of(const uint32_t *variable, uint32_t calls) {
    static char text[300];
    const struct symbol_options options = {0};
    struct symbol_store *store;
    CHECK_INT(symbol_store_create(&options, &store, NULL), ==, SONDE_OK);
    struct report_part *part = begin();
    uint64_t own = (uint64_t)(uintptr_t)label_of + 4, library = (uint64_t)(uintptr_t)getpid + 4;
    struct mapping *mappings[] = {open_mapping(store, library), open_mapping(store, library),
                                  open_mapping(store, own)};
    uint32_t numbers[3];
    for (size_t i = 0; i < 3; i++)
        numbers[i] = stacks_add_mapping(part->stacks, mappings[i]);
    uint32_t node = stacks_add_frame(part->stacks, 0, numbers[2], own);
    for (uint32_t i = 0; i < calls; i++)
        node = stacks_add_frame(part->stacks, node, numbers[i % 2], library);
    const struct stack_lock lock = {.address = (uint64_t)(uintptr_t)variable, .pid = 1};
    const struct count_key key = {.stack = add_text(part->stacks, node, "pthread_mutex_lock"),
                                  .lock = stacks_add_lock(part->stacks, &lock)};
    CHECK_INT(counts_add(&part->counts, &key, 1, 1), ==, SONDE_OK);
    CHECK_INT(report_build(&input, store, &profile, NULL), ==, SONDE_OK);
    snprintf(text, sizeof text, "%s", label(0, "lock"));
    end();
    for (size_t i = 0; i < 3; i++)
        mapping_release(mappings[i]);
    symbol_store_destroy(store);
    return text;
}

TEST(a_variable_is_looked_for_in_the_first_16_modules_of_the_stack) {
    CHECK_STR(label_of(planted_lock, 0), "mutex planted_lock");
    CHECK_STR(label_of(planted_lock, 15), "mutex planted_lock");
    CHECK(strncmp(label_of(planted_lock, 16), "mutex 0x", 8) == 0);
}

TEST(long_names_are_cut_between_characters) {
    const char *name = label_of(long_lock, 0);
    CHECK(strncmp(name, "mutex x\xc3\xa4", 9) == 0);
    CHECK_INT(strlen(name), ==, strlen("mutex ") + 1 + 2 * 79);
    CHECK_STR(name + strlen(name) - 2, "\xc3\xa4");
}
