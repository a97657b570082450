/* SPDX-License-Identifier: Apache-2.0 */
#include "service/process/foreign_memory.h"

#include "api/base/clock.h"
#include "service/locks.h"
#include "service/process/live_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIECE_BYTES 32768u
#define OWN_SOCKET  3
#define ALARM_S     2u /* ends a reader whose read can be ended */

struct request {
    pid_t pid;
    uint32_t len;
    uint64_t address; /* or the offset, with a descriptor */
};

/* --- messages --------------------------------------------------------------------------------- */

union descriptor {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

static bool send_with(int socket, const void *bytes, size_t len, int fd) {
    union descriptor control = {0};
    struct iovec body = {(void *)(uintptr_t)bytes, len};
    struct msghdr message = {.msg_iov = &body, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)len;
}

/* *fd: the descriptor that came with the message; -1 = none. */
static ssize_t receive_with(int socket, void *bytes, size_t len, int *fd) {
    union descriptor control;
    struct iovec body = {bytes, len};
    struct msghdr message = {.msg_iov = &body,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got;
    *fd = -1;
    do
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    struct cmsghdr *header = got >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(header), sizeof *fd);
    return got;
}

/* --- the reader and the keeper: forked, so they call nothing that takes a lock ---------------- */

static ssize_t read_now(const struct request *request, int fd, void *bytes) {
    size_t len = request->len < PIECE_BYTES ? request->len : PIECE_BYTES;
    struct iovec local = {bytes, len}, remote = {(void *)request->address, len};
    return fd >= 0 ? pread(fd, bytes, len, (off_t)request->address)
                   : process_vm_readv(request->pid, &local, 1, &remote, 1, 0);
}

static void run_reader(int socket) {
    static char first, bytes[PIECE_BYTES];
    struct request request;
    int fd;
    signal(SIGALRM, SIG_DFL);
    while (receive_with(socket, &request, sizeof request, &fd) == sizeof request) {
        alarm(ALARM_S);
        ssize_t got = read_now(&request, fd, bytes);
        alarm(0);
        if (fd >= 0)
            close(fd);
        /* A first byte, because an empty message would look like the end. */
        struct iovec parts[] = {{&first, 1}, {bytes, got > 0 ? (size_t)got : 0}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        if (sendmsg(socket, &message, MSG_NOSIGNAL) < 0)
            return;
    }
}

/* Leaves the process no descriptor but `socket`, as OWN_SOCKET. */
static bool keep_only(int socket) {
    int null = open("/dev/null", O_RDWR);
    bool good = null >= 0;
    for (int fd = 0; fd <= 2; fd++)
        good = good && dup2(null, fd) >= 0;
    good = good && (socket == OWN_SOCKET || dup2(socket, OWN_SOCKET) >= 0);
    return good && close_range(OWN_SOCKET + 1, ~0u, 0) == 0;
}

static void run_keeper(int socket) {
    char byte;
    int fd;
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGCHLD, 0};
    sigset_t none;
    for (const int *at = ignored; *at; at++) /* SIGCHLD: its children leave no zombies */
        signal(*at, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_NAME, "sonde-memory");
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    pid_t self = getpid();
    if (!keep_only(socket) || send(OWN_SOCKET, &self, sizeof self, MSG_NOSIGNAL) != sizeof self)
        return;
    while (receive_with(OWN_SOCKET, &byte, sizeof byte, &fd) > 0) {
        pid_t reader = fd >= 0 ? fork() : -1;
        if (reader == 0) {
            close(OWN_SOCKET);
            run_reader(fd);
            _exit(0);
        }
        if (fd >= 0)
            close(fd);
    }
}

/* --- this process ----------------------------------------------------------------------------- */

enum slot_state { SLOT_FREE = 0, SLOT_IDLE, SLOT_BUSY, SLOT_LEFT };

struct slot {
    enum slot_state state;
    int socket;
    uid_t uid; /* BUSY and LEFT: whose memory it reads */
};

static struct {
    struct lock lock;
    int keeper; /* the socket to it; -1 = none */
    pid_t keeper_pid;
    struct slot slots[FOREIGN_MEMORY_READERS];
} readers;

__attribute__((constructor)) static void init(void) {
    lock_init(&readers.lock, LOCK_FOREIGN_MEMORY);
    readers.keeper = -1;
}

static void start_keeper(void) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return;
    pid_t keeper = fork();
    if (keeper == 0) {
        pid_t second = fork(); /* its parent is not this process, which need not wait for it */
        if (second == 0)
            run_keeper(pair[1]);
        _exit(0);
    }
    close(pair[1]);
    int status;
    while (keeper > 0 && waitpid(keeper, &status, 0) < 0 && errno == EINTR)
        continue;
    if (keeper > 0 && recv(pair[0], &readers.keeper_pid, sizeof readers.keeper_pid, 0) > 0)
        readers.keeper = pair[0];
    else
        close(pair[0]);
}

