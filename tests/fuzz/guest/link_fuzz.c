/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends the guest what a broken or hostile sonded might send: invalid frames and truncated
 * messages, with or without descriptors. The guest must handle the message or close the
 * connection. */
#include "service/guest/link.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int listener = -1;
static char name[64];

static void listen_once(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(name, sizeof name, "@sonde-link-fuzz-%d", (int)getpid());
    memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 8) != 0)
        abort();
}

static void on_message(const link_in *message, int fd) {
    if (fd >= 0)
        close(fd);
    if (message->which_message == sonde_guest_v1_ToGuest_refusal_tag &&
        strnlen(message->message.refusal.reason, sizeof message->message.refusal.reason) ==
            sizeof message->message.refusal.reason)
        abort();
}

/* Sends the bytes, with a descriptor if the input says so. */
static void send_bytes(int fd, const uint8_t *data, size_t size) {
    struct iovec part = {(void *)data, size};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    int null = data[size - 1] & 1 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
    if (null >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &null, sizeof null);
    }
    if (sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        abort();
    if (null >= 0)
        close(null);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (listener < 0)
        listen_once();
    uint32_t uid;
    if (size == 0 || link_open(name, &uid) != 0)
        return 0;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    send_bytes(fd, data, size);
    link_receive(on_message);
    link_close();
    close(fd);
    return 0;
}
