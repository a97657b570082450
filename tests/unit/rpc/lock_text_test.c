/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/threads/lock_text.h"
#include "tests/unit/check.h"

#include <string.h>

#define MANY 100u

static struct engine_lock_wait wait_for(pid_t owner, const char *name) {
    return (struct engine_lock_wait){.address = 0x1000,
                                     .kind = SONDE_WAIT_MUTEX,
                                     .name = "",
                                     .function = "shop::take(int)",
                                     .owner = owner,
                                     .owner_name = name};
}

static struct engine_thread thread(pid_t tid, const char *name, struct engine_lock_wait *wait) {
    return (struct engine_thread){
        .tid = tid, .name = name, .wait_channel = "", .error = "", .lock_wait = wait};
}

/* Valid until the next call. */
static const char *wait_text(struct engine_lock_wait *wait) {
    static struct sonde_buf text;
    const struct engine_thread waiter = thread(4711, "worker-1", wait);
    const struct engine_backtraces from = {.threads = &waiter, .thread_count = 1};
    struct sonde_arena arena = {0};
    struct rpc_lock_names names;
    CHECK(rpc_lock_names_init(&names, &from, &arena));
    text.len = 0;
    sonde_buf_puts(&text, "");
    rpc_lock_wait_text(&from, 0, &names, &text);
    sonde_arena_finish(&arena);
    return text.data;
}

TEST(a_wait_names_the_lock_and_its_holder) {
    struct engine_lock_wait held = wait_for(4712, "worker-2"), self = wait_for(4711, "worker-1"),
                            elsewhere = wait_for(99, ""), unknown = wait_for(0, ""), read = unknown;
    elsewhere.is_owner_elsewhere = true;
    read.kind = SONDE_WAIT_RWLOCK;
    read.readers = 2;
    unknown.function = "";
    CHECK_STR(wait_text(&held),
              "waits for mutex 0x1000 locked in shop::take(int), held by 4712 worker-2");
    CHECK_STR(wait_text(&self),
              "waits for mutex 0x1000 locked in shop::take(int), which it holds itself");
    CHECK_STR(wait_text(&elsewhere),
              "waits for mutex 0x1000 locked in shop::take(int), held by 99 of another process");
    CHECK_STR(wait_text(&read),
              "waits for read-write lock 0x1000 locked in shop::take(int), held by 2 readers");
    CHECK_STR(wait_text(&unknown), "waits for mutex 0x1000");
}

TEST(a_lock_in_a_variable_has_its_name) {
    struct engine_lock_wait wait = wait_for(0, "");
    wait.name = "shop::orders";
    CHECK_STR(wait_text(&wait), "waits for mutex shop::orders (0x1000)");
    wait.name_offset = 40;
    CHECK_STR(wait_text(&wait), "waits for mutex shop::orders+0x28 (0x1000)");
}

TEST(a_thread_that_waits_for_work_has_no_sentence) {
    static const enum sonde_wait_kind kinds[] = {SONDE_WAIT_FUTEX, SONDE_WAIT_CONDITION,
                                                 SONDE_WAIT_SEMAPHORE};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct engine_lock_wait wait = wait_for(0, "");
        wait.kind = kinds[i];
        CHECK_STR(wait_text(&wait), "");
    }
    CHECK_STR(wait_text(NULL), "");
}

TEST(names_of_the_process_stay_in_one_line) {
    struct engine_lock_wait wait = wait_for(4712, "odd\n\x1b[2J\xff");
    wait.function = "two\nlines";
    const char *text = wait_text(&wait);
    CHECK(!strchr(text, '\n') && !strchr(text, '\x1b') && !strchr(text, '\xff'));
}

