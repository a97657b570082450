/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversation of a hostile sonded with the guest's real control thread, which runs in this
 * process: captures start and stop, unwind tables of every kind arrive, heap commands are executed.
 * Input: steps of
 *
 *     kind of descriptor | length, u8 | that many bytes of a ToGuest message
 *
 * After a step with the bit ANSWERED in its first byte, the service waits for what the guest sends.
 * In a Table, a start below 8 stands for the guest's mapping of that number, and a generation or
 * size of 0 for the right one, because the fuzzer cannot guess them. The address of mallctl is
 * removed: by design, the guest calls what its own user's sonded or root's gives it there. */
#include "service/guest/guest.h"
#include "service/guest/link.h"
#include "service/guest/signal/handler_state.h"
#include "service/unwind/table/table_build.h"

#include <errno.h>
#include <fcntl.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_STEPS 16
#define STARTS     8
#define ANSWERED   0x80 /* in a step */
#define ANSWER_MS  5
#define LAST       0xfffffff0u /* sequence of the last command */
#define SEALS      (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define PATIENCE   100000 /* ms; a guest that does nothing for that long hangs */

enum kind { NONE, GOOD, WRONG, UNSEALED, FILE_ON_DISK, DEVICE, FIFO, KINDS };

static struct {
    int listener, fd;
    struct sonde_buf table; /* of this program */
    uint64_t generation, starts[STARTS];
    uint32_t start_count;
    uint8_t input[1 << 16];
    size_t input_len;
    bool is_answered;
} service = {.listener = -1, .fd = -1};

/* ---- What start.c does in the guest ---- */

struct guest guest = {.wake = FDS_NONE};
static int wake_sender = -1;

bool guest_make_wake(void) {
    int ends[2];
    fds_close(&guest.wake);
    if (wake_sender >= 0)
        close(wake_sender);
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return false;
    guest.wake = fds_keep(ends[0]);
    handler_state.wake_fd = wake_sender = ends[1];
    return true;
}

int guest_create_thread(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                        void *argument) {
    return pthread_create(thread, attr, start, argument);
}

static void *control(void *unused) {
    control_run();
    return NULL;
}

/* ---- The service ---- */

static void open_service(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint64_t word = 0; /* a random name, because sandboxes share abstract names but not pids */
    (void)!getrandom(&word, sizeof word, 0);
    int len = snprintf(guest.socket_path, sizeof guest.socket_path, "@sonde-control-fuzz-%llx",
                       (unsigned long long)word);
    memcpy(address.sun_path + 1, guest.socket_path + 1, (size_t)len - 1);
    service.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)len);
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (bind(service.listener, (struct sockaddr *)&address, size) != 0 ||
        listen(service.listener, 8) != 0 ||
        unwind_table_build(self, &service.table, NULL) != SONDE_OK || !guest_make_wake())
        abort();
    close(self);
    strcpy(guest.name, "fuzz");
    handler_state.pid = (uint32_t)getpid();
}

static void note_message(const uint8_t *bytes, size_t len) {
    static sonde_guest_v1_FromGuest message;
    pb_istream_t stream = pb_istream_from_buffer(bytes, len);
    memset(&message, 0, sizeof message);
    if (!pb_decode(&stream, sonde_guest_v1_FromGuest_fields, &message))
        abort(); /* the guest's own frames are good */
    const sonde_guest_v1_Maps *maps = &message.message.maps;
    if (message.which_message == sonde_guest_v1_FromGuest_heap_answer_tag)
        service.is_answered |= message.message.heap_answer.sequence == LAST;
    if (message.which_message != sonde_guest_v1_FromGuest_maps_tag)
        return;
    if (maps->generation != service.generation)
        service.start_count = 0;
    service.generation = maps->generation;
    for (pb_size_t i = 0; i < maps->mappings_count && service.start_count < STARTS; i++)
        service.starts[service.start_count++] = maps->mappings[i].start;
}

static void split(void) {
    uint32_t len;
    while (service.input_len >= sizeof len) {
        memcpy(&len, service.input, sizeof len);
        if (service.input_len < sizeof len + len)
            return;
        note_message(service.input + sizeof len, len);
        service.input_len -= sizeof len + len;
        memmove(service.input, service.input + sizeof len + len, service.input_len);
    }
}

/* Closes the descriptor that came with it, which is the rings. */
static ssize_t read_some(void) {
    struct iovec part = {service.input + service.input_len,
                         sizeof service.input - service.input_len};
    _Alignas(struct cmsghdr) char control_bytes[CMSG_SPACE(sizeof(int))];
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control_bytes,
                            .msg_controllen = sizeof control_bytes};
    ssize_t got = recvmsg(service.fd, &header, MSG_CMSG_CLOEXEC);
    struct cmsghdr *rights = got > 0 ? CMSG_FIRSTHDR(&header) : NULL;
    if (rights) {
        int fd;
        memcpy(&fd, CMSG_DATA(rights), sizeof fd);
        close(fd);
    }
    service.input_len += got > 0 ? (size_t)got : 0;
    return got;
}

/* Reads what the guest has sent, and more until it is silent for timeout_ms. False: it has hung
 * up. */
static bool read_messages(int timeout_ms) {
    struct pollfd wait = {service.fd, POLLIN, 0};
    while (!service.is_answered && poll(&wait, 1, timeout_ms) > 0) {
        if (read_some() <= 0)
            return false;
        split();
        timeout_ms = timeout_ms > ANSWER_MS ? ANSWER_MS : timeout_ms;
    }
    return true;
}

/* ---- Frames ---- */

