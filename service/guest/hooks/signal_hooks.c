/* SPDX-License-Identifier: Apache-2.0
 *
 * While our handler is installed for a signal, the application's calls change only what the guest
 * remembers of its action (sampling/install.h). */
#include "service/guest/hooks/hooks.h"
#include "service/guest/libc.h"
#include "service/guest/sampling/install.h"

#include <signal.h>

typedef int set_action(int signal, const struct sigaction *action, struct sigaction *old);
typedef __sighandler_t set_handler_function(int signal, __sighandler_t handler);

extern set_action __sigaction LIBC_WEAK;
extern set_handler_function ssignal LIBC_WEAK, sysv_signal LIBC_WEAK;

static set_action *real_sigaction;
static set_handler_function *real_signal, *real_sysv_signal;

__attribute__((constructor(101))) static void find_real(void) {
    set_handler_function *other = (set_handler_function *)libc_find_next("signal");
    real_sigaction = __sigaction ? __sigaction : (set_action *)libc_find_next("sigaction");
    real_signal = ssignal ? ssignal : other;
    real_sysv_signal = sysv_signal ? sysv_signal : other;
}

HOOK int sigaction(int signal, const struct sigaction *action, struct sigaction *old) {
    if (install_virtual(signal, action, old))
        return 0;
    if (!real_sigaction)
        find_real();
    return real_sigaction(signal, action, old);
}

static __sighandler_t set_handler(int signal, __sighandler_t handler, int flags, bool *done) {
    struct sigaction action = {.sa_flags = flags}, old;
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    if (!(flags & SA_NODEFER) && signal > 0 && signal < NSIG)
        sigaddset(&action.sa_mask, signal);
    *done = install_virtual(signal, &action, &old);
    return *done ? old.sa_handler : SIG_ERR;
}

HOOK __sighandler_t signal(int number, __sighandler_t handler) {
    bool done;
    __sighandler_t old = set_handler(number, handler, SA_RESTART, &done);
    if (!real_signal)
        find_real();
    return done ? old : real_signal(number, handler);
}

/* `signal` in a program compiled for System V or strict X/Open. */
HOOK __sighandler_t __sysv_signal(int number, __sighandler_t handler);
HOOK __sighandler_t __sysv_signal(int number, __sighandler_t handler) {
    bool done;
    __sighandler_t old = set_handler(number, handler, (int)(SA_RESETHAND | SA_NODEFER), &done);
    if (!real_sysv_signal)
        find_real();
    return done ? old : real_sysv_signal(number, handler);
}
