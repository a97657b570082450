/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/select/locks.h"

#include "api/profile/select/contentions.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <string.h>

/* One sample; functions leaf first, separated by ';'. */
struct row {
    const char *functions, *lock, *owner, *thread;
    int64_t tid, pid, waits, ns;
};

static uint32_t intern(struct sonde_profile *profile, const char *text) {
    uint32_t id;
    CHECK(sonde_profile_string(profile, text, strlen(text), &id) == SONDE_OK);
    return id;
}

static uint32_t add_location(struct sonde_profile *profile, const char *name, size_t len) {
    struct sonde_function function = {0};
    struct sonde_line line = {0};
    struct sonde_location location = {.line_count = 1, .lines = &line};
    uint32_t id;
    CHECK(sonde_profile_string(profile, name, len, &function.name) == SONDE_OK);
    CHECK(sonde_profile_add_function(profile, &function, &line.function) == SONDE_OK);
    CHECK(sonde_profile_add_location(profile, &location, &id) == SONDE_OK);
    return id;
}

static uint32_t add_stack(struct sonde_profile *profile, const char *functions,
                          uint32_t locations[16]) {
    uint32_t count = 0;
    for (const char *at = functions; *at; at += *at == ';') {
        size_t len = strcspn(at, ";");
        locations[count++] = add_location(profile, at, len);
        at += len;
    }
    return count;
}

static void add(struct sonde_profile *profile, const struct row *row) {
    uint32_t locations[16], count = 0;
    struct sonde_label labels[8];
    const int64_t values[] = {row->waits, row->ns};
    const char *const texts[][2] = {
        {"lock", row->lock}, {"lock_owner", row->owner}, {"thread", row->thread}};
    for (size_t i = 0; i < 3; i++)
        if (texts[i][1])
            labels[count++] = (struct sonde_label){.key = intern(profile, texts[i][0]),
                                                   .str = intern(profile, texts[i][1])};
    labels[count++] = (struct sonde_label){.key = intern(profile, "tid"), .num = row->tid};
    if (row->pid)
        labels[count++] = (struct sonde_label){.key = intern(profile, "pid"), .num = row->pid};
    const struct sonde_sample sample = {.locations = locations,
                                        .location_count =
                                            add_stack(profile, row->functions, locations),
                                        .label_count = count,
                                        .values = values,
                                        .labels = labels};
    CHECK(sonde_profile_add_sample(profile, &sample) == SONDE_OK);
}

static struct sonde_profile *profile_of(const struct row *rows, size_t count) {
    struct sonde_profile *profile = sonde_profile_create(sonde_contention_types, 2, 0);
    CHECK(profile);
    for (size_t i = 0; i < count; i++)
        add(profile, &rows[i]);
    return profile;
}

static struct sonde_wait wait_of(const char *functions) {
    struct sonde_profile *profile = sonde_profile_create(sonde_contention_types, 2, 0);
    uint32_t locations[16];
    static char function[200];
    uint32_t count = add_stack(profile, functions, locations);
    struct sonde_wait wait = sonde_wait_of_stack(profile, locations, count);
    snprintf(function, sizeof function, "%s", wait.function);
    wait.function = function;
    sonde_profile_destroy(profile);
    return wait;
}

