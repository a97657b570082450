/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/guest/fake.h"

#include "tests/unit/check.h"
#include "tests/unit/guest/fake_tables.h"
#include "tests/unit/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GUEST_LIBRARY "service/guest/libsonde.so"
#define PATIENCE_MS   30000

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- The socket and the program ---- */

static void bind_path(struct fake *fake) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", fake->path);
    fake->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fake->listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(fake->listener, 64) == 0);
}

void fake_open(struct fake *fake) {
    CHECK(mkdtemp(temporary_template(fake->folder, sizeof fake->folder)) != NULL);
    snprintf(fake->path, sizeof fake->path, "%s/guest", fake->folder);
    bind_path(fake);
    signal(SIGPIPE, SIG_IGN);
}

void fake_rebind(struct fake *fake, int away_ms) {
    close(fake->listener);
    unlink(fake->path);
    usleep((useconds_t)away_ms * 1000);
    bind_path(fake);
}

void fake_close(struct fake *fake) {
    close(fake->listener);
    unlink(fake->path);
    rmdir(fake->folder);
}

static void become(const struct fake *fake, char *const argv[]) {
    char library[4096], folder[3072];
    CHECK(getcwd(folder, sizeof folder));
    snprintf(library, sizeof library, "%s/%s", folder, GUEST_LIBRARY);
    if (!fake->is_linked) {
        setenv("LD_PRELOAD", library, 1);
        setenv("SONDE_SOCKET", fake->path, 1);
    }
    unsetenv("SONDE_DISABLE");
    execv(argv[0], argv);
    fprintf(stderr, "cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

void fake_spawn(const struct fake *fake, char *const argv[], struct fake_child *child) {
    int to[2], from[2];
    CHECK(access(GUEST_LIBRARY, R_OK) == 0);
    CHECK(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
    child->pid = fork();
    if (child->pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        become(fake, argv);
    }
    close(to[0]);
    close(from[1]);
    child->in = to[1];
    child->out = from[0];
}

void fake_read_line(struct fake_child *child, char *line, size_t size) {
    size_t used = 0;
    for (int64_t end = now_ms() + PATIENCE_MS; used < size - 1;) {
        struct pollfd wait = {child->out, POLLIN, 0};
        if (poll(&wait, 1, (int)(end - now_ms() > 0 ? end - now_ms() : 0)) <= 0)
            check_fail(__FILE__, __LINE__, "the program says nothing");
        if (read(child->out, line + used, 1) <= 0) {
            int status = fake_wait(child);
            check_fail(__FILE__, __LINE__,
                       "the program has ended before its line: exit %d signal %d",
                       WEXITSTATUS(status), WTERMSIG(status));
        }
        if (line[used] == '\n')
            break;
        used++;
    }
    line[used] = 0;
}

void fake_poke(struct fake_child *child) {
    CHECK(write(child->in, "\n", 1) == 1);
}

int fake_wait(struct fake_child *child) {
    int status = 0;
    for (int64_t end = now_ms() + PATIENCE_MS; waitpid(child->pid, &status, WNOHANG) == 0;) {
        if (now_ms() > end) {
            kill(child->pid, SIGKILL);
            waitpid(child->pid, &status, 0);
            check_fail(__FILE__, __LINE__, "the program does not end");
        }
        usleep(1000);
    }
    close(child->in);
    close(child->out);
    return status;
}

/* ---- Frames ---- */

static void send_frame(struct fake_guest *guest, const sonde_guest_v1_ToGuest *message, int fd) {
    uint8_t frame[4 + 16384];
    pb_ostream_t stream = pb_ostream_from_buffer(frame + 4, sizeof frame - 4);
    CHECK(pb_encode(&stream, sonde_guest_v1_ToGuest_fields, message));
    uint32_t len = (uint32_t)stream.bytes_written;
    memcpy(frame, &len, 4);
    struct iovec part = {frame, 4 + len};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        header.msg_control = control;
        header.msg_controllen = sizeof control;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    }
    ssize_t sent = sendmsg(guest->fd, &header, MSG_NOSIGNAL);
    if (sent < 0)
        guest->gone = true;
    else
        CHECK_INT(sent, ==, 4 + len);
}

static void map_rings(struct fake_guest *guest, const sonde_guest_v1_Rings *rings) {
    CHECK_INT(guest->rings_fd, >=, 0);
    if (guest->rings)
        munmap(guest->rings, guest->rings_bytes);
    struct stat file;
    CHECK(fstat(guest->rings_fd, &file) == 0);
    guest->rings_bytes = (size_t)file.st_size;
    CHECK_INT(guest->rings_bytes, ==,
              RING_PAGE + rings->ring_count * (RING_PAGE + rings->ring_bytes));
    guest->rings =
        mmap(NULL, guest->rings_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, guest->rings_fd, 0);
    CHECK(guest->rings != MAP_FAILED);
    CHECK(guest->rings->magic == RING_MAGIC);
    CHECK_INT(guest->rings->ring_count, ==, rings->ring_count);
    close(guest->rings_fd);
    guest->rings_fd = -1;
    guest->rings_seen++;
}

static void send_tables(struct fake_guest *guest) {
    for (size_t i = 0; i < guest->mapping_count && !guest->no_tables; i++) {
        sonde_guest_v1_ToGuest message = {.which_message = sonde_guest_v1_ToGuest_table_tag};
        sonde_guest_v1_Table *table = &message.message.table;
        int fd = fake_table(&guest->mappings[i], &table->bias, &table->bytes);
        if (fd < 0)
            continue;
        if (guest->has_bad_tables)
            fd = fake_table_without_seals(fd, table->bytes);
        table->generation = guest->generation;
        table->start = guest->mappings[i].start;
        send_frame(guest, &message, fd);
        close(fd);
    }
    sonde_guest_v1_ToGuest done = {.which_message = sonde_guest_v1_ToGuest_tables_done_tag};
    done.message.tables_done.generation = guest->generation;
    send_frame(guest, &done, -1);
    guest->generations++;
}

static void take_maps(struct fake_guest *guest, const sonde_guest_v1_Maps *maps) {
    if (maps->generation != guest->generation) {
        CHECK_INT(maps->generation, >, guest->generation);
        guest->mapping_count = 0;
    }
    guest->generation = maps->generation;
    size_t count = guest->mapping_count + maps->mappings_count;
    guest->mappings = realloc(guest->mappings, (count + 1) * sizeof *guest->mappings);
    memcpy(guest->mappings + guest->mapping_count, maps->mappings,
           maps->mappings_count * sizeof *maps->mappings);
    guest->mapping_count = count;
    if (maps->last)
        send_tables(guest);
}

static void take_message(struct fake_guest *guest, const sonde_guest_v1_FromGuest *message) {
    switch (message->which_message) {
    case sonde_guest_v1_FromGuest_hello_tag:
        guest->hello = message->message.hello;
        break;
    case sonde_guest_v1_FromGuest_rings_tag:
        map_rings(guest, &message->message.rings);
        break;
    case sonde_guest_v1_FromGuest_maps_tag:
        take_maps(guest, &message->message.maps);
        break;
    case sonde_guest_v1_FromGuest_cpu_state_tag:
        guest->state = message->message.cpu_state;
        guest->states++;
        break;
    case sonde_guest_v1_FromGuest_cpu_account_tag:
        guest->account = message->message.cpu_account;
        break;
    case sonde_guest_v1_FromGuest_uses_labels_tag:
        guest->labels_told++;
        break;
    default:
        check_fail(__FILE__, __LINE__, "message %d", (int)message->which_message);
    }
}

static void take_frames(struct fake_guest *guest) {
    uint32_t len;
    while (guest->input_len >= 4) {
        memcpy(&len, guest->input, 4);
        CHECK(len >= 1 && len <= 16384);
        if (guest->input_len < 4 + len)
            return;
        static sonde_guest_v1_FromGuest message;
        memset(&message, 0, sizeof message);
        pb_istream_t stream = pb_istream_from_buffer(guest->input + 4, len);
        CHECK(pb_decode(&stream, sonde_guest_v1_FromGuest_fields, &message));
        guest->input_len -= 4 + len;
        memmove(guest->input, guest->input + 4 + len, guest->input_len);
        take_message(guest, &message);
    }
}

static void receive(struct fake_guest *guest) {
    struct iovec part = {guest->input + guest->input_len, sizeof guest->input - guest->input_len};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof control};
    ssize_t got = recvmsg(guest->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got <= 0) {
        guest->gone = guest->gone || got == 0 || errno != EAGAIN;
        return;
    }
    for (struct cmsghdr *rights = CMSG_FIRSTHDR(&header); rights;
         rights = CMSG_NXTHDR(&header, rights))
        memcpy(&guest->rings_fd, CMSG_DATA(rights), sizeof guest->rings_fd);
    guest->input_len += (size_t)got;
    take_frames(guest);
}

/* ---- Rings ---- */

#define GROW(list, count, room)                                \
    do {                                                       \
        if ((count) == (room)) {                               \
            (room) = (room) ? (room)*2 : 1024;                 \
            (list) = realloc((list), (room) * sizeof *(list)); \
            CHECK(list);                                       \
        }                                                      \
    } while (0)

static void take_sample(struct fake_sample *sample, const struct ring_sample *from) {
    *sample = (struct fake_sample){.tid = from->record.tid,
                                   .generation = from->record.generation,
                                   .label = from->label,
                                   .depth = from->record.depth,
                                   .end = from->end,
                                   .fp_frames = from->fp_frames,
                                   .time_ns = from->time_ns,
                                   .weight_ns = from->weight_ns,
                                   .request = from->request};
    CHECK_INT(from->record.depth, >=, 1);
    CHECK_INT(from->record.depth, <=, RING_MAX_DEPTH);
    CHECK_INT(from->record.size, ==, sizeof *from + 8u * from->record.depth);
    CHECK_INT(from->end, <, RING_END_COUNT);
    sample->root = from->pcs[from->record.depth - 1];
    memcpy(sample->pcs, from->pcs,
           8u * (from->record.depth < FAKE_PCS ? from->record.depth : FAKE_PCS));
}

static void take_record(struct fake_guest *guest, const struct ring_record *record) {
    switch (record->kind) {
    case RING_RECORD_PAD:
        return;
    case RING_RECORD_SAMPLE:
        GROW(guest->samples, guest->sample_count, guest->sample_room);
        take_sample(&guest->samples[guest->sample_count++], (const struct ring_sample *)record);
        return;
    case RING_RECORD_BLOCKED:
        GROW(guest->blocked, guest->blocked_count, guest->blocked_room);
        take_sample(&guest->blocked[guest->blocked_count++], (const struct ring_sample *)record);
        return;
    case RING_RECORD_THREAD:
        GROW(guest->threads, guest->thread_count, guest->thread_room);
        memcpy(&guest->threads[guest->thread_count++], record, sizeof *guest->threads);
        return;
    case RING_RECORD_UNSEEN:
        GROW(guest->unseen, guest->unseen_count, guest->unseen_room);
        guest->unseen[guest->unseen_count++] =
            (struct fake_unseen){record->tid, ((const struct ring_unseen *)record)->cause,
                                 ((const struct ring_unseen *)record)->cpu_ns};
        return;
    default:
        check_fail(__FILE__, __LINE__, "record of kind %d", record->kind);
    }
}

static void drain_ring(struct fake_guest *guest, struct ring_control *ring) {
    char *data = (char *)ring + RING_PAGE;
    uint64_t bytes = guest->rings->ring_bytes, tail = atomic_load(&ring->tail);
    while (tail < atomic_load(&ring->head)) {
        struct ring_record *record = (struct ring_record *)(data + tail % bytes);
        uint32_t size = atomic_load_explicit(&record->size, memory_order_acquire);
        if (size == 0)
            return;
        CHECK(size % 8 == 0 && size <= bytes - tail % bytes);
        take_record(guest, record);
        memset(record, 0, size);
        tail += size;
        atomic_store_explicit(&ring->tail, tail, memory_order_release);
    }
}

static void drain(struct fake_guest *guest) {
    for (uint32_t i = 0; guest->rings && i < guest->rings->ring_count; i++)
        drain_ring(guest, (struct ring_control *)((char *)guest->rings + RING_PAGE +
                                                  i * (RING_PAGE + guest->rings->ring_bytes)));
}

/* ---- A guest's life ---- */

static void pump_once(struct fake_guest *guest, int ms) {
    struct pollfd wait = {guest->fd, POLLIN, 0};
    if (!guest->gone && poll(&wait, 1, ms < 10 ? ms : 10) > 0)
        receive(guest);
    drain(guest);
}

void fake_pump(struct fake_guest *guest, int ms) {
    for (int64_t end = now_ms() + ms; !guest->gone && now_ms() < end;)
        pump_once(guest, (int)(end - now_ms()));
    drain(guest);
}

void fake_pump_until(struct fake_guest *guest, const uint32_t *counter, uint32_t least) {
    for (int64_t end = now_ms() + 10000; *counter < least && !guest->gone;) {
        if (now_ms() > end)
            check_fail(__FILE__, __LINE__, "the guest does not answer");
        pump_once(guest, 10);
    }
}

bool fake_accept(struct fake *fake, struct fake_guest *guest, int timeout_ms) {
    memset(guest, 0, sizeof *guest);
    guest->rings_fd = -1;
    struct pollfd wait = {fake->listener, POLLIN, 0};
    if (poll(&wait, 1, timeout_ms) <= 0)
        return false;
    guest->fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);
    for (int64_t end = now_ms() + 5000; guest->hello.protocol == 0 && !guest->gone;) {
        pump_once(guest, 10);
        CHECK(now_ms() < end);
    }
    sonde_guest_v1_ToGuest welcome = {.which_message = sonde_guest_v1_ToGuest_welcome_tag};
    welcome.message.welcome.protocol = 1;
    if (!guest->gone)
        send_frame(guest, &welcome, -1);
    return true;
}

