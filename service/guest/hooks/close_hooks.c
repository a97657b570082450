/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that closes every open descriptor must not close the guest's (process/fds.h). Closing
 * one of our numbers fails with EBADF, as it would without the guest; ranges skip them. */
#include "service/guest/hooks/hooks.h"
#include "service/guest/libc.h"
#include "service/guest/process/fds.h"
#include "service/guest/raw.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

extern int __close(int fd) LIBC_WEAK;

HOOK int close(int fd) {
    if (__close && !fds_marked(fd))
        return __close(fd); /* libc's, which is a cancellation point */
    long result = fds_marked(fd) ? -EBADF : raw_close(fd);
    errno = result < 0 ? (int)-result : errno;
    return result < 0 ? -1 : 0;
}

/* 0 or an errno. Closes every piece, even if an earlier one fails. */
static long close_around_ours(unsigned first, unsigned last, int flags) {
    long error = 0;
    uint64_t ours;
    for (uint64_t from = first; from <= last; from = ours + 1) {
        ours = fds_next(from, last);
        long result =
            ours > from ? system_call3(SYS_close_range, (long)from, (long)ours - 1, flags) : 0;
        error = result < 0 ? -result : error;
    }
    return error;
}

HOOK int close_range(unsigned first, unsigned last, int flags) {
    long error = first > last ? EINVAL : close_around_ours(first, last, flags);
    if (error)
        errno = (int)error;
    return error ? -1 : 0;
}

HOOK void closefrom(int first) {
    unsigned from = first < 0 ? 0 : (unsigned)first;
    struct rlimit limit = {0, 0};
    if (close_around_ours(from, ~0u, 0) != ENOSYS)
        return;
    getrlimit(RLIMIT_NOFILE, &limit);
    for (; from < limit.rlim_cur; from++)
        if (!fds_marked((int)from))
            raw_close((int)from);
}
