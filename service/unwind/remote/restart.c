/* SPDX-License-Identifier: Apache-2.0
 *
 * A stop wakes a blocked thread as a signal does. If no handler ran, the kernel restarts or
 * continues most calls (ERESTARTSYS and similar codes), and the program sees nothing. Other calls
 * always return EINTR. The lists here follow signal(7), section on stop signals, and the kernel's
 * sources. A call in no list is not interrupted. Some calls exist on older machines only. */
#include "service/unwind/remote/restart.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

/* Reads and writes of these kinds of files restart. */
static bool is_restarting_file(pid_t pid, uint64_t fd) {
    static const char *const kinds[] = {"pipe:", "anon_inode:[eventfd]", "anon_inode:[timerfd]"};
    char path[64], target[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, (int)fd);
    ssize_t len = readlink(path, target, sizeof target - 1);
    target[len > 0 ? len : 0] = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(target, kinds[i], strlen(kinds[i])) == 0)
            return true;
    return false;
}

/* Calls on a socket restart if it has no timeout, which a copy of the descriptor shows. */
static bool is_restarting_socket(pid_t pid, uint64_t fd) {
    bool restarts = false;
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    int copy = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, (int)fd, 0);
    struct timeval receive, send;
    socklen_t len = sizeof receive, send_len = sizeof send;
    if (copy >= 0 && getsockopt(copy, SOL_SOCKET, SO_RCVTIMEO, &receive, &len) == 0 &&
        getsockopt(copy, SOL_SOCKET, SO_SNDTIMEO, &send, &send_len) == 0)
        restarts = !receive.tv_sec && !receive.tv_usec && !send.tv_sec && !send.tv_usec;
    if (copy >= 0)
        close(copy);
    if (process >= 0)
        close(process);
    return restarts;
}

bool restart_is_transparent(pid_t pid, const struct tracee_snapshot *snapshot) {
    switch (snapshot->call) {
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_restart_syscall:
#ifdef SYS_poll
    case SYS_poll:
#endif
    case SYS_ppoll:
#ifdef SYS_select
    case SYS_select:
#endif
    case SYS_pselect6:
    case SYS_futex:
    case SYS_wait4:
    case SYS_waitid:
#ifdef SYS_pause
    case SYS_pause:
#endif
    case SYS_rt_sigsuspend:
    case SYS_flock:
        return true;
    case SYS_read:
    case SYS_write:
    case SYS_readv:
    case SYS_writev:
        return is_restarting_file(pid, snapshot->arguments[0]) ||
               is_restarting_socket(pid, snapshot->arguments[0]);
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_accept:
    case SYS_accept4:
        return is_restarting_socket(pid, snapshot->arguments[0]);
    default:
        return false;
    }
}

bool restart_has_no_timeout(const struct tracee_snapshot *snapshot) {
    if (!TRACE_CAN_RESTART)
        return false;
    switch (snapshot->call) {
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
        return (int)snapshot->arguments[3] < 0;
    case SYS_epoll_pwait2:
    case SYS_semtimedop:
    case SYS_rt_sigtimedwait:
        return snapshot->arguments[snapshot->call == SYS_rt_sigtimedwait ? 2 : 3] == 0;
    case SYS_semop:
        return true;
    default:
        return false;
    }
}

bool restart_was_interrupted(const struct user_regs_struct *registers) {
    if (!trace_returns(registers, -EINTR))
        return false;
    switch (trace_call(registers)) {
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_rt_sigtimedwait:
    case SYS_io_getevents:
    case SYS_io_pgetevents:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_read:
    case SYS_write:
    case SYS_readv:
    case SYS_writev:
        return true;
    default:
        return false;
    }
}