void fake_accept_pid(struct fake *fake, struct fake_guest *guest, pid_t pid) {
    for (int64_t end = now_ms() + 10000; now_ms() < end;) {
        if (!fake_accept(fake, guest, 1000))
            continue;
        if (guest->hello.pid == pid)
            return;
        fake_release(guest);
    }
    check_fail(__FILE__, __LINE__, "no guest of pid %d has come", (int)pid);
}

void fake_release(struct fake_guest *guest) {
    close(guest->fd);
    if (guest->rings)
        munmap(guest->rings, guest->rings_bytes);
    free(guest->samples);
    free(guest->blocked);
    free(guest->unseen);
    free(guest->threads);
    free(guest->mappings);
    memset(guest, 0, sizeof *guest);
}

void fake_configure(struct fake_guest *guest, uint64_t period_ns,
                    sonde_guest_v1_ClockChoice clock) {
    uint64_t wall_ns = period_ns ? guest->wall_period_ns : 0;
    sonde_guest_v1_ToGuest message = {.which_message = sonde_guest_v1_ToGuest_cpu_config_tag};
    message.message.cpu_config = (sonde_guest_v1_CpuConfig){
        ++guest->sequence, period_ns, clock, 0, wall_ns, guest->counts_past};
    send_frame(guest, &message, -1);
    fake_pump_until(guest, &guest->state.sequence, guest->sequence);
}

