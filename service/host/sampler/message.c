/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/sampler/message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union descriptors {
    char bytes[CMSG_SPACE(sizeof(int) * SAMPLER_MAX_FDS)];
    struct cmsghdr align;
};

void message_send(int socket, const struct sampler_reply *reply, const int *fds) {
    union descriptors control = {0};
    struct iovec body = {.iov_base = (void *)reply, .iov_len = sizeof *reply};
    struct msghdr message = {.msg_iov = &body, .msg_iovlen = 1};
    size_t bytes = sizeof(int) * reply->fd_count;
    if (reply->fd_count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(header), fds, bytes);
    }
    (void)sendmsg(socket, &message, MSG_NOSIGNAL);
    for (uint32_t i = 0; i < reply->fd_count; i++)
        close(fds[i]);
}

static uint32_t take_descriptors(struct msghdr *message, int fds[SAMPLER_MAX_FDS]) {
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
        return 0;
    uint32_t count = (uint32_t)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(fds, CMSG_DATA(header), count * sizeof(int));
    return count;
}

int message_receive(int socket, struct sampler_reply *reply, int fds[SAMPLER_MAX_FDS], int flags) {
    union descriptors control;
    struct iovec body = {.iov_base = reply, .iov_len = sizeof *reply};
    struct msghdr message = {.msg_iov = &body,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t len = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return -EAGAIN;
    if (len <= 0)
        return -EPIPE;
    uint32_t got = take_descriptors(&message, fds);
    if (len == sizeof *reply && reply->fd_count == got && (got == 0 || reply->error == 0))
        return 0;
    /* We have no room for more descriptors, or the program is not ours. */
    for (uint32_t i = 0; i < got; i++)
        close(fds[i]);
    *reply = (struct sampler_reply){.sequence = reply->sequence, .error = -EMFILE};
    return len == sizeof *reply ? 0 : -EPIPE;
}
