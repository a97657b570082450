/* SPDX-License-Identifier: Apache-2.0
 *
 * The connection to one guest: frames and descriptors in both directions, without blocking. If a
 * guest breaks the protocol, or reads too slowly for the bounded queue, its link is marked broken,
 * and the loop detaches the target at the end of the event. */
#include "service/engine/guest/guest_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES   65536
#define MAX_OUTGOING (2 * SPACE_MAX_MAPPINGS)
#define MAX_READS    64  /* per event, so that one guest does not delay the others */
#define MAX_WRITES   256 /* likewise */

static void drop_first(struct guest_link *link) {
    struct outgoing *frame = link->first;
    link->first = frame->next;
    if (!link->first)
        link->last = &link->first;
    link->outgoing_count--;
    if (frame->fd >= 0)
        close(frame->fd);
    free(frame);
}

void link_close(struct target *target) {
    struct guest_link *link = target->guest;
    while (link->first)
        drop_first(link);
    frames_finish(&link->frames);
    if (link->fd < 0)
        return;
    close(link->fd); /* also removes it from epoll */
    link->fd = -1;
    target->engine->link_count--;
}

static void watch_writable(struct target *target, bool wanted) {
    struct guest_link *link = target->guest;
    if (link->is_writing == wanted)
        return;
    struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = target};
    if (epoll_ctl(target->engine->epoll_fd, EPOLL_CTL_MOD, link->fd, &event) != 0)
        link->is_broken = true;
    link->is_writing = wanted;
}

/* The descriptor is sent with the first byte of its frame. */
static ssize_t send_some(struct guest_link *link, const struct outgoing *frame) {
    struct iovec bytes = {.iov_base = (char *)frame->bytes + frame->sent,
                          .iov_len = frame->len - frame->sent};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {{0}};
    if (frame->fd >= 0 && frame->sent == 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof frame->fd);
        memcpy(CMSG_DATA(header), &frame->fd, sizeof frame->fd);
    }
    return sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void link_write(struct target *target) {
    struct guest_link *link = target->guest;
    if (link->fd < 0)
        return;
    for (int i = 0; link->first && !link->is_broken && i < MAX_WRITES; i++) {
        ssize_t sent = send_some(link, link->first);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == ETOOMANYREFS))
            break;
        if (sent < 0) {
            link->is_broken = true;
            break;
        }
        link->first->sent += (size_t)sent;
        if (link->first->sent == link->first->len)
            drop_first(link);
    }
    if (!link->is_broken)
        watch_writable(target, link->first != NULL);
}

static struct outgoing *make_frame(const struct guest_link *link, const frames_to_guest *message) {
    if (link->fd < 0 || link->is_broken || link->outgoing_count >= MAX_OUTGOING)
        return NULL;
    struct outgoing *frame = calloc(1, sizeof *frame);
    if (!frame)
        return NULL;
    frame->len = frames_encode(message, frame->bytes);
    if (frame->len == 0) {
        free(frame);
        return NULL;
    }
    return frame;
}

void link_send(struct target *target, const frames_to_guest *message, int fd) {
    struct guest_link *link = target->guest;
    struct outgoing *frame = make_frame(link, message);
    if (!frame) {
        if (fd >= 0)
            close(fd);
        link->is_broken = true;
        target_wake_now(target);
        return;
    }
    frame->fd = fd;
    *link->last = frame;
    link->last = &frame->next;
    link->outgoing_count++;
    link_write(target);
}

void link_refuse(struct target *target, const char *reason) {
    frames_to_guest message = sonde_guest_v1_ToGuest_init_zero;
    message.which_message = sonde_guest_v1_ToGuest_refusal_tag;
    size_t len = strnlen(reason, sizeof message.message.refusal.reason - 1);
    memcpy(message.message.refusal.reason, reason, len);
    link_send(target, &message, -1);
    target->guest->is_broken = true;
}

/* Takes every descriptor that arrived, so that all are closed even when the frames are invalid. */
static sonde_err collect_fds(struct guest_link *link, struct msghdr *message) {
    sonde_err err = message->msg_flags & MSG_CTRUNC ? SONDE_PROTOCOL : SONDE_OK;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
            sonde_err added = frames_add_fd(&link->frames, fd);
            err = err ? err : added;
        }
    }
    return err;
}