static const struct {
    const char *functions;
    enum sonde_wait_kind kind;
    enum sonde_lock_layout layout;
    const char *function;
} stack_rows[] = {
    {"__lll_lock_wait;pthread_mutex_lock;shop::take_order;main", SONDE_WAIT_MUTEX,
     SONDE_LOCK_PTHREAD_MUTEX, "shop::take_order"},
    {"[libc.so.6]+0x8d2a0;___pthread_mutex_lock;__gthread_mutex_lock;std::mutex::lock();"
     "std::lock_guard<std::mutex>::lock_guard(std::mutex&);shop::price(int);main",
     SONDE_WAIT_MUTEX, SONDE_LOCK_PTHREAD_MUTEX, "shop::price(int)"},
    {"__lll_lock_wait_private;malloc;main", SONDE_WAIT_MUTEX, SONDE_LOCK_PLAIN, "malloc"},
    {"pthread_rwlock_rdlock;read_table", SONDE_WAIT_RWLOCK, SONDE_LOCK_PTHREAD_RWLOCK,
     "read_table"},
    {"__futex_abstimed_wait_common;pthread_cond_wait;void std::condition_variable::wait<f>();"
     "pool_worker",
     SONDE_WAIT_CONDITION, SONDE_LOCK_PTHREAD_CONDITION, "pool_worker"},
    {"__lll_lock_wait;__pthread_mutex_cond_lock;pthread_cond_wait;pool_worker", SONDE_WAIT_MUTEX,
     SONDE_LOCK_PTHREAD_MUTEX, "pool_worker"},
    {"__new_sem_wait_slow64;main", SONDE_WAIT_SEMAPHORE, SONDE_LOCK_PLAIN, "main"},
    {"std::sys::sync::mutex::futex::Mutex::lock_contended;app::serve", SONDE_WAIT_MUTEX,
     SONDE_LOCK_PLAIN, "app::serve"},
    {"pthread_cond_wait;WTF::ParkingLot::parkConditionallyImpl(void const*);"
     "WTF::Lock::lockSlow();JSC::run",
     SONDE_WAIT_MUTEX, SONDE_LOCK_PTHREAD_CONDITION, "JSC::run"},
    {"sem_wait;app::semaphore_lock_slow;main", SONDE_WAIT_MUTEX, SONDE_LOCK_PLAIN, "main"},
    {"pthread_mutex_lock;pthread_cond_wait;main", SONDE_WAIT_MUTEX, SONDE_LOCK_PTHREAD_MUTEX,
     "main"},
    {"parking_lot::raw_rwlock::RawRwLock::lock_shared_slow;app::get", SONDE_WAIT_RWLOCK,
     SONDE_LOCK_PLAIN, "app::get"},
    {"parking_lot::raw_rwlock::RawRwLock::lock_exclusive_slow;app::put", SONDE_WAIT_RWLOCK,
     SONDE_LOCK_PLAIN, "app::put"},
    {"parking_lot::raw_rwlock::RawRwLock::lock_upgradable_slow;app::see", SONDE_WAIT_RWLOCK,
     SONDE_LOCK_PLAIN, "app::see"},
    {"parking_lot::raw_mutex::RawMutex::lock_slow;app::put", SONDE_WAIT_MUTEX, SONDE_LOCK_PLAIN,
     "app::put"},
    {"syscall;block_slow;main", SONDE_WAIT_OTHER, SONDE_LOCK_PLAIN, ""},
    {"syscall;clock_slow_tick;main", SONDE_WAIT_OTHER, SONDE_LOCK_PLAIN, ""},
    {"syscall;flock_slow;main", SONDE_WAIT_OTHER, SONDE_LOCK_PLAIN, ""},
    {"syscall;block_slow_lock_slow;main", SONDE_WAIT_MUTEX, SONDE_LOCK_PLAIN, "main"},
    {"lock_slow;main", SONDE_WAIT_MUTEX, SONDE_LOCK_PLAIN, "main"},
    {"pthread_mutex_lock;std::vector<int> shop::collect<int>();main", SONDE_WAIT_MUTEX,
     SONDE_LOCK_PTHREAD_MUTEX, "std::vector<int> shop::collect<int>()"},
    {"pthread_mutex_lock;std::vector<int> shop::(anonymous namespace)::all<std::string>(int);f",
     SONDE_WAIT_MUTEX, SONDE_LOCK_PTHREAD_MUTEX,
     "std::vector<int> shop::(anonymous namespace)::all<std::string>(int)"},
    {"pthread_cond_clockwait;bool std::condition_variable::wait_for<long, std::ratio<1l, 1l>, "
     "shop::wait(int)::{lambda()#1}>(std::unique_lock<std::mutex>&);shop::wait(int)",
     SONDE_WAIT_CONDITION, SONDE_LOCK_PTHREAD_CONDITION, "shop::wait(int)"},
    {"epoll_wait;main", SONDE_WAIT_OTHER, SONDE_LOCK_PLAIN, ""},
    {"[waiting for a CPU];pthread_mutex_lock;main", SONDE_WAIT_OTHER, SONDE_LOCK_PLAIN, ""},
    {"a;b;c;d;e;f;g;h;pthread_mutex_lock;main", SONDE_WAIT_OTHER, SONDE_LOCK_PLAIN, ""},
    {"", SONDE_WAIT_OTHER, SONDE_LOCK_PLAIN, ""},
};

TEST(a_stack_shows_what_it_waits_for_and_who_locks) {
    for (size_t i = 0; i < sizeof stack_rows / sizeof *stack_rows; i++) {
        struct sonde_wait wait = wait_of(stack_rows[i].functions);
        printf("  %s\n", stack_rows[i].functions);
        CHECK_INT(wait.kind, ==, stack_rows[i].kind);
        CHECK_INT(wait.layout, ==, stack_rows[i].layout);
        CHECK_STR(wait.function, stack_rows[i].function);
    }
}

TEST(a_label_has_a_kind_and_a_name) {
    const char *name;
    CHECK_INT(sonde_wait_of_label("read-write lock shop::table", &name), ==, SONDE_WAIT_RWLOCK);
    CHECK_STR(name, "shop::table");
    CHECK_INT(sonde_wait_of_label("mutexes", &name), ==, SONDE_WAIT_OTHER);
    CHECK_STR(name, "mutexes");
    CHECK_INT(sonde_wait_of_label("", &name), ==, SONDE_WAIT_OTHER);
}