void fake_stop(struct fake_guest *guest) {
    fake_configure(guest, 0, sonde_guest_v1_ClockChoice_CLOCK_BEST);
    CHECK(guest->gone || !guest->state.running);
    drain(guest);
}

/* ---- Sums ---- */

static uint64_t sum_of(const struct fake_sample *samples, size_t count, uint32_t tid) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        if (!tid || samples[i].tid == tid)
            sum += samples[i].weight_ns;
    return sum;
}

uint64_t fake_weight(const struct fake_guest *guest, uint32_t tid) {
    return sum_of(guest->samples, guest->sample_count, tid);
}

uint64_t fake_blocked(const struct fake_guest *guest, uint32_t tid) {
    return sum_of(guest->blocked, guest->blocked_count, tid);
}

uint64_t fake_unseen_sum(const struct fake_guest *guest, uint32_t tid, uint32_t cause) {
    uint64_t sum = 0;
    for (size_t i = 0; i < guest->unseen_count; i++)
        if ((!tid || guest->unseen[i].tid == tid) && (!cause || guest->unseen[i].cause == cause))
            sum += guest->unseen[i].cpu_ns;
    return sum;
}

static bool is_in(const struct fake_sample *sample, uint64_t low, uint64_t high) {
    for (int at = 0; at < sample->depth && at < FAKE_PCS; at++) {
        uint64_t pc = (sample->pcs[at] & ~RING_PC_EXACT) - (at > 0);
        if (pc >= low && pc < high)
            return true;
    }
    return false;
}