/* Handles what was read. False when the link is broken or the target's turn is over. */
static bool feed(struct target *target, frames_on_message *on_message, size_t len) {
    struct guest_link *link = target->guest;
    sonde_err err = frames_feed(&link->frames, target->engine->scratch, len, on_message, target);
    if (err)
        link->is_broken = true;
    return !link->is_broken && !link->frames.is_paused;
}

/* False when there is nothing left to read, the link is broken or the target's turn is over. */
static bool read_once(struct target *target, frames_on_message *on_message) {
    struct guest_link *link = target->guest;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(8 * sizeof(int))];
    } control;
    struct iovec bytes = {.iov_base = target->engine->scratch, .iov_len = READ_BYTES};
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got = recvmsg(link->fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0)
        link->is_broken = errno != EAGAIN && errno != EINTR;
    if (got == 0)
        link->is_broken = true;
    if (got <= 0)
        return false;
    if (collect_fds(link, &message) != SONDE_OK)
        link->is_broken = true;
    return !link->is_broken && feed(target, on_message, (size_t)got);
}

/* What is left is read in a later turn: epoll reports it again, and target_tick looks at is_paused.
 */
void link_read(struct target *target, frames_on_message *on_message) {
    struct guest_link *link = target->guest;
    struct engine *engine = target->engine;
    uint64_t *spent_ns = &engine->user_spent_ns[target->uid % ENGINE_USER_SLOTS];
    uint64_t begin_ns = thread_cpu_ns();
    if (link->frames.is_paused)
        target_wake_now(target);
    if (*spent_ns >= engine->user_ns)
        return;
    link->turn_end_ns = begin_ns + engine->turn_ns;
    bool goes_on = !link->frames.is_paused || feed(target, on_message, 0);
    for (int i = 0; goes_on && i < MAX_READS && link->fd >= 0 && !link->is_broken; i++)
        goes_on = read_once(target, on_message);
    if (link->frames.is_paused)
        target_wake_now(target);
    *spent_ns += thread_cpu_ns() - begin_ns;
}

/* Whether a user other than root and sonded's own has reached the limit of connections. */
static bool is_crowded(const struct engine *engine, uid_t uid) {
    uint32_t count = 0;
    if (uid == 0 || uid == geteuid())
        return false;
    for (const struct target *target = engine->targets; target; target = target->next)
        count += target->guest && target->guest->fd >= 0 && target->uid == uid;
    return count >= ENGINE_MAX_OF_USER;
}

/* False: the connection's process is not known. */
static bool open_link(struct target *target, int fd) {
    struct guest_link *link = target->guest;
    link->fd = fd;
    link->last = &link->first;
    if (!process_identity_of_peer(fd, &target->process))
        return false;
    target->pid = target->process.pid;
    target->uid = target->building.uid = target->reporting.uid = target->process.ids.uids[1];
    return true;
}

struct target *link_create_target(struct engine *engine, int fd) {
    struct target *target = target_create(engine, &guest_source);
    struct guest_link *link = target ? calloc(1, sizeof *link) : NULL;
    if (!link) {
        free(target);
        return NULL;
    }
    target->guest = link;
    bool is_known = open_link(target, fd);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = target};
    if (!is_known || is_crowded(engine, target->uid) ||
        epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        target_release(target);
        return NULL;
    }
    engine->link_count++;
    link->hello_deadline_ns = now_monotonic_ns() + ENGINE_HELLO_NS;
    target->wake_ns = link->hello_deadline_ns;
    target_enlist(target);
    return target;
}

/* Out of descriptors: closes the spare one, so that the guest can be accepted and disconnected
 * rather than left waiting. */
static bool shed(struct engine *engine) {
    if (engine->spare_fd < 0)
        return false;
    close(engine->spare_fd);
    int fd = accept4(engine->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    engine->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0;
}

void link_accept(struct engine *engine) {
    for (int i = 0; i < MAX_READS; i++) {
        int fd = accept4(engine->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE) && shed(engine))
            continue;
        if (fd < 0)
            return;
        struct target *target = link_create_target(engine, fd);
        if (!target)
            close(fd);
    }
}
