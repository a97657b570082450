/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots and stops of threads of another process. None of their calls may fail with EINTR or
 * return too early because of them. */
#include "service/unwind/remote/tracee.h"
#include "tests/unit/check.h"
#include "tests/unit/unwind/waits.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct waits *waits;
static pid_t child;
static int task_dir = -1;
static struct tracer tracer;
static char stack[128 << 10];

static void pause_ms(long ms) {
    struct timespec moment = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&moment, NULL);
}

static void begin(void) {
    char path[32];
    waits = mmap(NULL, sizeof *waits, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    waits->semaphore = semget(IPC_PRIVATE, 1, 0600);
    child = fork();
    if (child == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        waits_run(waits);
    }
    setpgid(child, child);
    snprintf(path, sizeof path, "/proc/%d/task", (int)child);
    task_dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int kind = 0; kind < WAIT_KINDS; kind++)
        while (waits->of[kind].tid == 0)
            pause_ms(1);
    pause_ms(50);
    struct tracee_snapshot snapshot;
    if (tracee_take_snapshot(task_dir, waits->of[WAIT_POLL].tid, &snapshot) == TRACEE_REFUSED)
        check_skip("this machine does not allow ptrace");
}

static void end(void) {
    kill(-child, SIGKILL);
    semctl(waits->semaphore, 0, IPC_RMID);
    waitpid(child, NULL, 0);
    close(task_dir);
    munmap(waits, sizeof *waits);
}

static void check_undisturbed(void) {
    for (int kind = 0; kind < WAIT_KINDS; kind++) {
        if (waits->of[kind].interrupted || waits->of[kind].early)
            check_fail(__FILE__, __LINE__, "kind %d: %lu interrupted, %lu early of %lu", kind,
                       (unsigned long)waits->of[kind].interrupted,
                       (unsigned long)waits->of[kind].early, (unsigned long)waits->of[kind].rounds);
    }
    CHECK_INT(waits->of[WAIT_IN_TURNS].rounds, >, 10);
}

/* A thread that waits with a timeout may be between two waits, for long if the machine is busy. */
static void snapshot_wait(pid_t tid, struct tracee_snapshot *snapshot) {
    enum tracee_state state = tracee_take_snapshot(task_dir, tid, snapshot);
    for (int i = 0; i < 2000 && state != TRACEE_BLOCKED; i++) {
        pause_ms(1);
        state = tracee_take_snapshot(task_dir, tid, snapshot);
    }
    CHECK_INT(state, ==, TRACEE_BLOCKED);
}

TEST(snapshots_show_where_a_thread_waits_and_whether_it_ran) {
    struct tracee_snapshot first, second;
    begin();
    pid_t tid = waits->of[WAIT_CONDITION].tid;
    snapshot_wait(tid, &first);
    CHECK_INT(tracee_take_snapshot(task_dir, tid, &second), ==, TRACEE_BLOCKED);
    CHECK_INT(first.call, ==, 202); /* futex */
    CHECK(first.sp != 0 && first.pc != 0);
    CHECK(tracee_did_not_run(&first, &second));
    tid = waits->of[WAIT_EPOLL_TIMED].tid;
    snapshot_wait(tid, &first);
    pause_ms(400);
    snapshot_wait(tid, &second);
    CHECK(!tracee_did_not_run(&first, &second)); /* the same call, but a later one */
    CHECK_INT(tracee_take_snapshot(task_dir, 1 << 30, &first), ==, TRACEE_GONE);
    end();
}

/* Stops a thread if it runs or may be stopped, as the engine does. */
static unsigned disturb(pid_t tid) {
    struct tracee_snapshot snapshot;
    struct tracee_stop stop;
    enum tracee_state state = tracee_take_snapshot(task_dir, tid, &snapshot);
    if (state == TRACEE_BLOCKED && !tracee_may_stop(child, &snapshot))
        return 0;
    if (tracee_stop(&tracer, task_dir, tid, stack, sizeof stack, &stop) != TRACEE_BLOCKED)
        return 0;
    CHECK_INT(stop.registers.known, ==, (1u << UNWIND_REGISTERS) - 1);
    CHECK_INT(stop.stack_bytes, >, 0);
    CHECK_INT(stop.stack_at + 128, ==, stop.registers.value[UNWIND_REG_SP]);
    CHECK_INT(stop.stop_ns, >, 0);
    return 1;
}

TEST(threads_that_are_stopped_see_no_eintr) {
    unsigned stops[WAIT_KINDS] = {0};
    begin();
    for (int round = 0; round < 150; round++) {
        for (int kind = 0; kind < WAIT_KINDS; kind++)
            stops[kind] += disturb(waits->of[kind].tid);
        pause_ms(7);
    }
    check_undisturbed();
    CHECK_INT(waits->of[WAIT_EPOLL_TIMED].rounds, >, 0);
    CHECK_INT(stops[WAIT_BUSY], >, 100);
    CHECK_INT(stops[WAIT_POLL], >, 100);
    CHECK_INT(stops[WAIT_EPOLL_ENDLESS], >, 100);
    CHECK_INT(stops[WAIT_NANOSLEEP], >, 100);
    CHECK_INT(stops[WAIT_RECV], >, 100);
    CHECK_INT(stops[WAIT_PIPE], >, 100);
    CHECK_INT(stops[WAIT_FOR_CHILD], >, 100);
    CHECK_INT(stops[WAIT_RECV_TIMED], <, 20); /* only if it happened to run */
    CHECK_INT(stops[WAIT_SIGNAL], <, 20);
    end();
}

