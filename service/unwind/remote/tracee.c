/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/remote/tracee.h"

#include "api/base/clock.h"
#include "service/process/foreign_memory.h"
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
#define SPINS       200 /* polls without a sleep before the first sleep */
#define SLEEP_NS    100000
#define PATIENCE_NS 50000000ll /* then check whether it waits for a device */
#define LONGEST_NS  5000000000ll
#define TICKS       4  /* pending ticks that are dropped for one thread */
#define ATTEMPTS    40 /* 1 ms apart, while another walk of this process traces the thread */
#ifndef TRAP_PERF
#define TRAP_PERF 6
#endif
#define EVENT_STOP(s) ((s) >> 16 == PTRACE_EVENT_STOP)

/* Reads a small file of a thread into text and adds a NUL. Returns its length, or -errno. */
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
static void read_slices(int task_dir, pid_t tid, struct tracee_snapshot *snapshot) {
    char text[96], *at = text;
    if (read_file(task_dir, tid, "schedstat", text, sizeof text) <= 0)
        return;
    snapshot->cpu_ns = strtoull(at, &at, 10);
    snapshot->waited_ns = strtoull(at, &at, 10);
    snapshot->slices = strtoull(at, &at, 10);
}

/* "nr arguments... sp pc", "-1 sp pc", or "running". */
static bool parse_call(char *text, struct tracee_snapshot *snapshot) {
    char *at = text;
    snapshot->call = strtol(text, &at, 10);
    if (at == text)
        return false;
    for (int i = 0; i < 6 && snapshot->call >= 0; i++)
        snapshot->arguments[i] = strtoull(at, &at, 16);
    snapshot->sp = strtoull(at, &at, 16);
    snapshot->pc = strtoull(at, &at, 16);
    return snapshot->pc != 0;
}

enum tracee_state tracee_take_snapshot(int task_dir, pid_t tid, struct tracee_snapshot *snapshot) {
    char text[256];
    *snapshot = (struct tracee_snapshot){.call = -1};
    read_slices(task_dir, tid, snapshot);
    int got = read_file(task_dir, tid, "syscall", text, sizeof text);
    if (got <= 0)
        return got == 0 ? TRACEE_GONE : state_of_error(got);
    return parse_call(text, snapshot) ? TRACEE_BLOCKED : TRACEE_RUNNING;
}

bool tracee_did_not_run(const struct tracee_snapshot *before, const struct tracee_snapshot *after) {
    return before->call == after->call && before->sp == after->sp && before->pc == after->pc &&
           before->slices == after->slices && before->cpu_ns == after->cpu_ns;
}

