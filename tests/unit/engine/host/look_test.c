/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks at threads of a real process that wait for known times in known functions. */
#include "service/engine/host/stream/look.h"

#include "tests/unit/check.h"
#include "tests/unit/engine/collect.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS        1000000ull
#define PERIOD_NS (10 * MS)
#define FUNCTION  1024

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_ns(uint64_t ns) {
    struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    nanosleep(&time, NULL);
}

/* --- The process --------------------------------------------------------------------------------
 */

enum role { SLEEPER, NAPPER, BURNER, ROLES };

struct scene {
    struct place place;
    struct engine *engine;
    struct look *look;
    pid_t pid;
    struct shared {
        _Atomic pid_t tid[ROLES];
        _Atomic bool ends[ROLES];
        _Atomic int wake[2];
        _Atomic uint64_t naps;
    } * shared;
};

static struct shared *shared;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER; /* by the process's first thread */
static bool has_waiter;                                  /* another one waits for it */
static int never[2]; /* a pipe that nobody writes to, until the end of the sleeper */

/* Aligned so that a range of FUNCTION bytes is one function under sanitizers, too. */
__attribute__((noinline, aligned(FUNCTION))) static void sleep_for_ever(void) {
    char letter;
    ssize_t got = read(never[0], &letter, 1);
    (void)got;
    __asm__ volatile("");
}

__attribute__((noinline, aligned(FUNCTION))) static void nap(void) {
    sleep_ns(5 * MS);
    __asm__ volatile("");
}

__attribute__((aligned(FUNCTION))) static void *run_role(void *argument) {
    enum role role = (enum role)(uintptr_t)argument;
    shared->tid[role] = (pid_t)syscall(SYS_gettid);
    while (!shared->ends[role]) {
        if (role == SLEEPER)
            sleep_for_ever();
        else if (role == NAPPER)
            nap();
        shared->naps += role == NAPPER;
    }
    shared->tid[role] = 0;
    return NULL;
}

static void *wait_for_lock(void *unused) {
    pthread_mutex_lock(&held);
    return NULL;
}

static _Noreturn void run_process(void) {
    pthread_t waiter;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (has_waiter &&
        (pthread_mutex_lock(&held) || pthread_create(&waiter, NULL, wait_for_lock, NULL)))
        _exit(1);
    for (uintptr_t role = 0; role < ROLES; role++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run_role, (void *)role))
            _exit(1);
    }
    for (;;)
        pause();
}

static void start(struct scene *scene, bool is_once) {
    memset(scene, 0, sizeof *scene);
    place_make(&scene->place);
    struct engine_options options = {.socket_path = scene->place.socket,
                                     .data_dir = scene->place.data};
    CHECK_INT(engine_create(&options, &scene->engine, NULL), ==, SONDE_OK);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    CHECK_INT(pipe(never), ==, 0);
    scene->shared = shared;
    scene->pid = fork();
    CHECK_INT(scene->pid, >=, 0);
    if (scene->pid == 0)
        run_process();
    for (int role = 0; role < ROLES; role++) {
        while (!shared->tid[role])
            sleep_ns(MS);
    }
    sleep_ns(20 * MS);
    scene->look = look_create(scene->engine, scene->pid, PERIOD_NS, 1);
    CHECK(scene->look);
    scene->look->is_once = is_once;
}

static void finish(struct scene *scene) {
    look_destroy(scene->look);
    kill(scene->pid, SIGKILL);
    waitpid(scene->pid, NULL, 0);
    engine_destroy(scene->engine);
    munmap(scene->shared, 4096);
    close(never[0]);
    close(never[1]);
    place_remove(&scene->place);
}

/* --- Sums ---------------------------------------------------------------------------------------
 */

struct sums {
    uint64_t ns, here_ns, begun, noted_ns[STACK_NOTE_COUNT];
};

static bool is_in(const struct look_wait *wait, const void *function) {
    for (uint32_t i = 0; i < wait->count; i++) {
        if ((wait->pcs[i] & ~UNWIND_REMOTE_EXACT) - (uint64_t)(uintptr_t)function < FUNCTION)
            return true;
    }
    return false;
}

