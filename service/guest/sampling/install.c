/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/install.h"

#include "service/guest/held.h"
#include "service/guest/libc.h"
#include "service/guest/process/procfs.h"
#include "service/guest/raw.h"
#include "service/guest/signal/tick.h"

#include <errno.h>
#include <string.h>

/* glibc's sigaction, under a name that we do not replace. In musl nothing is sampled. */
extern int __sigaction(int signal, const struct sigaction *action, struct sigaction *old) LIBC_WEAK;

typedef void handler(int, siginfo_t *, void *);

static handler *const handlers[CHAIN_COUNT] = {tick_on_trap, tick_on_timer, tick_on_prof};
static _Atomic int lock;

static int signal_of(enum chain_signal which) {
    return which == CHAIN_TRAP   ? SIGTRAP
           : which == CHAIN_PROF ? SIGPROF
                                 : handler_state.timer_signal;
}

/* Writers are rare and fast. All signals are masked, so that a handler cannot interrupt a writer
 * and wait for it. A thread that a filter may kill for these calls goes without. */
static void lock_actions(uint64_t *old_mask) {
    uint64_t all = ~0ull;
    if (!held_from_calls())
        system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)old_mask, 8, 0);
    while (atomic_exchange(&lock, 1))
        if (!held_from_calls())
            system_call3(SYS_sched_yield, 0, 0, 0);
}

static void unlock_actions(const uint64_t *old_mask) {
    atomic_store(&lock, 0);
    if (!held_from_calls())
        system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)old_mask, 0, 8, 0);
}

static struct chain_action from_libc(const struct sigaction *action) {
    struct chain_action chained = {(uint64_t)action->sa_handler, (uint64_t)action->sa_flags, 0};
    memcpy(&chained.mask, &action->sa_mask, sizeof chained.mask);
    return chained;
}

static void to_libc(const struct chain_action *chained, struct sigaction *action) {
    memset(action, 0, sizeof *action);
    action->sa_handler = (void (*)(int))chained->handler;
    action->sa_flags = (int)chained->flags;
    memcpy(&action->sa_mask, &chained->mask, sizeof chained->mask);
}

int install_timer_signal(void) {
    for (int signal = SIGRTMAX - 1; handler_state.timer_signal == 0 && signal > SIGRTMIN + 1;
         signal--) {
        struct sigaction now;
        if (__sigaction(signal, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            handler_state.timer_signal = signal;
    }
    return handler_state.timer_signal;
}

static int install(enum chain_signal which) {
    struct sigaction ours = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART}, old;
    int signal = signal_of(which);
    ours.sa_sigaction = handlers[which];
    sigfillset(&ours.sa_mask);
    if (__sigaction(signal, NULL, &old) != 0)
        return errno;
    if (old.sa_sigaction == handlers[which])
        return 0;
    if (which == CHAIN_PROF && old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN)
        return EBUSY;
    struct chain_action chained = from_libc(&old);
    chain_write(&chains[which], &chained); /* before our handler can run */
    if (__sigaction(signal, &ours, NULL) != 0)
        return errno;
    atomic_store(&chains[which].ours, true);
    return 0;
}

int install_handler(enum chain_signal which) {
    uint64_t mask;
    lock_actions(&mask);
    int error = install(which);
    unlock_actions(&mask);
    return error;
}

bool install_holds(enum chain_signal which) {
    struct sigaction now;
    return __sigaction(signal_of(which), NULL, &now) == 0 && now.sa_sigaction == handlers[which];
}

struct pending {
    uint64_t mask;
};

static void add_pending(uint32_t tid, void *context) {
    struct pending *pending = context;
    pending->mask |= procfs_task_mask(tid, "SigPnd:") | procfs_task_mask(tid, "ShdPnd:");
}

void install_restore(void) {
    struct pending pending = {0};
    if (!procfs_each_number("/proc/self/task", add_pending, &pending))
        return;
    for (int which = 0; which < CHAIN_COUNT; which++) {
        if (!atomic_load(&chains[which].ours) || !install_holds(which) ||
            pending.mask >> (signal_of(which) - 1) & 1)
            continue;
        uint64_t mask;
        struct sigaction theirs;
        lock_actions(&mask);
        struct chain_action chained = chain_read(&chains[which]);
        to_libc(&chained, &theirs);
        atomic_store(&chains[which].ours, false);
        __sigaction(signal_of(which), &theirs, NULL);
        unlock_actions(&mask);
    }
}

void install_after_fork(void) {
    atomic_store(&lock, 0);
}

static struct chain *chain_of(int signal) {
    for (int which = 0; which < CHAIN_COUNT; which++)
        if (signal_of(which) == signal && atomic_load(&chains[which].ours))
            return &chains[which];
    return NULL;
}

bool install_virtual(int signal, const struct sigaction *action, struct sigaction *old) {
    struct chain *chain = signal > 0 ? chain_of(signal) : NULL;
    if (!chain || (!held_from_calls() && !handler_is_own_process()))
        return false;
    struct chain_action next, before;
    if (action)
        next = from_libc(action);
    uint64_t mask;
    lock_actions(&mask);
    bool ours = atomic_load(&chain->ours);
    if (ours) {
        before = chain_read(chain);
        if (action)
            chain_write(chain, &next);
    }
    unlock_actions(&mask);
    if (ours && old)
        to_libc(&before, old);
    return ours;
}
