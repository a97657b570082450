/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/remote/tracee.h"

#include "service/unwind/remote/restart.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RED_ZONE    128u
#define SPINS       200 /* looks whether it has stopped, before sleeping between them */
#define SLEEP_NS    100000
#define PATIENCE_NS 50000000ll /* then look whether it is one that does not stop */
#define LONGEST_NS  5000000000ll
#define TICKS       4  /* that are taken out of one thread */
#define RIVALS      40 /* times 1 ms: another walk of ours is at the same thread */
#ifndef TRAP_PERF
#define TRAP_PERF 6
#endif
#define EVENT_STOP(s) ((s) >> 16 == PTRACE_EVENT_STOP)

/* A small file of a thread into text, NUL-terminated. Returns its length or -errno. */
static int read_file(int task_dir, pid_t tid, const char *name, char *text, size_t size) {
    char path[48];
    snprintf(path, sizeof path, "%d/%s", (int)tid, name);
    int fd = openat(task_dir, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t got = read(fd, text, size - 1);
    int err = got < 0 ? -errno : 0;
    close(fd);
    text[got > 0 ? got : 0] = 0;
    return err ? err : (int)got;
}

static enum tracee_state state_of_error(int error) {
    return error == -EPERM || error == -EACCES ? TRACEE_REFUSED : TRACEE_GONE;
}

/* "run_ns wait_ns slices" */
static void read_slices(int task_dir, pid_t tid, struct tracee_glance *glance) {
    char text[96], *at = text;
    if (read_file(task_dir, tid, "schedstat", text, sizeof text) <= 0)
        return;
    glance->cpu_ns = strtoull(at, &at, 10);
    strtoull(at, &at, 10);
    glance->slices = strtoull(at, &at, 10);
}

/* "nr arguments... sp pc", "-1 sp pc", or "running". */
static bool parse_call(char *text, struct tracee_glance *glance) {
    char *at = text;
    glance->call = strtol(text, &at, 10);
    if (at == text)
        return false;
    for (int i = 0; i < 6 && glance->call >= 0; i++)
        glance->arguments[i] = strtoull(at, &at, 16);
    glance->sp = strtoull(at, &at, 16);
    glance->pc = strtoull(at, &at, 16);
    return glance->pc != 0;
}

enum tracee_state tracee_look(int task_dir, pid_t tid, struct tracee_glance *glance) {
    char text[256];
    *glance = (struct tracee_glance){.call = -1};
    read_slices(task_dir, tid, glance);
    int got = read_file(task_dir, tid, "syscall", text, sizeof text);
    if (got <= 0)
        return got == 0 ? TRACEE_GONE : state_of_error(got);
    return parse_call(text, glance) ? TRACEE_BLOCKED : TRACEE_RUNNING;
}

bool tracee_slept(const struct tracee_glance *before, const struct tracee_glance *after) {
    return before->call == after->call && before->sp == after->sp && before->pc == after->pc &&
           before->slices == after->slices && before->cpu_ns == after->cpu_ns;
}

bool tracee_may_stop(pid_t pid, const struct tracee_glance *glance) {
    return restart_is_unseen(pid, glance) || restart_is_endless(glance);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void pause_ns(long ns) {
    struct timespec moment = {0, ns};
    nanosleep(&moment, NULL);
}

/* The number after a word at the start of a line of /proc/TID/status. */
static uint64_t status_field(const char *status, const char *name, int base) {
    const char *line = strstr(status, name);
    return line ? strtoull(line + strlen(name), NULL, base) : 0;
}

static pid_t tracer_of(int task_dir, pid_t tid) {
    char status[4096];
    if (read_file(task_dir, tid, "status", status, sizeof status) <= 0)
        return 0;
    return (pid_t)status_field(status, "\nTracerPid:", 10);
}

/* A signal that is about to be handled: the call's EINTR is its, not ours. */
static bool has_signal(int task_dir, pid_t tid) {
    char status[4096];
    if (read_file(task_dir, tid, "status", status, sizeof status) <= 0)
        return true;
    uint64_t pending =
        status_field(status, "\nSigPnd:", 16) | status_field(status, "\nShdPnd:", 16);
    return pending & ~status_field(status, "\nSigBlk:", 16);
}

/* One sent to this very thread, as ticks are. */
static bool has_own_signal(int task_dir, pid_t tid) {
    char status[4096];
    return read_file(task_dir, tid, "status", status, sizeof status) > 0 &&
           status_field(status, "\nSigPnd:", 16) & ~status_field(status, "\nSigBlk:", 16);
}

/* Two walks of ours may meet at a thread: the tracer then is one of our own threads. */
static bool is_ours(pid_t tracer) {
    char path[48];
    snprintf(path, sizeof path, "/proc/self/task/%d", (int)tracer);
    return access(path, F_OK) == 0;
}

static enum tracee_state seize(int task_dir, pid_t tid, struct tracee_stop *stop) {
    for (int i = 0; i < RIVALS; i++) {
        if (ptrace(PTRACE_SEIZE, tid, 0, 0) == 0)
            return TRACEE_BLOCKED;
        if (errno != EPERM)
            return TRACEE_GONE;
        stop->tracer = tracer_of(task_dir, tid);
        if (stop->tracer ? !is_ours(stop->tracer) : i > 2) /* 0: perhaps it has just let go */
            return TRACEE_REFUSED;
        pause_ns(1000000);
    }
    return TRACEE_REFUSED;
}

/* "tid (name) D ...": it waits for a device. */
static bool is_deep(int task_dir, pid_t tid) {
    char text[256];
    if (read_file(task_dir, tid, "stat", text, sizeof text) <= 0)
        return true;
    const char *state = strrchr(text, ')');
    return state && state[1] && state[2] == 'D';
}

/* The status of its stop; 0 = it did not stop in time, -1 = it is gone. */
static int wait_for_stop(int task_dir, pid_t tid, int64_t begin) {
    int64_t patience = PATIENCE_NS;
    for (int i = 0;; i++) {
        int status;
        pid_t got = waitpid(tid, &status, __WALL | WNOHANG);
        if (got == tid)
            return WIFSTOPPED(status) ? status : -1;
        if (got < 0 && errno != EINTR)
            return -1;
        int64_t waited = now_ns() - begin;
        if (waited > LONGEST_NS || (waited > patience && is_deep(task_dir, tid)))
            return 0;
        patience = waited > patience ? waited + PATIENCE_NS : patience;
        if (i >= SPINS)
            pause_ns(SLEEP_NS);
    }
}

static void let_go(pid_t tid, int status) {
    /* It may have stopped for a signal just then, which it must not lose. */
    ptrace(PTRACE_DETACH, tid, 0, EVENT_STOP(status) ? 0 : WSTOPSIG(status));
}

static bool is_tick(pid_t tid, int status) {
    siginfo_t info;
    return !EVENT_STOP(status) && WSTOPSIG(status) == SIGTRAP &&
           ptrace(PTRACE_GETSIGINFO, tid, 0, &info) == 0 && info.si_code == TRAP_PERF;
}

static void leave(struct tracer *tracer, pid_t tid) {
    tracer->left[tracer->left_count++] = tid; /* (there was room before the stop) */
}

/* Lets a thread in a call go so that the call goes on: ticks that are pending are taken out. */
static void let_go_in_call(struct tracer *tracer, int task_dir, pid_t tid) {
    for (int i = 0; i < TICKS && has_own_signal(task_dir, tid); i++) {
        if (ptrace(PTRACE_CONT, tid, 0, 0) != 0)
            return;
        int status = wait_for_stop(task_dir, tid, now_ns());
        if (status == 0 && ptrace(PTRACE_INTERRUPT, tid, 0, 0) == 0)
            leave(tracer, tid);
        if (status <= 0)
            return;
        if (!is_tick(tid, status)) {
            let_go(tid, status);
            return;
        }
    }
    ptrace(PTRACE_DETACH, tid, 0, 0);
}

void tracer_collect(struct tracer *tracer) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < tracer->left_count; i++) {
        pid_t tid = tracer->left[i];
        int status;
        pid_t got = waitpid(tid, &status, __WALL | WNOHANG);
        if (got == 0)
            tracer->left[kept++] = tid;
        else if (got == tid && WIFSTOPPED(status))
            let_go(tid, status);
    }
    tracer->left_count = kept;
}

