/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/signal/chain.h"

#include "service/guest/raw.h"

#include <stddef.h>

#define READ_TRIES 100000u

struct chain chains[CHAIN_COUNT];

/* The kernel's struct sigaction, which glibc does not export. */
struct kernel_action {
    uint64_t handler, flags, restorer, mask;
};

struct chain_action chain_read(struct chain *chain) {
    struct chain_action action = {0, 0, 0};
    for (uint32_t tries = 0; tries < READ_TRIES; tries++) {
        uint32_t before = atomic_load_explicit(&chain->sequence, memory_order_acquire);
        action.handler = atomic_load_explicit(&chain->handler, memory_order_acquire);
        action.flags = atomic_load_explicit(&chain->flags, memory_order_acquire);
        action.mask = atomic_load_explicit(&chain->mask, memory_order_acquire);
        if (!(before & 1) && before == atomic_load_explicit(&chain->sequence, memory_order_acquire))
            break;
        system_pause();
    }
    return action;
}

void chain_write(struct chain *chain, const struct chain_action *action) {
    atomic_fetch_add_explicit(&chain->sequence, 1, memory_order_acq_rel);
    atomic_store_explicit(&chain->handler, action->handler, memory_order_release);
    atomic_store_explicit(&chain->flags, action->flags, memory_order_release);
    atomic_store_explicit(&chain->mask, action->mask, memory_order_release);
    atomic_fetch_add_explicit(&chain->sequence, 1, memory_order_acq_rel);
}

/* Takes the default action as the kernel would have: with the signal's own siginfo, at the
 * interrupted instruction, since the signal is masked until this handler returns. */
static void act_by_default(int signal, siginfo_t *info) {
    struct kernel_action fatal = {.handler = (uint64_t)SIG_DFL};
    system_call(SYS_rt_sigaction, signal, (long)&fatal, 0, 8, 0);
    system_call(SYS_rt_tgsigqueueinfo, handler_state.pid, raw_gettid(), signal, (long)info, 0);
}

static void call(const struct chain_action *action, int signal, siginfo_t *info, void *context) {
    const ucontext_t *interrupted = context;
    uint64_t mask = *(const uint64_t *)&interrupted->uc_sigmask | action->mask, all;
    if (!(action->flags & SA_NODEFER))
        mask |= 1ull << (signal - 1);
    system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, (long)&all, 8, 0);
    if (action->flags & SA_SIGINFO)
        ((void (*)(int, siginfo_t *, void *))action->handler)(signal, info, context);
    else
        ((void (*)(int))action->handler)(signal);
    system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, 0, 8, 0);
}

static void reset_once(struct chain *chain) {
    struct chain_action by_default = {(uint64_t)SIG_DFL, 0, 0};
    chain_write(chain, &by_default);
}

void chain_pass_on(struct chain *chain, int signal, siginfo_t *info, void *context) {
    struct chain_action action = chain_read(chain);
    /* The kernel kills a process that ignores a signal which it forces, such as a breakpoint's. */
    bool is_forced = info->si_code > 0;
    if (action.handler == (uint64_t)SIG_DFL || (action.handler == (uint64_t)SIG_IGN && is_forced)) {
        act_by_default(signal, info);
        return;
    }
    if (action.handler == (uint64_t)SIG_IGN)
        return;
    if (action.flags & SA_RESETHAND)
        reset_once(chain);
    call(&action, signal, info, context);
}
