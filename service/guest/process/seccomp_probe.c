/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/seccomp_probe.h"

#include "service/guest/raw.h"

#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* The child runs on our stack while we wait: it calls nothing and returns nowhere. A core limit of
 * one byte means no dump, not even one that is piped away. No signal tells of its end, and only who
 * asks for such children (__WALL) can find it. */
bool trial_kills(long number, long a, long b, long c, long d, long e) {
    struct rlimit no_core = {1, 1};
    int status = 0;
    if (raw_call(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0) != SECCOMP_MODE_FILTER)
        return false;
    long child = raw_call(SYS_clone, CLONE_VM | CLONE_VFORK, 0, 0, 0, 0);
    if (child == 0) {
        raw_call(SYS_prlimit64, 0, RLIMIT_CORE, (long)&no_core, 0, 0);
        raw_call(number, a, b, c, d, e);
        for (;;)
            raw_call3(SYS_exit_group, 0, 0, 0);
    }
    if (child < 0)
        return true;                                                      /* who knows */
    while (raw_call(SYS_wait4, child, (long)&status, __WALL, 0, 0) == -4) /* EINTR */
        continue;
    return WIFSIGNALED(status);
}