static int table_memory(bool is_wrong, int seals) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || write(fd, service.table.data, service.table.len) != (ssize_t)service.table.len ||
        (is_wrong && pwrite(fd, "wrong", 5, 40) != 5) ||
        (seals && fcntl(fd, F_ADD_SEALS, seals) != 0))
        abort();
    return fd;
}

static int make_descriptor(enum kind kind) {
    int ends[2];
    switch (kind) {
    case GOOD:
    case WRONG:
        return table_memory(kind == WRONG, SEALS);
    case UNSEALED:
        return table_memory(false, 0);
    case FILE_ON_DISK:
        return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    case DEVICE:
        return open("/dev/zero", O_RDONLY | O_CLOEXEC);
    case FIFO:
        if (pipe2(ends, O_CLOEXEC) != 0)
            abort();
        close(ends[1]);
        return ends[0];
    default:
        return -1;
    }
}

static bool send_bytes(const void *bytes, size_t len, int passed) {
    struct iovec part = {(void *)(uintptr_t)bytes, len};
    _Alignas(struct cmsghdr) char control_bytes[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (passed >= 0) {
        message.msg_control = control_bytes;
        message.msg_controllen = sizeof control_bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &passed, sizeof passed);
    }
    return sendmsg(service.fd, &message, MSG_NOSIGNAL) == (ssize_t)len;
}

static void complete(link_in *message) {
    sonde_guest_v1_Table *table = &message->message.table;
    if (message->which_message == sonde_guest_v1_ToGuest_heap_command_tag)
        message->message.heap_command.mallctl = 0;
    if (message->which_message == sonde_guest_v1_ToGuest_tables_done_tag &&
        message->message.tables_done.generation == 0)
        message->message.tables_done.generation = service.generation;
    if (message->which_message != sonde_guest_v1_ToGuest_table_tag)
        return;
    table->start = table->start < service.start_count ? service.starts[table->start] : table->start;
    table->generation = table->generation ? table->generation : service.generation;
    table->bytes = table->bytes ? table->bytes : service.table.len;
}

static bool send_frame(const uint8_t *data, size_t size, int passed) {
    static link_in message;
    uint8_t frame[4 + 1024];
    uint32_t len = (uint32_t)size;
    pb_istream_t from = pb_istream_from_buffer(data, size);
    pb_ostream_t to = pb_ostream_from_buffer(frame + 4, sizeof frame - 4);
    memset(&message, 0, sizeof message);
    if (size)
        memcpy(frame + 4, data, size);
    if (pb_decode(&from, sonde_guest_v1_ToGuest_fields, &message)) {
        complete(&message);
        if (!pb_encode(&to, sonde_guest_v1_ToGuest_fields, &message))
            abort();
        len = (uint32_t)to.bytes_written;
    }
    memcpy(frame, &len, sizeof len);
    return send_bytes(frame, 4 + len, passed);
}

/* A command that the guest answers when it has handled everything before it. */
static bool send_last(void) {
    static link_in message;
    uint8_t frame[4 + 64];
    pb_ostream_t to = pb_ostream_from_buffer(frame + 4, sizeof frame - 4);
    message.which_message = sonde_guest_v1_ToGuest_heap_command_tag;
    message.message.heap_command.sequence = LAST;
    if (!pb_encode(&to, sonde_guest_v1_ToGuest_fields, &message))
        abort();
    uint32_t len = (uint32_t)to.bytes_written;
    memcpy(frame, &len, sizeof len);
    return send_bytes(frame, 4 + len, -1);
}

/* ---- The conversation ---- */

static void converse(const uint8_t *data, size_t size) {
    struct pollfd hello = {service.fd, POLLIN, 0};
    if (poll(&hello, 1, PATIENCE) <= 0)
        abort();
    bool is_connected = read_messages(ANSWER_MS);
    for (int i = 0; i < MOST_STEPS && size >= 2 && is_connected; i++) {
        size_t len = data[1] < size - 2 ? data[1] : size - 2;
        int passed = make_descriptor((data[0] & (ANSWERED - 1)) % KINDS);
        is_connected =
            send_frame(data + 2, len, passed) && read_messages(data[0] & ANSWERED ? ANSWER_MS : 0);
        if (passed >= 0)
            close(passed);
        data += 2 + len;
        size -= 2 + len;
    }
    is_connected = is_connected && send_last();
    for (int i = 0; i < 100 && is_connected && !service.is_answered; i++)
        is_connected = read_messages(PATIENCE / 100);
    if (is_connected && !service.is_answered)
        abort(); /* the control thread hangs */
}

static int accept_guest(int timeout_ms) {
    struct pollfd wait = {service.listener, POLLIN, 0};
    return poll(&wait, 1, timeout_ms) > 0 ? accept4(service.listener, NULL, NULL, SOCK_CLOEXEC)
                                          : -1;
}

/* A guest that was refused, or hung up, may have connected again. */
static void stop(pthread_t thread) {
    struct timespec end;
    atomic_store(&guest.stopping, true);
    handler_wake_control();
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE / 1000;
    if (pthread_timedjoin_np(thread, NULL, &end) != 0)
        abort();
    for (int fd = accept_guest(0); fd >= 0; fd = accept_guest(0))
        close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pthread_t thread;
    if (service.listener < 0)
        open_service();
    service.generation = service.input_len = service.start_count = 0;
    service.is_answered = false;
    atomic_store(&guest.stopping, false);
    if (pthread_create(&thread, NULL, control, NULL) != 0)
        abort();
    service.fd = accept_guest(PATIENCE);
    if (service.fd < 0)
        abort();
    converse(data, size);
    stop(thread);
    close(service.fd);
    return 0;
}
