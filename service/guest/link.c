/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/link.h"

#include "service/guest/libc.h"
#include "service/guest/process/fds.h"
#include "service/guest/process/peer.h"
#include "service/guest/raw.h"

#include <errno.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define HEAD 4u /* bytes before each frame: its length */

static struct fds_file connection = FDS_NONE;
static uint8_t input[HEAD + LINK_FRAME_BYTES], output[HEAD + LINK_FRAME_BYTES];
static size_t input_len;
static int descriptors[LINK_DESCRIPTORS]; /* received, not handed over yet, in order */
static uint32_t descriptor_count;
static link_out out_message;
static link_in in_message;

int link_fd(void) {
    return connection.fd;
}

void link_close(void) {
    fds_close(&connection);
    input_len = 0;
    for (uint32_t i = 0; i < descriptor_count; i++)
        raw_close(descriptors[i]);
    descriptor_count = 0;
}

bool link_lost(void) {
    if (!fds_ours(&connection))
        link_close();
    return connection.fd < 0;
}

int link_open(const char *path, uint32_t *uid) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    *uid = UINT32_MAX;
    if (len == 0 || len >= sizeof address.sun_path)
        return ENAMETOOLONG;
    memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    connection = fds_keep(fd);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (path[0] != '@'));
    int error = connect(connection.fd, (struct sockaddr *)&address, size) == 0 ? 0 : errno;
    if (!error && !peer_may_serve(connection.fd, uid))
        error = EPERM;
    if (error)
        link_close();
    return error;
}

link_out *link_message(void) {
    memset(&out_message, 0, sizeof out_message);
    return &out_message;
}

/* One sendmsg. The descriptor travels with the first byte. */
static ssize_t send_part(const uint8_t *data, size_t len, int fd) {
    struct iovec part = {(void *)data, len};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    return sendmsg(connection.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static bool send_all(const uint8_t *data, size_t len, int fd) {
    while (len > 0) {
        ssize_t sent = send_part(data, len, fd);
        if (sent > 0) {
            data += sent;
            len -= (size_t)sent;
            fd = -1;
            continue;
        }
        struct pollfd wait = {connection.fd, POLLOUT, 0};
        if ((errno != EAGAIN && errno != EINTR) || poll(&wait, 1, LINK_PATIENCE_MS) <= 0)
            return false;
    }
    return true;
}

bool link_send(int fd) {
    if (link_lost())
        return false;
    pb_ostream_t stream = pb_ostream_from_buffer(output + HEAD, LINK_FRAME_BYTES);
    if (!pb_encode(&stream, sonde_guest_v1_FromGuest_fields, &out_message))
        return false;
    uint32_t len = (uint32_t)stream.bytes_written;
    memcpy(output, &len, HEAD);
    if (send_all(output, HEAD + len, fd))
        return true;
    link_close();
    return false;
}

/* A peer that sends more descriptors than fit is broken: false, and the surplus is closed. */
static bool keep_descriptors(struct msghdr *message) {
    bool fits = !(message->msg_flags & MSG_CTRUNC);
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
            if (descriptor_count < LINK_DESCRIPTORS) {
                descriptors[descriptor_count++] = fd;
                continue;
            }
            raw_close(fd);
            fits = false;
        }
    }
    return fits;
}

static int take_descriptor(void) {
    if (descriptor_count == 0)
        return -1;
    int fd = descriptors[0];
    memmove(descriptors, descriptors + 1, --descriptor_count * sizeof *descriptors);
    return fd;
}

/* Handles the message at the start of the input. Returns its length, 0 when it is incomplete, -1
 * when it is invalid. */
static long take_message(link_on_message *on_message) {
    uint32_t len;
    if (input_len < HEAD)
        return 0;
    memcpy(&len, input, HEAD);
    if (len == 0 || len > LINK_FRAME_BYTES)
        return -1;
    if (input_len < HEAD + len)
        return 0;
    pb_istream_t stream = pb_istream_from_buffer(input + HEAD, len);
    memset(&in_message, 0, sizeof in_message);
    if (!pb_decode(&stream, sonde_guest_v1_ToGuest_fields, &in_message))
        return -1;
    input_len -= HEAD + len;
    memmove(input, input + HEAD + len, input_len);
    bool has_descriptor = in_message.which_message == sonde_guest_v1_ToGuest_table_tag;
    on_message(&in_message, has_descriptor ? take_descriptor() : -1);
    return HEAD + len;
}

static bool take_messages(link_on_message *on_message) {
    long taken = 1;
    while (taken > 0 && connection.fd >= 0)
        taken = take_message(on_message);
    return taken == 0 && connection.fd >= 0;
}

bool link_receive(link_on_message *on_message) {
    while (!link_lost()) {
        struct iovec part = {input + input_len, sizeof input - input_len};
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))];
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof control};
        ssize_t got = recvmsg(connection.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (got <= 0)
            break;
        input_len += (size_t)got;
        if (!keep_descriptors(&message) || !take_messages(on_message))
            break;
    }
    link_close();
    return false;
}
