/* SPDX-License-Identifier: Apache-2.0
 *
 * While our handler is installed for a signal, the application's calls change only what the guest
 * remembers of its action (sampling/install.h). */
#include "service/guest/hooks/hooks.h"
#include "service/guest/sampling/install.h"

#include <signal.h>

extern int __sigaction(int signal, const struct sigaction *action, struct sigaction *old);
extern __sighandler_t ssignal(int signal, __sighandler_t handler);
extern __sighandler_t sysv_signal(int signal, __sighandler_t handler);

HOOK int sigaction(int signal, const struct sigaction *action, struct sigaction *old) {
    if (install_virtual(signal, action, old))
        return 0;
    return __sigaction(signal, action, old);
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
    return done ? old : ssignal(number, handler);
}

/* `signal` in a program compiled for System V or strict X/Open. */
HOOK __sighandler_t __sysv_signal(int number, __sighandler_t handler);
HOOK __sighandler_t __sysv_signal(int number, __sighandler_t handler) {
    bool done;
    __sighandler_t old = set_handler(number, handler, (int)(SA_RESETHAND | SA_NODEFER), &done);
    return done ? old : sysv_signal(number, handler);
}