static void add(struct sums *sums, const struct look *look, pid_t tid, const void *function) {
    for (uint32_t i = 0; i < look->wait_count; i++) {
        const struct look_wait *wait = &look->waits[i];
        if (wait->tid != tid)
            continue;
        sums->ns += wait->ns;
        sums->begun += wait->begun;
        if (wait->note >= 0)
            sums->noted_ns[wait->note] += wait->ns;
        else if (is_in(wait, function))
            sums->here_ns += wait->ns;
    }
}

static const void *functions[ROLES] = {(void *)sleep_for_ever, (void *)nap, (void *)run_role};

static void round_of(struct scene *scene, struct sums sums[ROLES], bool is_last) {
    pid_t tids[ROLES];
    for (int role = 0; role < ROLES; role++)
        tids[role] = scene->shared->tid[role];
    look_round(scene->look, is_last);
    for (int role = 0; sums && role < ROLES; role++)
        add(&sums[role], scene->look, tids[role], functions[role]);
}

/* Rounds as they are due, for that long. Returns for how long they were. */
static uint64_t look_for(struct scene *scene, struct sums sums[ROLES], uint64_t ns) {
    uint64_t from_ns = now_ns();
    round_of(scene, sums, false);
    while (now_ns() < from_ns + ns) {
        uint64_t at_ns = now_ns();
        sleep_ns(scene->look->next_ns > at_ns ? scene->look->next_ns - at_ns : MS);
        round_of(scene, sums, false);
    }
    round_of(scene, sums, true);
    return now_ns() - from_ns;
}

/* --- Tests --------------------------------------------------------------------------------------
 */

TEST(blocked_time_is_measured_where_it_is_spent) {
    struct scene scene;
    struct sums sums[ROLES] = {0};
    start(&scene, false);
    uint64_t ns = look_for(&scene, sums, 300 * MS);
    CHECK_NEAR(sums[SLEEPER].here_ns, ns, 0.1 * (double)ns + (double)(20 * MS));
    uint64_t noted_ns = sums[NAPPER].noted_ns[STACK_NOTE_WAITING];
    CHECK_NEAR(sums[NAPPER].here_ns + noted_ns, ns, 0.2 * (double)ns + (double)(20 * MS));
    CHECK_INT(sums[BURNER].here_ns, ==, 0); /* it never blocks */
    CHECK_INT(scene.look->refused, ==, 0);
    finish(&scene);
}

TEST(waits_are_counted_as_they_begin) {
    struct scene scene;
    struct sums sums[ROLES] = {0};
    start(&scene, false);
    round_of(&scene, sums, false);
    uint64_t before = scene.shared->naps;
    look_for(&scene, sums, 300 * MS);
    uint64_t naps = scene.shared->naps - before;
    CHECK_INT(sums[SLEEPER].begun, ==, 1); /* the one that it was in */
    CHECK_INT(sums[NAPPER].begun + 2, >=, naps);
    finish(&scene);
}

TEST(a_thread_that_ends_is_reported_up_to_its_last_look) {
    struct scene scene;
    struct sums sums[ROLES] = {0};
    start(&scene, false);
    round_of(&scene, sums, false);
    sleep_ns(50 * MS);
    round_of(&scene, sums, false);
    scene.shared->ends[NAPPER] = true;
    while (scene.shared->tid[NAPPER])
        sleep_ns(MS);
    sleep_ns(20 * MS);
    uint32_t before = scene.look->thread_count;
    round_of(&scene, sums, true);
    CHECK_INT(scene.look->thread_count, ==, before - 1);
    finish(&scene);
}

