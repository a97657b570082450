/* SPDX-License-Identifier: Apache-2.0
 *
 * close, closefrom, close_range: a host that closes whatever it finds open does not find what is
 * ours (fds.h). To close one of our numbers is an error, as it would be without us; ranges go
 * around them. */
#include "service/guest/process/fds.h"
#include "service/guest/raw.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

extern int __close(int fd);

EXPORT int close(int fd) {
    if (!fds_marked(fd))
        return __close(fd); /* a cancellation point, as it should be */
    errno = EBADF;
    return -1;
}

/* 0 or an errno. Every piece is tried, whatever became of the one before. */
static long close_around_ours(unsigned first, unsigned last, int flags) {
    long error = 0;
    uint64_t ours;
    for (uint64_t from = first; from <= last; from = ours + 1) {
        ours = fds_next(from, last);
        long result =
            ours > from ? raw_call3(SYS_close_range, (long)from, (long)ours - 1, flags) : 0;
        error = result < 0 ? -result : error;
    }
    return error;
}

EXPORT int close_range(unsigned first, unsigned last, int flags) {
    long error = first > last ? EINVAL : close_around_ours(first, last, flags);
    if (error)
        errno = (int)error;
    return error ? -1 : 0;
}

EXPORT void closefrom(int first) {
    unsigned from = first < 0 ? 0 : (unsigned)first;
    struct rlimit limit = {0, 0};
    if (close_around_ours(from, ~0u, 0) != ENOSYS)
        return;
    getrlimit(RLIMIT_NOFILE, &limit);
    for (; from < limit.rlim_cur; from++)
        if (!fds_marked((int)from))
            raw_close((int)from);
}
