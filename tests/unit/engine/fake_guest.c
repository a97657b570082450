/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/engine/fake_guest.h"

#include "api/base/clock.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define TIMEOUT_MS 5000

void fake_connect(struct fake_guest *guest, const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *guest = (struct fake_guest){.fd = -1, .rings_fd = -1, .last_fd = -1};
    size_t len = strlen(path);
    CHECK(len < sizeof address.sun_path);
    memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = 0;
    guest->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(guest->fd >= 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (path[0] != '@'));
    CHECK_INT(connect(guest->fd, (struct sockaddr *)&address, size), ==, 0);
}

void fake_send_raw(struct fake_guest *guest, const void *bytes, size_t len) {
    (void)!send(guest->fd, bytes, len, MSG_NOSIGNAL);
}

void fake_send(struct fake_guest *guest, const sonde_guest_v1_FromGuest *message, int fd) {
    uint8_t bytes[16388];
    pb_ostream_t stream = pb_ostream_from_buffer(bytes + 4, sizeof bytes - 4);
    CHECK(pb_encode(&stream, sonde_guest_v1_FromGuest_fields, message));
    uint32_t len = (uint32_t)stream.bytes_written;
    memcpy(bytes, &len, sizeof len);
    struct iovec part = {.iov_base = bytes, .iov_len = len + 4};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {{0}};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        header.msg_control = &control;
        header.msg_controllen = sizeof control.bytes;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    }
    (void)!sendmsg(guest->fd, &header, MSG_NOSIGNAL);
}

int64_t fake_clock_ahead_ns;

static int64_t real_minus_monotonic(void) {
    return clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC) - fake_clock_ahead_ns;
}

void fake_hello(struct fake_guest *guest, const char *name, uint32_t uuid_seed) {
    sonde_guest_v1_FromGuest message = sonde_guest_v1_FromGuest_init_zero;
    message.which_message = sonde_guest_v1_FromGuest_hello_tag;
    sonde_guest_v1_Hello *hello = &message.message.hello;
    hello->protocol = 1;
    hello->pid = 1; /* false: sonded must not use it */
    snprintf(hello->name, sizeof hello->name, "%s", name);
    memcpy(hello->uuid, &uuid_seed, sizeof uuid_seed);
    snprintf(hello->executable, sizeof hello->executable, "/bin/fake");
    snprintf(hello->version, sizeof hello->version, "test");
    snprintf(hello->labels, sizeof hello->labels, "team=search");
    hello->page_size = 4096;
    hello->real_minus_monotonic_ns = real_minus_monotonic();
    fake_send(guest, &message, -1);
}

void fake_attach(struct fake_guest *guest, const char *path, const char *name, uint32_t uuid_seed) {
    sonde_guest_v1_ToGuest answer;
    fake_connect(guest, path);
    fake_hello(guest, name, uuid_seed);
    fake_expect(guest, sonde_guest_v1_ToGuest_welcome_tag, &answer);
}

static bool wait_readable(int fd, int timeout_ms) {
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return poll(&poll_fd, 1, timeout_ms) == 1;
}

bool fake_is_quiet(struct fake_guest *guest, int timeout_ms) {
    return !wait_readable(guest->fd, timeout_ms);
}

bool fake_is_disconnected(struct fake_guest *guest) {
    char byte;
    return wait_readable(guest->fd, TIMEOUT_MS) && recv(guest->fd, &byte, 1, MSG_PEEK) <= 0;
}

static bool read_exactly(struct fake_guest *guest, void *out, size_t len) {
    for (size_t got = 0; got < len;) {
        union {
            struct cmsghdr align;
            char bytes[CMSG_SPACE(sizeof(int))];
        } control;
        struct iovec part = {.iov_base = (char *)out + got, .iov_len = len - got};
        struct msghdr header = {.msg_iov = &part,
                                .msg_iovlen = 1,
                                .msg_control = &control,
                                .msg_controllen = sizeof control.bytes};
        if (!wait_readable(guest->fd, TIMEOUT_MS))
            return false;
        ssize_t part_len = recvmsg(guest->fd, &header, MSG_CMSG_CLOEXEC);
        if (part_len <= 0)
            return false;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        if (rights && rights->cmsg_type == SCM_RIGHTS)
            memcpy(&guest->last_fd, CMSG_DATA(rights), sizeof guest->last_fd);
        got += (size_t)part_len;
    }
    return true;
}

bool fake_read(struct fake_guest *guest, sonde_guest_v1_ToGuest *message) {
    uint8_t bytes[512];
    uint32_t len;
    if (guest->last_fd >= 0)
        close(guest->last_fd);
    guest->last_fd = -1;
    if (!read_exactly(guest, &len, sizeof len))
        return false;
    CHECK(len <= sizeof bytes);
    if (!read_exactly(guest, bytes, len))
        return false;
    pb_istream_t stream = pb_istream_from_buffer(bytes, len);
    *message = (sonde_guest_v1_ToGuest)sonde_guest_v1_ToGuest_init_zero;
    CHECK(pb_decode(&stream, sonde_guest_v1_ToGuest_fields, message));
    guest->tables += message->which_message == sonde_guest_v1_ToGuest_table_tag;
    return true;
}

