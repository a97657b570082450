/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/run/supervise.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUICK_MS        2000 /* a helper that exits sooner than this after its start is failing */
#define MAX_QUICK_EXITS 5
#define FIRST_DELAY_MS  100
#define MAX_DELAY_MS    5000
#define STOP_TIMEOUT_MS 7000

/* The signals that `sonde run` forwards to the command. Job control signals are not among them:
 * Ctrl-Z stops both. */
static void add_forwarded_signals(sigset_t *set) {
    static const int signals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
                                  SIGUSR2, SIGALRM, SIGPWR,  SIGWINCH};
    sigemptyset(set);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaddset(set, signals[i]);
    for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
        sigaddset(set, i);
}

sonde_err supervisor_init(struct supervisor *supervisor, struct sonde_diag *diag) {
    sigset_t taken;
    add_forwarded_signals(&taken);
    sigaddset(&taken, SIGCHLD);
    sigprocmask(SIG_BLOCK, &taken, &supervisor->mask);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, &supervisor->pipe_action);
    supervisor->signals = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    return supervisor->signals < 0 ? sonde_fail_os(diag, errno, "cannot create a signalfd")
                                   : SONDE_OK;
}

/* Forwards signals that processes have sent, but not those from the terminal, which sends them to
 * the command as well. */
static void forward_signal(struct supervisor *supervisor, const struct signalfd_siginfo *info) {
    int number = (int)info->ssi_signo;
    if (supervisor->command == 0) {
        if (number != SIGWINCH && number != SIGCHLD)
            supervisor->stopped_by = number;
    } else if (info->ssi_code != SI_KERNEL) {
        kill(supervisor->command, number);
    }
}

static void read_signals(struct supervisor *supervisor) {
    struct signalfd_siginfo info;
    while (read(supervisor->signals, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGCHLD)
            forward_signal(supervisor, &info);
}

static void reap_command(struct supervisor *supervisor) {
    int status;
    if (supervisor->command == 0 ||
        waitpid(supervisor->command, &status, WNOHANG) != supervisor->command)
        return;
    supervisor->command = 0;
    supervisor->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void report_exit(const struct helper *helper, int status, const char *then) {
    if (WIFSIGNALED(status))
        fprintf(stderr, "sonde run: %s was killed by signal %d; %s\n", helper->name,
                WTERMSIG(status), then);
    else
        fprintf(stderr, "sonde run: %s exited with status %d; %s\n", helper->name,
                WEXITSTATUS(status), then);
}

/* Schedules the restart of a helper that has exited, with a delay that grows while it keeps
 * failing. */
static void plan_restart(struct helper *helper, int status) {
    uint64_t now = helper_now_ms();
    helper->quick_exits = now - helper->started_ms < QUICK_MS ? helper->quick_exits + 1 : 0;
    if (helper->quick_exits >= MAX_QUICK_EXITS) {
        report_exit(helper, status, "giving up on it; the command keeps running without profiling");
        helper_print_last_lines(helper);
        return;
    }
    uint64_t delay = (uint64_t)FIRST_DELAY_MS << (2 * helper->quick_exits);
    helper->restart_at_ms = now + (delay < MAX_DELAY_MS ? delay : MAX_DELAY_MS);
    if (helper->quick_exits <= 1)
        report_exit(helper, status, "restarting it");
}

static void reap_helpers(struct supervisor *supervisor) {
    for (size_t i = 0; i < supervisor->helper_count; i++) {
        int status;
        struct helper *helper = supervisor->helpers[i];
        if (helper_reap(helper, &status) && !supervisor->stopping &&
            (helper->ready || supervisor->command))
            plan_restart(helper, status);
    }
}

static void restart_helpers(struct supervisor *supervisor) {
    for (size_t i = 0; i < supervisor->helper_count; i++) {
        struct helper *helper = supervisor->helpers[i];
        struct sonde_diag diag = {0};
        if (helper->pid || !helper->restart_at_ms || helper->restart_at_ms > helper_now_ms())
            continue;
        if (helper_start(helper, &diag) != SONDE_OK)
            helper->restart_at_ms = helper_now_ms() + MAX_DELAY_MS;
    }
}

/* timeout_ms, or the time until the next restart if that is sooner. */
static int next_timeout(const struct supervisor *supervisor, int timeout_ms) {
    uint64_t now = helper_now_ms();
    for (size_t i = 0; i < supervisor->helper_count; i++) {
        const struct helper *helper = supervisor->helpers[i];
        if (helper->pid || !helper->restart_at_ms)
            continue;
        int wait = helper->restart_at_ms > now ? (int)(helper->restart_at_ms - now) : 0;
        if (timeout_ms < 0 || wait < timeout_ms)
            timeout_ms = wait;
    }
    return timeout_ms;
}

void supervisor_step(struct supervisor *supervisor, int timeout_ms) {
    struct pollfd waiting[1 + SUPERVISOR_MAX_HELPERS] = {{supervisor->signals, POLLIN, 0}};
    for (size_t i = 0; i < supervisor->helper_count; i++)
        waiting[1 + i] = (struct pollfd){supervisor->helpers[i]->output, POLLIN, 0};
    poll(waiting, 1 + supervisor->helper_count, next_timeout(supervisor, timeout_ms));
    for (size_t i = 0; i < supervisor->helper_count; i++)
        helper_read(supervisor->helpers[i]);
    read_signals(supervisor);
    reap_command(supervisor);
    reap_helpers(supervisor);
    if (!supervisor->stopping)
        restart_helpers(supervisor);
}

static void stop_helper(struct supervisor *supervisor, struct helper *helper) {
    uint64_t until = helper_now_ms() + STOP_TIMEOUT_MS;
    helper_signal(helper, SIGTERM);
    while (helper->pid && helper_now_ms() < until)
        supervisor_step(supervisor, (int)(until - helper_now_ms()));
    helper_signal(helper, SIGKILL);
    while (helper->pid)
        supervisor_step(supervisor, 100);
}

void supervisor_finish(struct supervisor *supervisor) {
    supervisor->stopping = true;
    for (size_t i = supervisor->helper_count; i-- > 0;)
        stop_helper(supervisor, supervisor->helpers[i]);
    close(supervisor->signals);
    supervisor->signals = -1;
    sigaction(SIGPIPE, &supervisor->pipe_action, NULL);
    sigprocmask(SIG_SETMASK, &supervisor->mask, NULL);
}
