/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls after which our signals would harm the calling thread (held.h): an alternate signal stack
 * that is too small for them, and a seccomp filter. The clock stops before the call, and runs again
 * if the call fails or a larger stack is set. Before a filter for all threads, the guest ends: its
 * own thread would get the filter, too.
 *
 * libseccomp and others install filters with `syscall`. */
#include "service/guest/guest.h"
#include "service/guest/held.h"
#include "service/guest/hooks/hooks.h"
#include "service/guest/libc.h"
#include "service/guest/process/seccomp_program.h"
#include "service/guest/raw.h"
#include "service/guest/sampling/stack_room.h"
#include "service/guest/sampling/thread_scan.h"
#include "service/guest/signal/handler_state.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>

typedef long libc_call(long number, ...);

static libc_call *real_syscall;

__attribute__((constructor(101))) static void find_real(void) {
    real_syscall = (libc_call *)libc_find_next("syscall");
}

static long with_errno(long result) {
    if (result >= 0)
        return result;
    errno = (int)-result;
    return -1;
}

/* ---- Alternate signal stacks ---- */

/* A hold that was in vain, because the call failed, ends like one that is over. */
static long set_stack(const stack_t *stack, stack_t *old) {
    bool is_small =
        stack && !(stack->ss_flags & SS_DISABLE) && stack->ss_size < stack_room_needed();
    bool was_held = held_own & HOLD_STACK;
    bool is_change =
        stack && is_small != was_held && !held_from_calls() && handler_is_own_process();
    if (is_change && is_small)
        threads_hold(HOLD_STACK);
    long result = system_call3(SYS_sigaltstack, (long)stack, (long)old, 0);
    if (is_change && is_small == (result < 0))
        threads_release(HOLD_STACK);
    return result;
}

HOOK int sigaltstack(const stack_t *stack, stack_t *old) {
    return (int)with_errno(set_stack(stack, old));
}

/* ---- Filters ---- */

struct filter_call {
    bool is_one;                      /* a call that installs a filter */
    bool is_strict;                   /* strict mode; otherwise a program */
    bool for_all;                     /* for all threads */
    const struct sock_fprog *program; /* the caller's, perhaps not readable */

    /* What begin_filter has done. */
    bool has_left; /* the guest was running and has ended */
    bool is_held;  /* for all: the guest is off; otherwise this thread has `reason` */
    unsigned reason;
};

static struct filter_call from_prctl(long option, long mode, long program) {
    return (struct filter_call){.is_one = option == PR_SET_SECCOMP,
                                .is_strict = mode != SECCOMP_MODE_FILTER,
                                .program = (const struct sock_fprog *)program};
}

static struct filter_call from_seccomp(long operation, long flags, long program) {
    bool is_filter = operation == SECCOMP_SET_MODE_FILTER;
    return (struct filter_call){.is_one = is_filter || operation == SECCOMP_SET_MODE_STRICT,
                                .is_strict = !is_filter,
                                .for_all = is_filter && (flags & SECCOMP_FILTER_FLAG_TSYNC),
                                .program = (const struct sock_fprog *)program};
}

/* Whether the filter may kill for a call of the guest. Before a capture, the control thread tries
 * perf_event_open (clock.c). */
static bool harms(const struct filter_call *call) {
    bool with_perf = !call->for_all || atomic_load(&handler_state.sampling);
    return call->is_strict || seccomp_program_harms(call->program, with_perf);
}

/* Does nothing for a thread that makes no calls for us any more, and in the child of a vfork, whose
 * memory and clocks are the parent's. */
static void begin_filter(struct filter_call *call) {
    if (!call->is_one || held_from_calls() || !handler_is_own_process())
        return;
    bool is_harmful = harms(call);
    if (call->for_all) {
        call->is_held = is_harmful;
        call->has_left = is_harmful && guest_leave();
        return;
    }
    call->reason = (is_harmful ? HOLD_FILTER : FILTER_IS_HARMLESS) & ~held_own;
    call->is_held = call->reason != 0;
    if (call->is_held)
        threads_hold(call->reason);
}

static void end_filter(const struct filter_call *call, bool is_installed) {
    if (!call->is_held || is_installed)
        return;
    int saved = errno;
    if (call->for_all)
        guest_come_back(call->has_left);
    else
        threads_release(call->reason);
    errno = saved;
}

HOOK int prctl(int option, ...) {
    va_list list;
    va_start(list, option);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long),
         d = va_arg(list, long);
    va_end(list);
    struct filter_call filter = from_prctl(option, a, b);
    begin_filter(&filter);
    long result = with_errno(system_call(SYS_prctl, option, a, b, c, d));
    end_filter(&filter, result == 0);
    return (int)result;
}

HOOK long syscall(long number, ...) {
    va_list list;
    va_start(list, number);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long),
         d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
    va_end(list);
    if (!real_syscall)
        find_real();
    if (number == SYS_sigaltstack)
        return with_errno(set_stack((const stack_t *)a, (stack_t *)b));
    struct filter_call filter = {.is_one = false};
    if (number == SYS_seccomp)
        filter = from_seccomp(a, b, c);
    else if (number == SYS_prctl)
        filter = from_prctl(a, b, c);
    begin_filter(&filter);
    long result = real_syscall(number, a, b, c, d, e, f);
    end_filter(&filter, result == 0);
    return result;
}