void fake_expect(struct fake_guest *guest, pb_size_t tag, sonde_guest_v1_ToGuest *message) {
    do {
        if (!fake_read(guest, message))
            check_fail(__FILE__, __LINE__, "no frame with tag %d came", (int)tag);
    } while (message->which_message != tag);
}

static struct ring_control *control_of(struct fake_guest *guest, uint32_t ring) {
    return (struct ring_control *)(guest->rings + RING_PAGE +
                                   (size_t)ring * (RING_PAGE + FAKE_RING_BYTES));
}

void fake_make_rings(struct fake_guest *guest, uint32_t count) {
    guest->ring_count = count;
    guest->rings_bytes = RING_PAGE + (size_t)count * (RING_PAGE + FAKE_RING_BYTES);
    guest->rings_fd = memfd_create("rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(guest->rings_fd >= 0);
    CHECK_INT(ftruncate(guest->rings_fd, (off_t)guest->rings_bytes), ==, 0);
    guest->rings =
        mmap(NULL, guest->rings_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, guest->rings_fd, 0);
    CHECK(guest->rings != MAP_FAILED);
    struct ring_header *header = (struct ring_header *)guest->rings;
    header->magic = RING_MAGIC;
    header->version = 1;
    header->ring_count = count;
    header->ring_bytes = FAKE_RING_BYTES;
}

void fake_send_rings(struct fake_guest *guest) {
    sonde_guest_v1_FromGuest message = sonde_guest_v1_FromGuest_init_zero;
    message.which_message = sonde_guest_v1_FromGuest_rings_tag;
    message.message.rings.ring_count = guest->ring_count;
    message.message.rings.ring_bytes = FAKE_RING_BYTES;
    fake_send(guest, &message, guest->rings_fd);
}

static bool parse_mapping(char *line, sonde_guest_v1_Mapping *mapping) {
    unsigned long long start, end, offset, inode;
    unsigned major, minor;
    char permissions[5];
    int at = 0;
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, permissions, &offset, &major,
               &minor, &inode, &at) < 7 ||
        permissions[2] != 'x')
        return false;
    *mapping = (sonde_guest_v1_Mapping){.start = start,
                                        .end = end,
                                        .offset = offset,
                                        .device_major = major,
                                        .device_minor = minor,
                                        .inode = inode};
    snprintf(mapping->path, sizeof mapping->path, "%s", at ? line + at : "");
    return true;
}

void fake_send_maps(struct fake_guest *guest, uint64_t generation) {
    sonde_guest_v1_FromGuest message = sonde_guest_v1_FromGuest_init_zero;
    sonde_guest_v1_Maps *maps = &message.message.maps;
    FILE *file = fopen("/proc/self/maps", "re");
    char line[1024];
    CHECK(file != NULL);
    message.which_message = sonde_guest_v1_FromGuest_maps_tag;
    maps->generation = generation;
    while (fgets(line, sizeof line, file)) {
        if (!parse_mapping(line, &maps->mappings[maps->mappings_count]))
            continue;
        if (++maps->mappings_count < 16)
            continue;
        fake_send(guest, &message, -1);
        maps->mappings_count = 0;
    }
    fclose(file);
    maps->last = true;
    fake_send(guest, &message, -1);
}

void fake_send_state(struct fake_guest *guest, uint32_t sequence, bool running, const char *clock) {
    sonde_guest_v1_FromGuest message = sonde_guest_v1_FromGuest_init_zero;
    message.which_message = sonde_guest_v1_FromGuest_cpu_state_tag;
    sonde_guest_v1_CpuState *state = &message.message.cpu_state;
    state->sequence = sequence;
    state->running = running;
    state->threads = FAKE_THREADS + sequence;
    snprintf(state->clock, sizeof state->clock, "%s", clock);
    fake_send(guest, &message, -1);
}

sonde_guest_v1_CpuConfig fake_start(struct fake_guest *guest) {
    sonde_guest_v1_ToGuest message;
    do
        fake_expect(guest, sonde_guest_v1_ToGuest_cpu_config_tag, &message);
    while (message.message.cpu_config.period_ns == 0);
    sonde_guest_v1_CpuConfig config = message.message.cpu_config;
    if (guest->rings_fd < 0) {
        fake_make_rings(guest, 2);
        fake_send_rings(guest);
    }
    fake_send_maps(guest, 1);
    fake_expect(guest, sonde_guest_v1_ToGuest_tables_done_tag, &message);
    fake_send_state(guest, config.sequence, true, "fake");
    return config;
}

void fake_stop(struct fake_guest *guest) {
    sonde_guest_v1_ToGuest message;
    do
        fake_expect(guest, sonde_guest_v1_ToGuest_cpu_config_tag, &message);
    while (message.message.cpu_config.period_ns != 0);
    fake_send_state(guest, message.message.cpu_config.sequence, false, "");
}

