/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/seccomp_probe.h"

#include "service/guest/raw.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* The child shares our memory and runs on our stack while we wait (CLONE_VFORK), so it makes raw
 * system calls only and never returns. A core limit of one byte suppresses the core dump, even one
 * that the kernel would pipe to a program. The child sends no SIGCHLD when it exits; only waitpid
 * with __WALL reaps it. */
bool seccomp_probe_kills(const struct seccomp_probe_call *calls, size_t count) {
    struct rlimit no_core = {1, 1};
    int status = 0;
    if (system_call(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0) != SECCOMP_MODE_FILTER)
        return false;
    long child = system_call(SYS_clone, CLONE_VM | CLONE_VFORK, 0, 0, 0, 0);
    if (child == 0) {
        system_call(SYS_prlimit64, 0, RLIMIT_CORE, (long)&no_core, 0, 0);
        for (size_t i = 0; i < count; i++)
            system_call(calls[i].number, calls[i].a, calls[i].b, calls[i].c, calls[i].d,
                        calls[i].e);
        for (;;)
            system_call3(SYS_exit_group, 0, 0, 0);
    }
    if (child < 0)
        return true; /* not known: do not risk it */
    while (system_call(SYS_wait4, child, (long)&status, __WALL, 0, 0) == -EINTR)
        continue;
    return WIFSIGNALED(status);
}