TEST(with_bpf_only_threads_that_do_not_run_are_looked_at) {
    struct scene scene;
    struct sums sums[ROLES] = {0};
    start(&scene, true);
    round_of(&scene, sums, false);
    memset(sums, 0, sizeof sums); /* the napper may have been blocked then */
    sleep_ns(20 * MS);
    round_of(&scene, sums, false);
    memset(sums, 0, sizeof sums);
    uint64_t ns = look_for(&scene, sums, 100 * MS);
    CHECK_INT(sums[NAPPER].ns, ==, 0);
    CHECK_INT(sums[BURNER].ns, ==, 0);
    CHECK_INT(sums[SLEEPER].here_ns, >=, (long long)(ns - 40 * MS));
    finish(&scene);
}

TEST(when_all_threads_have_run_no_further_round_is_due) {
    struct scene scene;
    struct sums sums[ROLES] = {0};
    start(&scene, true);
    round_of(&scene, sums, false);
    CHECK_INT(scene.look->next_ns, >, 0);
    kill(scene.pid, SIGKILL);
    waitpid(scene.pid, NULL, 0);
    round_of(&scene, sums, false);
    CHECK(scene.look->is_gone);
    finish(&scene);
}

/* The thread that waits for the mutex has its address, and with locks its owner. */
static void check_waiter(bool wants_locks) {
    struct scene scene;
    uint32_t waits = 0;
    has_waiter = true;
    start(&scene, false);
    has_waiter = false;
    scene.look->wants_locks = wants_locks;
    round_of(&scene, NULL, false);
    sleep_ns(20 * MS);
    round_of(&scene, NULL, true);
    for (uint32_t i = 0; i < scene.look->wait_count; i++) {
        const struct host_futex *futex = &scene.look->waits[i].futex;
        if (futex->address != (uint64_t)(uintptr_t)&held)
            continue;
        CHECK_INT(futex->has_words, ==, wants_locks);
        CHECK_INT(host_futex_mutex_owner(futex), ==, wants_locks ? scene.pid : 0);
        waits++;
    }
    CHECK_INT(waits, ==, 1);
    finish(&scene);
}

TEST(a_thread_in_a_futex_has_its_lock_with_the_owner_if_locks_are_wanted) {
    check_waiter(true);
    check_waiter(false);
}

TEST(there_is_no_look_at_a_process_that_is_gone) {
    struct scene scene;
    start(&scene, false);
    kill(scene.pid, SIGKILL);
    waitpid(scene.pid, NULL, 0);
    look_round(scene.look, true);
    CHECK(scene.look->is_gone);
    CHECK_INT(scene.look->wait_count, ==, 0);
    CHECK(!look_create(scene.engine, scene.pid, PERIOD_NS, 1));
    finish(&scene);
}

TEST(without_permission_time_is_measured_but_no_stack_is_found) {
    struct scene scene;
    struct sums sums[ROLES] = {0};
    if (geteuid() != 0)
        check_skip("only root can become a user who may not look");
    start(&scene, false);
    CHECK_INT(setresuid(-1, 65534, -1), ==, 0);
    round_of(&scene, sums, false);
    sleep_ns(50 * MS);
    round_of(&scene, sums, true);
    CHECK_INT(setresuid(-1, 0, -1), ==, 0);
    CHECK_INT(scene.look->refused, >=, ROLES);
    CHECK_INT(sums[SLEEPER].here_ns, ==, 0);
    CHECK_INT(sums[SLEEPER].noted_ns[STACK_NOTE_ASLEEP], >=, (long long)(45 * MS));
    finish(&scene);
}

/* Beside the BPF program, a look at the beginning is the only one. */
TEST(a_refusal_at_the_beginning_is_remembered) {
    struct scene scene;
    struct sums sums[ROLES] = {0};
    if (geteuid() != 0)
        check_skip("only root can become a user who may not look");
    start(&scene, true);
    CHECK_INT(setresuid(-1, 65534, -1), ==, 0);
    look_begin(scene.look);
    uint32_t refused = scene.look->refused;
    round_of(&scene, sums, true);
    CHECK_INT(setresuid(-1, 0, -1), ==, 0);
    CHECK_INT(refused, >=, ROLES);
    CHECK_INT(scene.look->refused, >=, refused);
    finish(&scene);
}