/* The producer's side of ring.h. Not safe for several writers: a test writes one ring at a time. */
static bool push_record(struct fake_guest *guest, uint32_t tid, void *record, uint32_t size) {
    struct ring_control *control = control_of(guest, tid % guest->ring_count);
    char *data = (char *)control + RING_PAGE;
    uint64_t head = atomic_load(&control->head);
    uint64_t tail = atomic_load_explicit(&control->tail, memory_order_acquire);
    uint64_t rest = FAKE_RING_BYTES - head % FAKE_RING_BYTES;
    uint64_t pad = rest < size ? rest : 0;
    if (head + pad + size - tail > FAKE_RING_BYTES) {
        struct ring_header *header = (struct ring_header *)guest->rings;
        atomic_fetch_add(&header->drops[RING_DROP_FULL], 1);
        return false;
    }
    atomic_store(&control->head, head + pad + size);
    if (pad > 0) {
        struct ring_record *padding = (struct ring_record *)(data + head % FAKE_RING_BYTES);
        padding->kind = RING_RECORD_PAD;
        atomic_store_explicit(&padding->size, (uint32_t)pad, memory_order_release);
        head += pad;
    }
    struct ring_record *shared = (struct ring_record *)(data + head % FAKE_RING_BYTES);
    memcpy((char *)shared + 4, (char *)record + 4, size - 4);
    atomic_store_explicit(&shared->size, size, memory_order_release);
    return true;
}

bool fake_push(struct fake_guest *guest, const struct fake_sample *from, const uint64_t *pcs,
               uint16_t depth) {
    _Alignas(8) char bytes[sizeof(struct ring_sample) + RING_MAX_DEPTH * 8] = {0};
    struct ring_sample *sample = (struct ring_sample *)bytes;
    sample->record.kind = from->blocked_until_ns ? RING_RECORD_BLOCKED : RING_RECORD_SAMPLE;
    sample->time_ns = from->blocked_until_ns ? from->blocked_until_ns : from->time_ns;
    sample->record.depth = depth;
    sample->record.tid = from->tid;
    sample->record.generation = from->generation;
    sample->weight_ns = from->weight_ns;
    sample->request = from->request;
    sample->label = from->label;
    sample->end = from->end;
    sample->gap_at = from->gap_at;
    memcpy(sample->pcs, pcs, depth * sizeof *pcs);
    return push_record(guest, from->tid, sample, (uint32_t)(sizeof *sample + depth * sizeof *pcs));
}

bool fake_push_sample(struct fake_guest *guest, uint32_t tid, uint64_t weight_ns,
                      const uint64_t *pcs, uint16_t depth) {
    struct fake_sample sample = {.tid = tid, .generation = 1, .weight_ns = weight_ns};
    return fake_push(guest, &sample, pcs, depth);
}

bool fake_push_thread(struct fake_guest *guest, uint32_t tid, const char *name, uint32_t label,
                      const char *text) {
    struct ring_thread thread = {.record = {.kind = RING_RECORD_THREAD, .tid = tid},
                                 .label = label,
                                 .label_len = (uint32_t)strlen(text)};
    memcpy(thread.name, name, strnlen(name, sizeof thread.name - 1));
    memcpy(thread.text, text, strnlen(text, sizeof thread.text));
    return push_record(guest, tid, &thread, sizeof thread);
}

bool fake_push_unseen(struct fake_guest *guest, uint32_t tid, uint64_t cpu_ns, uint32_t cause) {
    struct ring_unseen unseen = {
        .record = {.kind = RING_RECORD_UNSEEN, .tid = tid}, .cpu_ns = cpu_ns, .cause = cause};
    return push_record(guest, tid, &unseen, sizeof unseen);
}

void fake_wait_drained(struct fake_guest *guest) {
    for (int i = 0; i < TIMEOUT_MS; i++) {
        bool is_drained = true;
        for (uint32_t ring = 0; ring < guest->ring_count; ring++) {
            struct ring_control *control = control_of(guest, ring);
            is_drained &= atomic_load(&control->head) ==
                          atomic_load_explicit(&control->tail, memory_order_acquire);
        }
        if (is_drained)
            return;
        usleep(1000);
    }
    check_fail(__FILE__, __LINE__, "the rings were not drained");
}

void fake_send_account(struct fake_guest *guest, uint64_t guest_cpu_ns, uint64_t handler_ns,
                       uint64_t handler_count) {
    sonde_guest_v1_FromGuest message = sonde_guest_v1_FromGuest_init_zero;
    struct ring_header *header = (struct ring_header *)guest->rings;
    atomic_store(&header->handler_ns, handler_ns);
    atomic_store(&header->handler_count, handler_count);
    message.which_message = sonde_guest_v1_FromGuest_cpu_account_tag;
    message.message.cpu_account.guest_cpu_ns = guest_cpu_ns;
    fake_send(guest, &message, -1);
}

void fake_close(struct fake_guest *guest) {
    if (guest->fd >= 0)
        close(guest->fd);
    if (guest->last_fd >= 0)
        close(guest->last_fd);
    if (guest->rings_fd >= 0)
        close(guest->rings_fd);
    if (guest->rings)
        munmap(guest->rings, guest->rings_bytes);
    *guest = (struct fake_guest){.fd = -1, .rings_fd = -1, .last_fd = -1};
}