bool tracee_may_stop(pid_t pid, const struct tracee_snapshot *snapshot) {
    return restart_is_transparent(pid, snapshot) || restart_has_no_timeout(snapshot);
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

/* Whether a signal is about to be handled: the call fails with EINTR because of it, not of us. */
static bool has_signal(int task_dir, pid_t tid) {
    char status[4096];
    if (read_file(task_dir, tid, "status", status, sizeof status) <= 0)
        return true;
    uint64_t pending =
        status_field(status, "\nSigPnd:", 16) | status_field(status, "\nShdPnd:", 16);
    return pending & ~status_field(status, "\nSigBlk:", 16);
}

/* Whether such a signal was sent to this thread, as ticks are, and not to its process. */
static bool has_own_signal(int task_dir, pid_t tid) {
    char status[4096];
    return read_file(task_dir, tid, "status", status, sizeof status) > 0 &&
           status_field(status, "\nSigPnd:", 16) & ~status_field(status, "\nSigBlk:", 16);
}

/* Two walks of this process may meet at a thread; then the tracer is one of its own threads. */
static bool is_ours(pid_t tracer) {
    char path[48];
    snprintf(path, sizeof path, "/proc/self/task/%d", (int)tracer);
    return access(path, F_OK) == 0;
}

/* Whether the thread still belongs to the process of task_dir. While we trace it, nobody else gets
 * its tid. */
static bool belongs(int task_dir, pid_t tid) {
    char name[16];
    snprintf(name, sizeof name, "%d", (int)tid);
    return faccessat(task_dir, name, F_OK, 0) == 0;
}

static enum tracee_state seize(int task_dir, pid_t tid, struct tracee_stop *stop) {
    for (int i = 0; i < ATTEMPTS; i++) {
        if (ptrace(PTRACE_SEIZE, tid, 0, 0) == 0)
            return belongs(task_dir, tid) ? TRACEE_BLOCKED : TRACEE_GONE;
        if (errno != EPERM)
            return TRACEE_GONE;
        stop->tracer = tracer_of(task_dir, tid);
        if (stop->tracer ? !is_ours(stop->tracer) : i > 2) /* 0: it may have detached just now */
            return TRACEE_REFUSED;
        pause_ns(1000000);
    }
    return TRACEE_REFUSED;
}

/* "tid (name) D ...": the thread waits for a device and does not stop. */
static bool waits_for_device(int task_dir, pid_t tid) {
    char text[256];
    if (read_file(task_dir, tid, "stat", text, sizeof text) <= 0)
        return true;
    const char *state = strrchr(text, ')');
    return state && state[1] && state[2] == 'D';
}

/* Returns the wait status of the stop; 0 = not stopped in time, -1 = the thread is gone. */
static int wait_for_stop(int task_dir, pid_t tid, int64_t begin) {
    int64_t patience = PATIENCE_NS;
    for (int i = 0;; i++) {
        int status;
        pid_t got = waitpid(tid, &status, __WALL | WNOHANG);
        if (got == tid)
            return WIFSTOPPED(status) ? status : -1;
        if (got < 0 && errno != EINTR)
            return -1;
        int64_t waited = clock_ns(CLOCK_MONOTONIC) - begin;
        if (waited > LONGEST_NS || (waited > patience && waits_for_device(task_dir, tid)))
            return 0;
        patience = waited > patience ? waited + PATIENCE_NS : patience;
        if (i >= SPINS)
            pause_ns(SLEEP_NS);
    }
}

static void detach(pid_t tid, int status) {
    /* If it stopped for a signal, that signal must not be lost. */
    ptrace(PTRACE_DETACH, tid, 0, EVENT_STOP(status) ? 0 : WSTOPSIG(status));
}

static bool is_tick(pid_t tid, int status) {
    siginfo_t info;
    return !EVENT_STOP(status) && WSTOPSIG(status) == SIGTRAP &&
           ptrace(PTRACE_GETSIGINFO, tid, 0, &info) == 0 && info.si_code == TRAP_PERF;
}

static void add_pending(struct tracer *tracer, pid_t tid) {
    tracer->pending[tracer->pending_count++] = tid; /* (tracee_stop has checked for room) */
}

/* Detaches a thread in a call so that the call continues: drops its pending ticks first. */
static void detach_in_call(struct tracer *tracer, int task_dir, pid_t tid) {
    for (int i = 0; i < TICKS && has_own_signal(task_dir, tid); i++) {
        if (ptrace(PTRACE_CONT, tid, 0, 0) != 0)
            return;
        int status = wait_for_stop(task_dir, tid, clock_ns(CLOCK_MONOTONIC));
        if (status == 0 && ptrace(PTRACE_INTERRUPT, tid, 0, 0) == 0)
            add_pending(tracer, tid);
        if (status <= 0)
            return;
        if (!is_tick(tid, status)) {
            detach(tid, status);
            return;
        }
    }
    ptrace(PTRACE_DETACH, tid, 0, 0);
}

void tracer_collect(struct tracer *tracer) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < tracer->pending_count; i++) {
        pid_t tid = tracer->pending[i];
        int status;
        pid_t got = waitpid(tid, &status, __WALL | WNOHANG);
        if (got == 0)
            tracer->pending[kept++] = tid;
        else if (got == tid && WIFSTOPPED(status))
            detach(tid, status);
    }
    tracer->pending_count = kept;
}

/* Copies registers and stack of a stopped thread. False: it was killed meanwhile. */
static bool copy(int task_dir, pid_t tid, bool by_us, void *stack, size_t size,
                 struct tracee_stop *stop, bool *in_call) {
    struct user_regs_struct registers;
    struct iovec from = {&registers, sizeof registers};
    *in_call = false;
    if (ptrace(PTRACE_GETREGSET, tid, 1 /* NT_PRSTATUS */, &from) != 0)
        return false;
    trace_take_registers(&stop->registers, &registers);
    stop->stack_at = stop->registers.value[UNWIND_REG_SP] - RED_ZONE;
    stop->stack_bytes = foreign_memory_read(tid, stop->stack_at, stack, size);
    *in_call = by_us && trace_is_restarted(&registers);
    if (by_us && restart_was_interrupted(&registers) && !has_signal(task_dir, tid)) {
        trace_restart(&registers);
        ptrace(PTRACE_SETREGSET, tid, 1, &from);
    }
    return true;
}

enum tracee_state tracee_stop(struct tracer *tracer, int task_dir, pid_t tid, void *stack,
                              size_t size, struct tracee_stop *stop) {
    *stop = (struct tracee_stop){0};
    tracer_collect(tracer);
    if (tracer->pending_count == TRACER_PENDING)
        return TRACEE_REFUSED;
    enum tracee_state state = seize(task_dir, tid, stop);
    if (state != TRACEE_BLOCKED)
        return state;
    int64_t begin = clock_ns(CLOCK_MONOTONIC);
    if (ptrace(PTRACE_INTERRUPT, tid, 0, 0) != 0)
        return TRACEE_GONE;
    int status = wait_for_stop(task_dir, tid, begin);
    if (status == 0)
        add_pending(tracer, tid);
    if (status <= 0)
        return status < 0 ? TRACEE_GONE : TRACEE_REFUSED;
    bool in_call;
    bool copied = copy(task_dir, tid, EVENT_STOP(status), stack, size, stop, &in_call);
    if (in_call)
        detach_in_call(tracer, task_dir, tid);
    else
        detach(tid, status);
    stop->stop_ns = (uint64_t)(clock_ns(CLOCK_MONOTONIC) - begin);
    return copied ? TRACEE_BLOCKED : TRACEE_GONE;
}