void foreign_memory_start(void) {
    lock_take(&readers.lock);
    if (readers.keeper < 0)
        start_keeper();
    lock_drop(&readers.lock);
}

/* Has the keeper fork a reader. Returns the socket to it, or -1. */
static int start_reader(void) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    bool good = readers.keeper >= 0 && send_with(readers.keeper, "", 1, pair[1]);
    if (!good) { /* it was not started, or was killed */
        if (readers.keeper >= 0)
            close(readers.keeper);
        readers.keeper = -1;
        start_keeper();
        good = readers.keeper >= 0 && send_with(readers.keeper, "", 1, pair[1]);
    }
    close(pair[1]);
    if (!good)
        close(pair[0]);
    return good ? pair[0] : -1;
}

/* Frees the slots of readers that were left behind and have ended. */
static void collect_ended(void) {
    for (uint32_t i = 0; i < FOREIGN_MEMORY_READERS; i++) {
        struct slot *slot = &readers.slots[i];
        struct pollfd end = {.fd = slot->socket};
        if (slot->state != SLOT_LEFT || poll(&end, 1, 0) <= 0 || !(end.revents & POLLHUP))
            continue;
        close(slot->socket);
        slot->state = SLOT_FREE;
    }
}

static bool is_refused(uid_t uid) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < FOREIGN_MEMORY_READERS; i++) {
        const struct slot *slot = &readers.slots[i];
        if (slot->state == SLOT_LEFT && slot->uid == uid)
            return true;
        count += slot->state == SLOT_BUSY && slot->uid == uid;
    }
    return uid != 0 && uid != getuid() && count >= FOREIGN_MEMORY_OF_USER;
}

/* A reader for the user's memory. NULL: there is none to spare. */
static struct slot *take_reader(uid_t uid) {
    struct slot *found = NULL;
    lock_take(&readers.lock);
    collect_ended();
    bool refused = is_refused(uid);
    for (uint32_t i = 0; i < FOREIGN_MEMORY_READERS && !refused; i++) {
        struct slot *slot = &readers.slots[i];
        if (slot->state == SLOT_IDLE || (slot->state == SLOT_FREE && !found))
            found = slot;
        if (slot->state == SLOT_IDLE)
            break;
    }
    if (found && found->state == SLOT_FREE && (found->socket = start_reader()) < 0)
        found = NULL;
    if (found) {
        found->state = SLOT_BUSY;
        found->uid = uid;
    }
    lock_drop(&readers.lock);
    return found;
}

static void return_reader(struct slot *slot, enum slot_state state) {
    lock_take(&readers.lock);
    if (state == SLOT_FREE)
        close(slot->socket);
    if (state == SLOT_LEFT)
        (void)shutdown(slot->socket, SHUT_RD); /* its answer will fail, so it ends */
    slot->state = state;
    lock_drop(&readers.lock);
}