TEST(a_thread_that_alternates_between_work_and_short_waits_sees_no_eintr) {
    struct tracee_stop stop;
    unsigned stops = 0;
    begin();
    /* Stops it anywhere, also just after it began to wait. */
    for (int round = 0; round < 3000; round++) {
        struct tracee_snapshot snapshot;
        if (tracee_take_snapshot(task_dir, waits->of[WAIT_IN_TURNS].tid, &snapshot) ==
            TRACEE_RUNNING)
            stops += tracee_stop(&tracer, task_dir, waits->of[WAIT_IN_TURNS].tid, stack,
                                 sizeof stack, &stop) == TRACEE_BLOCKED;
        if (round % 16 == 0)
            pause_ms(1);
    }
    printf("%u stops\n", stops);
    check_undisturbed();
    end();
}

TEST(a_stopped_process_stays_stopped) {
    struct tracee_snapshot snapshot;
    struct tracee_stop stop;
    int status;
    begin();
    kill(child, SIGSTOP);
    CHECK_INT(waitpid(child, &status, WUNTRACED), ==, child);
    pid_t tid = waits->of[WAIT_BUSY].tid;
    CHECK_INT(tracee_take_snapshot(task_dir, tid, &snapshot), ==, TRACEE_BLOCKED);
    CHECK_INT(tracee_stop(&tracer, task_dir, tid, stack, sizeof stack, &stop), ==, TRACEE_BLOCKED);
    CHECK_INT(stop.registers.value[UNWIND_REG_SP], ==, snapshot.sp);
    uint64_t rounds = waits->of[WAIT_BUSY].rounds;
    pause_ms(50);
    CHECK_INT(waits->of[WAIT_BUSY].rounds, ==, rounds);
    kill(child, SIGCONT);
    for (int i = 0; i < 5000 && waits->of[WAIT_BUSY].rounds == rounds; i++)
        pause_ms(1);
    CHECK_INT(waits->of[WAIT_BUSY].rounds, >, rounds);
    end();
}

TEST(a_signal_that_comes_with_the_stop_is_not_lost) {
    struct tracee_stop stop;
    int status;
    begin();
    for (int i = 0; i < 100; i++) /* a stop alone does not end it */
        tracee_stop(&tracer, task_dir, waits->of[WAIT_BUSY].tid, stack, sizeof stack, &stop);
    kill(child, SIGTERM);
    tracee_stop(&tracer, task_dir, waits->of[WAIT_BUSY].tid, stack, sizeof stack, &stop);
    CHECK_INT(waitpid(child, &status, 0), ==, child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    end();
}

TEST(a_thread_with_another_tracer_is_refused) {
    struct tracee_stop stop;
    begin();
    pid_t rival = fork();
    if (rival == 0) {
        while (ptrace(PTRACE_SEIZE, waits->of[WAIT_POLL].tid, 0, 0) != 0)
            pause_ms(1);
        for (;;)
            pause();
    }
    enum tracee_state state = TRACEE_BLOCKED;
    for (int i = 0; i < 1000 && state == TRACEE_BLOCKED; i++, pause_ms(1))
        state =
            tracee_stop(&tracer, task_dir, waits->of[WAIT_POLL].tid, stack, sizeof stack, &stop);
    CHECK_INT(state, ==, TRACEE_REFUSED);
    CHECK_INT(stop.tracer, ==, rival);
    kill(rival, SIGKILL);
    waitpid(rival, NULL, 0);
    end();
}

TEST(a_user_without_permission_is_refused) {
    struct tracee_snapshot snapshot;
    struct tracee_stop stop;
    int status;
    if (getuid() != 0)
        check_skip("only root can become another user");
    begin();
    pid_t other = fork();
    if (other == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0)
            _exit(9);
        pid_t tid = waits->of[WAIT_POLL].tid;
        bool refused =
            tracee_take_snapshot(task_dir, tid, &snapshot) == TRACEE_REFUSED &&
            tracee_stop(&tracer, task_dir, tid, stack, sizeof stack, &stop) == TRACEE_REFUSED;
        _exit(refused ? 0 : 1);
    }
    CHECK_INT(waitpid(other, &status, 0), ==, other);
    CHECK_INT(WEXITSTATUS(status), ==, 0);
    end();
}

TEST(a_thread_that_has_ended_is_gone) {
    struct tracee_snapshot snapshot;
    struct tracee_stop stop;
    begin();
    kill(-child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK_INT(tracee_take_snapshot(task_dir, waits->of[WAIT_POLL].tid, &snapshot), ==, TRACEE_GONE);
    CHECK_INT(tracee_stop(&tracer, task_dir, waits->of[WAIT_POLL].tid, stack, sizeof stack, &stop),
              ==, TRACEE_GONE);
    end();
}
