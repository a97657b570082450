/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/run/helper.h"

#include "api/base/clock.h"
#include "clients/cli/run/jemalloc_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STOP_MS 5000
#define LOOK_MS 10 /* how often to look at a process that has no pidfd */

uint64_t helper_now_ms(void) {
    return (uint64_t)clock_ms(CLOCK_MONOTONIC);
}

void helper_add(struct helper *helper, const char *argument) {
    if (helper->argc < HELPER_MAX_ARGUMENTS)
        helper->argv[helper->argc++] = argument;
    helper->argv[helper->argc] = NULL;
}

/* These variables are meant for the command: libraries to load, and jemalloc's settings. */
static void drop_settings(void) {
    unsetenv("LD_PRELOAD");
    unsetenv("LD_AUDIT");
    for (uint32_t i = 0; i < JEMALLOC_VARIABLES; i++)
        unsetenv(jemalloc_variables[i]);
}

/* Its arguments say everything: SONDE_* and the settings file are meant for another program. */
static void drop_sonde_settings(void) {
    for (char **at = environ; *at;) {
        char name[64];
        size_t len = strcspn(*at, "=");
        bool is_ours = strncmp(*at, "SONDE_", 6) == 0 && (*at)[len] && len < sizeof name;
        snprintf(name, sizeof name, "%.*s", (int)len, *at);
        if (!is_ours || unsetenv(name) != 0)
            at++; /* otherwise the next variable is here now */
    }
    setenv("SONDE_CONFIG", "/dev/null", 1);
}

/* Runs in the child. */
static _Noreturn void exec_command(const struct helper *helper, int output, pid_t parent) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (getppid() != parent || null < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 ||
        dup2(output, 2) < 0)
        _exit(127);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, helper->mask, NULL);
    drop_settings();
    if (helper->has_own_settings)
        drop_sonde_settings();
    execv(helper->argv[0], (char *const *)helper->argv);
    dprintf(2, "%s: %s\n", helper->argv[0], strerror(errno));
    _exit(127);
}

sonde_err helper_start(struct helper *helper, struct sonde_diag *diag) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return sonde_fail_os(diag, errno, "cannot create a pipe for %s", helper->name);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        exec_command(helper, ends[1], parent);
    int os_error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return sonde_fail_os(diag, os_error, "cannot start %s", helper->name);
    }
    helper->pid = pid;
    helper->output = ends[0];
    helper->ready = false;
    helper->started_ms = helper_now_ms();
    helper->restart_at_ms = 0;
    helper->line_len = helper->line_count = 0;
    return SONDE_OK;
}

/* What follows "NAME: "; the line itself if it does not begin so. */
static const char *without_name(const struct helper *helper, const char *line) {
    size_t len = strlen(helper->name);
    bool is_named = strncmp(line, helper->name, len) == 0 && strncmp(line + len, ": ", 2) == 0;
    return is_named ? line + len + 2 : line;
}

/* The user asked for --history and does not get one; everything else goes on. */
#define NOTHING_RECORDED "sonded: nothing is recorded: "

static void end_line(struct helper *helper) {
    helper->line[helper->line_len] = 0;
    helper->line_len = 0;
    memcpy(helper->last_lines[helper->line_count++ % HELPER_LAST_LINES], helper->line,
           HELPER_MAX_LINE);
    if (helper->verbose)
        fprintf(stderr, "%s: %s\n", helper->name, without_name(helper, helper->line));
    else if (strncmp(helper->line, NOTHING_RECORDED, strlen(NOTHING_RECORDED)) == 0)
        fprintf(stderr, "%s\n", helper->line);
    helper->on_line(helper->context, helper->line);
}

void helper_read(struct helper *helper) {
    char bytes[4096];
    ssize_t len = -1;
    while (helper->output >= 0 && (len = read(helper->output, bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < len; i++) {
            if (bytes[i] == '\n')
                end_line(helper);
            else if (helper->line_len < HELPER_MAX_LINE - 1)
                helper->line[helper->line_len++] = bytes[i];
        }
    }
    if (len == 0) { /* end of file: all writers have closed the pipe */
        close(helper->output);
        helper->output = -1;
    }
}

bool helper_reap(struct helper *helper, int *status) {
    if (helper->pid == 0 || waitpid(helper->pid, status, WNOHANG) != helper->pid)
        return false;
    helper_read(helper);
    if (helper->output >= 0)
        close(helper->output);
    helper->output = -1;
    helper->pid = 0;
    return true;
}

static const char *line_before_end(const struct helper *helper) {
    return helper->line_count ? helper->last_lines[(helper->line_count - 1) % HELPER_LAST_LINES]
                              : "";
}

const char *helper_last_line(const struct helper *helper) {
    return without_name(helper, line_before_end(helper));
}

bool helper_gave_reason(const struct helper *helper) {
    return helper_last_line(helper) != line_before_end(helper);
}

void helper_print_last_lines(const struct helper *helper) {
    size_t count = helper->line_count < HELPER_LAST_LINES ? helper->line_count : HELPER_LAST_LINES;
    for (size_t i = helper->line_count - count; i < helper->line_count; i++)
        fprintf(stderr, "  %s: %s\n", helper->name,
                without_name(helper, helper->last_lines[i % HELPER_LAST_LINES]));
}

void helper_signal(const struct helper *helper, int signal_number) {
    if (helper->pid > 0)
        kill(helper->pid, signal_number);
}

sonde_err helper_wait_ready(struct helper *helper, int signals, struct sonde_diag *diag) {
    uint64_t now = helper_now_ms(), until = now + HELPER_READY_MS;
    int status;
    for (; !helper->ready && now < until; now = helper_now_ms()) {
        struct pollfd waiting[] = {{helper->output, POLLIN, 0}, {signals, POLLIN, 0}};
        poll(waiting, 2, (int)(until - now));
        if (waiting[1].revents & POLLIN)
            return sonde_fail(diag, SONDE_CANCELLED, "interrupted");
        helper_read(helper);
        if (!helper->ready && helper->output < 0)
            break; /* it has exited */
    }
    if (helper->ready)
        return SONDE_OK;
    bool has_exited = helper_reap(helper, &status);
    if (helper_gave_reason(helper))
        return sonde_fail(diag, SONDE_UNAVAILABLE, "%s cannot start: %.400s", helper->name,
                          helper_last_line(helper));
    return sonde_fail(diag, SONDE_UNAVAILABLE, "%s %s%s%.120s", helper->name,
                      has_exited || helper->output < 0 ? "exited during startup"
                                                       : "did not become ready",
                      helper->line_count ? ": " : "", helper_last_line(helper));
}

static bool ends_within(struct helper *helper, int timeout_ms) {
    int status, fd = helper->pid > 0 ? (int)syscall(SYS_pidfd_open, helper->pid, 0) : -1;
    uint64_t until = helper_now_ms() + (uint64_t)timeout_ms;
    while (helper->pid > 0 && !helper_reap(helper, &status) && helper_now_ms() < until) {
        helper_read(helper); /* so that it does not wait for a full pipe */
        struct pollfd waiting[] = {{fd, POLLIN, 0}, {helper->output, POLLIN, 0}};
        poll(waiting, 2, fd < 0 ? LOOK_MS : timeout_ms);
    }
    if (fd >= 0)
        close(fd);
    return helper->pid == 0;
}

void helper_stop(struct helper *helper) {
    helper_signal(helper, SIGTERM);
    if (ends_within(helper, STOP_MS))
        return;
    helper_signal(helper, SIGKILL);
    (void)ends_within(helper, STOP_MS);
}