/* True when the reader answers or has ended. */
static bool await(int socket) {
    int64_t until_ms = clock_ms(CLOCK_MONOTONIC) + FOREIGN_MEMORY_MS;
    for (;;) {
        struct pollfd answer = {.fd = socket, .events = POLLIN};
        int64_t left_ms = until_ms - clock_ms(CLOCK_MONOTONIC);
        if (left_ms <= 0)
            return false;
        if (poll(&answer, 1, (int)left_ms) > 0)
            return true;
    }
}

/* One request. Returns the number of bytes, 0 = none. */
static size_t exchange(uid_t uid, const struct request *request, int fd, void *bytes) {
    struct slot *slot = take_reader(uid);
    char first;
    if (!slot)
        return 0;
    if (!send_with(slot->socket, request, sizeof *request, fd)) {
        return_reader(slot, SLOT_FREE);
        return 0;
    }
    if (!await(slot->socket)) {
        return_reader(slot, SLOT_LEFT);
        return 0;
    }
    struct iovec parts[] = {{&first, 1}, {bytes, request->len}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t got = recvmsg(slot->socket, &message, 0);
    return_reader(slot, got > 0 ? SLOT_IDLE : SLOT_FREE);
    return got > 1 ? (size_t)got - 1 : 0;
}

/* The real user of the process; the owner of /proc/PID is root if it is not dumpable. */
static uid_t user_of(pid_t pid) {
    char path[64], status[1024];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, status, sizeof status - 1) : -1;
    if (fd >= 0)
        close(fd);
    status[len > 0 ? len : 0] = 0;
    const char *line = strstr(status, "\nUid:");
    return line ? (uid_t)strtoul(line + strlen("\nUid:"), NULL, 10) : (uid_t)-1;
}

static size_t read_pieces(int fd, pid_t pid, uint64_t address, void *bytes, size_t len) {
    size_t done = 0;
    uid_t uid = user_of(pid);
    while (done < len) {
        size_t piece = len - done < PIECE_BYTES ? len - done : PIECE_BYTES;
        struct request request = {.pid = pid, .len = (uint32_t)piece, .address = address + done};
        size_t got = exchange(uid, &request, fd, (char *)bytes + done);
        done += got;
        if (got < piece)
            break;
    }
    return done;
}

size_t foreign_memory_read(pid_t pid, uint64_t address, void *bytes, size_t len) {
    size_t done = read_pieces(-1, pid, address, bytes, len);
    pid_t live = done > 0 || len == 0 ? pid : process_live_thread(pid);
    return live == pid ? done : read_pieces(-1, live, address, bytes, len);
}

size_t foreign_memory_read_file(int fd, pid_t pid, uint64_t offset, void *bytes, size_t len) {
    return fd < 0 ? 0 : read_pieces(fd, pid, offset, bytes, len);
}

static size_t read_command(pid_t pid, pid_t tid, void *bytes, size_t len) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/cmdline", (int)pid, (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t got = foreign_memory_read_file(fd, pid, 0, bytes, len);
    if (fd >= 0)
        close(fd);
    return got;
}

size_t foreign_memory_command(pid_t pid, void *bytes, size_t len) {
    size_t got = read_command(pid, pid, bytes, len);
    pid_t live = got > 0 ? pid : process_live_thread(pid);
    return live == pid ? got : read_command(pid, live, bytes, len);
}

uint32_t foreign_memory_stuck(void) {
    uint32_t count = 0;
    lock_take(&readers.lock);
    collect_ended();
    for (uint32_t i = 0; i < FOREIGN_MEMORY_READERS; i++)
        count += readers.slots[i].state == SLOT_LEFT;
    lock_drop(&readers.lock);
    return count;
}

pid_t foreign_memory_group(void) {
    lock_take(&readers.lock);
    pid_t group = readers.keeper >= 0 ? readers.keeper_pid : 0;
    lock_drop(&readers.lock);
    return group;
}