TEST(functions_have_readable_names_of_bounded_length) {
    char long_name[5000];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    struct engine_lock_wait waits[] = {wait_for(0, ""), wait_for(0, "")};
    waits[0].function = "shop::take(std::__cxx11::basic_string<char, std::char_traits<char>, "
                        "std::allocator<char> > const&)";
    waits[1].function = long_name;
    const struct engine_thread threads[] = {thread(1, "a", &waits[0]), thread(2, "b", &waits[1]),
                                            thread(3, "c", NULL)};
    const struct engine_backtraces from = {.threads = threads, .thread_count = 3};
    struct sonde_arena arena = {0};
    struct rpc_lock_names names;
    CHECK(rpc_lock_names_init(&names, &from, &arena));
    CHECK_STR(names.functions[0], "shop::take(...)");
    CHECK(strlen(names.functions[1]) <= 300);
    CHECK_STR(names.functions[2], "");
    sonde_arena_finish(&arena);
}

/* A circle of `count` threads. Valid until the next call. */
static const char *deadlock_text(uint32_t count) {
    static struct engine_lock_wait waits[MANY];
    static struct engine_thread threads[MANY];
    static uint32_t circle[MANY];
    static struct sonde_buf text;
    for (uint32_t i = 0; i < count; i++) {
        waits[i] = wait_for((pid_t)(1 + (i + 1) % count), "");
        waits[i].address = 0x1000 + 0x100 * i;
        threads[i] = thread((pid_t)(1 + i), "worker", &waits[i]);
        waits[i].function = "take";
        circle[i] = i;
    }
    const struct engine_backtraces from = {.threads = threads, .thread_count = count};
    const struct engine_deadlock deadlock = {circle, count};
    struct sonde_arena arena = {0};
    struct rpc_lock_names names;
    CHECK(rpc_lock_names_init(&names, &from, &arena));
    text.len = 0;
    rpc_deadlock_text(&from, &deadlock, &names, &text);
    sonde_arena_finish(&arena);
    return text.data;
}

TEST(a_deadlock_names_its_threads_and_locks) {
    CHECK_STR(deadlock_text(2), "deadlock: 1 worker → 2 worker → 1 worker; 1 waits for mutex "
                                "0x1000 locked in take, 2 for mutex 0x1100 locked in take");
    CHECK_STR(deadlock_text(1), "deadlock: 1 worker waits for a lock that it holds: mutex 0x1000 "
                                "locked in take");
}

TEST(a_deadlock_of_many_threads_names_some) {
    const char *text = deadlock_text(MANY);
    CHECK(strstr(text, "16 worker → 84 more threads → 1 worker; 1 waits for"));
    CHECK(strlen(text) < 1500);
}

TEST(of_many_deadlocks_some_have_a_line_and_the_others_are_counted) {
    static const struct {
        uint32_t deadlocks, lines;
        const char *last;
    } rows[] = {
        {RPC_MAX_DEADLOCKS, RPC_MAX_DEADLOCKS, "deadlock: 1 a waits for a lock that it holds: "},
        {RPC_MAX_DEADLOCKS + 1, RPC_MAX_DEADLOCKS + 1, "1 more deadlock"},
        {RPC_MAX_DEADLOCKS + 6, RPC_MAX_DEADLOCKS + 1, "6 more deadlocks"},
    };
    struct engine_lock_wait wait = wait_for(1, "a");
    const struct engine_thread waiter = thread(1, "a", &wait);
    static const uint32_t circle[] = {0};
    struct engine_deadlock deadlocks[RPC_MAX_DEADLOCKS + 6];
    struct sonde_arena arena = {0};
    struct rpc_lock_names names;
    for (size_t i = 0; i < sizeof deadlocks / sizeof *deadlocks; i++)
        deadlocks[i] = (struct engine_deadlock){circle, 1};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct engine_backtraces from = {.threads = &waiter,
                                               .thread_count = 1,
                                               .deadlocks = deadlocks,
                                               .deadlock_count = rows[i].deadlocks};
        struct sonde_buf text = {0};
        CHECK(rpc_lock_names_init(&names, &from, &arena));
        CHECK_INT(rpc_deadlock_lines(&from), ==, rows[i].lines);
        rpc_deadlock_line(&from, rows[i].lines - 1, &names, &text);
        CHECK(strncmp(text.data, rows[i].last, strlen(rows[i].last)) == 0);
        sonde_buf_finish(&text);
    }
    sonde_arena_finish(&arena);
}