uint64_t fake_weight_in(const struct fake_guest *guest, uint64_t low, uint64_t high) {
    uint64_t sum = 0;
    for (size_t i = 0; i < guest->sample_count; i++)
        if (is_in(&guest->samples[i], low, high))
            sum += guest->samples[i].weight_ns;
    return sum;
}

uint64_t fake_blocked_in(const struct fake_guest *guest, uint32_t tid, uint64_t low,
                         uint64_t high) {
    uint64_t sum = 0;
    for (size_t i = 0; i < guest->blocked_count; i++)
        if ((!tid || guest->blocked[i].tid == tid) && is_in(&guest->blocked[i], low, high))
            sum += guest->blocked[i].weight_ns;
    return sum;
}

uint64_t fake_drops(const struct fake_guest *guest) {
    uint64_t sum = 0;
    for (int i = 0; guest->rings && i < RING_DROP_COUNT; i++)
        sum += i == RING_DROP_NESTED ? 0 : guest->rings->drops[i];
    return sum;
}

uint64_t fake_nested(const struct fake_guest *guest) {
    return guest->rings ? guest->rings->drops[RING_DROP_NESTED] : 0;
}

void fake_forget(struct fake_guest *guest) {
    drain(guest);
    guest->sample_count = guest->blocked_count = guest->unseen_count = guest->thread_count = 0;
}