/* Registers and stack of a thread that stands still. False: it was killed meanwhile. */
static bool copy(int task_dir, pid_t tid, bool by_us, void *stack, size_t size,
                 struct tracee_stop *stop, bool *in_call) {
    struct user_regs_struct registers;
    struct iovec from = {&registers, sizeof registers};
    *in_call = false;
    if (ptrace(PTRACE_GETREGSET, tid, 1 /* NT_PRSTATUS */, &from) != 0)
        return false;
    unwind_registers_take(&stop->registers, &registers);
    stop->stack_at = registers.rsp - RED_ZONE;
    struct iovec local = {stack, size}, remote = {(void *)stop->stack_at, size};
    ssize_t got = process_vm_readv(tid, &local, 1, &remote, 1, 0);
    stop->stack_bytes = got > 0 ? (size_t)got : 0;
    *in_call = by_us && restart_goes_on(&registers);
    if (by_us && restart_was_interrupted(&registers) && !has_signal(task_dir, tid)) {
        restart_registers(&registers);
        ptrace(PTRACE_SETREGSET, tid, 1, &from);
    }
    return true;
}

enum tracee_state tracee_stop(struct tracer *tracer, int task_dir, pid_t tid, void *stack,
                              size_t size, struct tracee_stop *stop) {
    *stop = (struct tracee_stop){0};
    tracer_collect(tracer);
    if (tracer->left_count == TRACER_LEFT)
        return TRACEE_REFUSED;
    enum tracee_state state = seize(task_dir, tid, stop);
    if (state != TRACEE_BLOCKED)
        return state;
    int64_t begin = now_ns();
    if (ptrace(PTRACE_INTERRUPT, tid, 0, 0) != 0)
        return TRACEE_GONE;
    int status = wait_for_stop(task_dir, tid, begin);
    if (status == 0)
        leave(tracer, tid);
    if (status <= 0)
        return status < 0 ? TRACEE_GONE : TRACEE_REFUSED;
    bool in_call;
    bool copied = copy(task_dir, tid, EVENT_STOP(status), stack, size, stop, &in_call);
    if (in_call)
        let_go_in_call(tracer, task_dir, tid);
    else
        let_go(tid, status);
    stop->stop_ns = (uint64_t)(now_ns() - begin);
    return copied ? TRACEE_BLOCKED : TRACEE_GONE;
}