TEST(waits_are_summed_by_lock_with_threads_functions_and_owners) {
    static const struct row rows[] = {
        {"pthread_mutex_lock;take", "mutex a", "10 x", "one", 1, 0, 3, 300},
        {"pthread_mutex_lock;take", "mutex a", "10", "two", 2, 0, 1, 100},
        {"pthread_mutex_lock;give", "mutex a", "11 y", "", 2, 0, 1, 50},
        {"pthread_mutex_lock;give", "mutex a", NULL, "two", 2, 0, 1, 50},
        {"pthread_rwlock_rdlock;read", "read-write lock b", NULL, "one", 1, 0, 7, 900},
    };
    struct sonde_profile *profile = profile_of(rows, 5);
    struct sonde_lock_table table;
    CHECK_INT(sonde_lock_table_init(&table, profile, false), ==, SONDE_OK);
    CHECK_INT(table.count, ==, 2);
    CHECK_INT(table.ns, ==, 1400);
    CHECK_STR(table.locks[0].name, "b");
    CHECK_INT(table.locks[0].kind, ==, SONDE_WAIT_RWLOCK);
    CHECK_INT(table.locks[0].owned_ns, ==, 0);
    const struct sonde_lock *lock = &table.locks[1];
    CHECK_INT(lock->waits, ==, 6);
    CHECK_INT(lock->ns, ==, 500);
    CHECK_INT(lock->threads, ==, 2); /* one of them has got another name */
    CHECK_STR(lock->function, "take");
    CHECK_INT(lock->function_ns, ==, 400);
    CHECK_INT(lock->owner_count, ==, 2);
    CHECK_STR(lock->owners[0].name, "10 x");
    CHECK_INT(lock->owners[0].ns, ==, 400);
    CHECK_INT(lock->owned_ns, ==, 450);
    sonde_lock_table_finish(&table);
    sonde_profile_destroy(profile);
}

TEST(only_the_owners_with_the_longest_time_are_kept) {
    struct sonde_profile *profile = profile_of(NULL, 0);
    struct sonde_lock_table table;
    for (int64_t i = 1; i <= 6; i++) {
        char owner[16];
        snprintf(owner, sizeof owner, "%d", (int)(100 - i));
        const struct row row = {"pthread_mutex_lock;f", "mutex a", owner, "t", 1, 0, 1, i * 10};
        add(profile, &row);
    }
    CHECK_INT(sonde_lock_table_init(&table, profile, false), ==, SONDE_OK);
    CHECK_INT(table.locks[0].owner_count, ==, SONDE_LOCK_OWNERS);
    CHECK_STR(table.locks[0].owners[0].name, "94");
    CHECK_STR(table.locks[0].owners[2].name, "96");
    CHECK_INT(table.locks[0].owned_ns, ==, 210);
    sonde_lock_table_finish(&table);
    sonde_profile_destroy(profile);
}

TEST(what_waits_for_work_is_apart_and_locks_of_processes_are_too) {
    static const struct row rows[] = {
        {"pthread_mutex_lock;f", "mutex a", NULL, "t", 1, 1, 1, 10},
        {"pthread_mutex_lock;f", "mutex a", NULL, "t", 2, 2, 1, 20},
        {"pthread_mutex_lock;f", NULL, NULL, "t", 1, 1, 1, 5},
        {"pthread_cond_wait;f", "condition variable c", NULL, "t", 1, 1, 2, 1000},
        {"f", "futex: other locks", NULL, "t", 1, 1, 1, 7},
        {"epoll_wait;f", NULL, NULL, "t", 1, 1, 1, 5000},
    };
    struct sonde_profile *profile = profile_of(rows, 6);
    struct sonde_lock_table table;
    CHECK_INT(sonde_lock_table_init(&table, profile, false), ==, SONDE_OK);
    CHECK_INT(table.count, ==, 3);
    CHECK_INT(table.locks[0].pid, ==, 2);
    CHECK_STR(table.locks[2].name, ""); /* its address is unknown */
    CHECK_INT(table.work.ns, ==, 1007);
    CHECK_INT(table.work.waits, ==, 3);
    CHECK_INT(table.rest.ns, ==, 5000);
    sonde_lock_table_finish(&table);
    CHECK_INT(sonde_lock_table_init(&table, profile, true), ==, SONDE_OK);
    CHECK_INT(table.count, ==, 5);
    CHECK_STR(table.locks[0].name, "c");
    CHECK_INT(table.work.ns, ==, 0);
    CHECK_INT(table.rest.ns, ==, 5000);
    sonde_lock_table_finish(&table);
    sonde_profile_destroy(profile);
}

TEST(profiles_that_count_no_waits_are_refused) {
    static const struct sonde_value_type types[] = {{"samples", "count"},
                                                    {"off_cpu", "nanoseconds"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    struct sonde_lock_table table;
    CHECK_INT(sonde_lock_table_init(&table, profile, true), ==, SONDE_INVALID_ARGUMENT);
    sonde_lock_table_finish(&table);
    sonde_profile_destroy(profile);
}
