/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/run/without_guest.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Opens the clock that samples a process of this user from outside. Returns 0 or an errno. */
static int try_perf(void) {
    struct perf_event_attr clock = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof clock,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = 10000000,
        .disabled = 1,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    long fd = syscall(SYS_perf_event_open, &clock, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return errno;
    close((int)fd);
    return 0;
}

void without_guest_explain(sonde_err obstacle, const char *reason, bool is_recorded) {
    int os_error = try_perf();
    if (obstacle != SONDE_NOT_AVAILABLE)
        fprintf(stderr, "sonde run: the command is not profiled: %s\n", reason);
    else if (os_error)
        fprintf(stderr,
                "sonde run: the command is not profiled: the kernel refuses perf events (%s, "
                "see `sonde doctor`), and %s\n",
                strerror(os_error), reason);
    else
        fprintf(stderr,
                "sonde run: profiles from outside only, no heap profiles and labels%s: %s\n",
                is_recorded ? ", no profiles in the history" : "", reason);
}
