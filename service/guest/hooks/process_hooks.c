/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/guest.h"
#include "service/guest/held.h"
#include "service/guest/hooks/hooks.h"
#include "service/guest/libc.h"
#include "service/guest/process/chroot.h"
#include "service/guest/raw.h"

#include <errno.h>
#include <unistd.h>

extern pid_t __fork(void) LIBC_WEAK;

static pid_t (*real_fork)(void);
static int (*real_daemon)(int, int);

__attribute__((constructor(101))) static void find_real(void) {
    real_fork = __fork ? __fork : (pid_t(*)(void))libc_find_next("fork");
    real_daemon = (int (*)(int, int))libc_find_next("daemon");
}

HOOK pid_t fork(void) {
    if (!real_fork)
        find_real();
    pid_t child = real_fork();
    if (child == 0)
        guest_restart_after_fork();
    return child;
}

HOOK int daemon(int keep_directory, int keep_descriptors) {
    if (!real_daemon)
        find_real();
    if (!real_daemon) {
        errno = ENOSYS;
        return -1;
    }
    int result = real_daemon(keep_directory, keep_descriptors);
    if (result == 0)
        guest_restart_after_fork();
    return result;
}

HOOK int chroot(const char *path) {
    if (!held_from_calls()) {
        chroot_prepare();
        guest_connect_now();
    }
    long result = system_call3(SYS_chroot, (long)path, 0, 0);
    if (result == 0)
        return 0;
    errno = (int)-result;
    return -1;
}
