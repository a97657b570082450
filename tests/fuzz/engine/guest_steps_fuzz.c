/* SPDX-License-Identifier: Apache-2.0
 *
 * A guest's conversation with sonded, step by step: frames with descriptors of every kind, while
 * clients start captures, sample allocations and ask for dumps. The engine's rounds are run by
 * hand, and its workers run as in sonded. Input: steps of
 *
 *     action | kind of descriptor | length, u8 | that many bytes
 *
 * For FRAME, the bytes are a FromGuest message. Numbers that a guest learns from sonded's last
 * command replace a sequence of 0, so that the fuzzer need not guess them. */
#include "service/engine/capture/cpu_capture.h"
#include "service/engine/heap/heap.h"
#include "service/engine/loop/loop.h"
#include "service/guest/heap/alloc_table.h"
#include "tests/unit/temporary.h"

#include <fcntl.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_STEPS 24
#define CAPTURES   4
#define RING_BYTES RING_MIN_BYTES

enum action { FRAME, BYTES, CPU, ALLOCS, FINISH, HEAP, DUMP, SAVED, WAIT, ACTIONS };

enum kind {
    NONE,
    SEALED, /* memory with a dump */
    UNSEALED,
    HOLES,
    FILE_ON_DISK,
    DEVICE,
    FIFO,
    RINGS,
    TABLE,
    KINDS
};

static struct {
    struct engine *engine;
    struct engine_capture *captures[CAPTURES];
    uint32_t capture_count;
    int fd;                               /* the guest's end */
    uint32_t heap_sequence, cpu_sequence; /* of sonded's last commands */
    uint8_t input[1 << 16];
    size_t input_len;
} stage;

/* ---- The engine and its clients ---- */

static void on_profile(void *context, struct sonde_profile *profile,
                       const struct engine_metadata *metadata) {
    sonde_profile_destroy(profile);
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
}

static const struct engine_capture_events events = {.on_profile = on_profile, .on_end = on_end};

static void on_heap(void *context, sonde_err err, const struct sonde_diag *diag,
                    const struct engine_heap_state *state, const struct engine_heap_dump *dumps,
                    size_t dump_count) {
}

static void on_dump(void *context, sonde_err err, const struct sonde_diag *diag,
                    struct engine_heap_result *result) {
    if (err)
        return;
    sonde_buf_finish(&result->text);
    sonde_profile_destroy(result->profile);
}

static void open_engine(void) {
    static char path[64], data_dir[64];
    uint64_t word = 0; /* a random name, because sandboxes share abstract names but not pids */
    (void)!getrandom(&word, sizeof word, 0);
    snprintf(path, sizeof path, "@sonde-fuzz-%llx", (unsigned long long)word);
    struct engine_options options = {.socket_path = path, .workers = 1, .source = ENGINE_GUEST};
    options.data_dir = mkdtemp(temporary_template(data_dir, sizeof data_dir));
    if (engine_open(&options, &stage.engine, NULL) != SONDE_OK)
        abort();
}

static void start_capture(bool of_allocs, uint8_t choice) {
    struct engine_cpu_spec cpu = {.frequency_hz = 99, .no_symbols = true};
    struct engine_allocs_spec allocs = {.sample_bytes = 4096};
    sonde_err err = SONDE_OK;
    if (stage.capture_count == CAPTURES)
        return;
    struct engine_capture **capture = &stage.captures[stage.capture_count];
    cpu.mode = choice % ENGINE_MODES;
    cpu.window_ms = choice & 0x80 ? 1000 : 0;
    err = of_allocs ? engine_capture_allocs(stage.engine, &allocs, &events, NULL, capture, NULL)
                    : engine_capture_cpu(stage.engine, &cpu, &events, NULL, capture, NULL);
    stage.capture_count += !err;
}

static void finish_captures(void) {
    for (uint32_t i = 0; i < stage.capture_count; i++) {
        engine_capture_finish(stage.captures[i]);
        engine_capture_release(stage.captures[i]);
    }
    stage.capture_count = 0;
}

static void ask_heap(uint8_t choice) {
    struct engine_heap_request request = {.verb = choice % ENGINE_HEAP_VERBS,
                                          .backend = choice / ENGINE_HEAP_VERBS % 3,
                                          .interval_s = choice & 0x80 ? 1 : 0,
                                          .delete_dumps = true};
    sonde_err err = engine_heap(stage.engine, &request, on_heap, NULL, NULL);
    (void)err; /* fails if there is no target */
}

static void ask_dump(bool saved) {
    struct engine_heap_query query = {.raw = true, .name = saved ? "000001.heap" : NULL};
    sonde_err err = engine_heap_get(stage.engine, &query, on_dump, NULL, NULL);
    (void)err;
}

/* ---- Descriptors ---- */

static int memory(const void *bytes, size_t len, size_t size, int seals) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || write(fd, bytes, len) != (ssize_t)len ||
        (size > len && ftruncate(fd, (off_t)size)))
        abort();
    if (seals && fcntl(fd, F_ADD_SEALS, seals) != 0)
        abort();
    return fd;
}

/* Good rings whose first ring has the input as its records. */
static int make_rings(const uint8_t *data, size_t len) {
    static char bytes[2 * RING_PAGE + RING_BYTES];
    struct ring_header *header = (struct ring_header *)(void *)bytes;
    struct ring_control *control = (struct ring_control *)(void *)(bytes + RING_PAGE);
    memset(bytes, 0, sizeof bytes);
    header->magic = RING_MAGIC;
    header->version = 1;
    header->ring_count = 1;
    header->ring_bytes = RING_BYTES;
    control->head = len;
    memcpy(bytes + 2 * RING_PAGE, data, len);
    return memory(bytes, sizeof bytes, 0, F_SEAL_SHRINK);
}

static int make_table(const uint8_t *data, size_t len) {
    struct alloc_header header = {.magic = ALLOC_MAGIC, .version = 1};
    uint8_t bytes[sizeof header + 256];
    header.stack_count = header.entries_used = 3;
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes + sizeof header, data, len);
    return memory(bytes, sizeof header + len, ALLOC_BYTES, F_SEAL_SHRINK | F_SEAL_GROW);
}

static int make_fifo(void) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        abort();
    close(ends[1]);
    return ends[0];
}

static int make_descriptor(enum kind kind, const uint8_t *data, size_t len) {
    static const char dump[] = "heap_v2/65536\n  t*: 1: 8 [0: 0]\n@ 0x10\n  t*: 1: 8 [0: 0]\n";
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    switch (kind) {
    case SEALED:
        return memory(dump, sizeof dump - 1, 0, seals);
    case UNSEALED:
        return memory(dump, sizeof dump - 1, 0, 0);
    case HOLES:
        return memory(dump, sizeof dump - 1, (size_t)1 << 40, seals);
    case FILE_ON_DISK:
        return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    case DEVICE:
        return open("/dev/zero", O_RDONLY | O_CLOEXEC);
    case FIFO:
        return make_fifo();
    case RINGS:
        return make_rings(data, len);
    case TABLE:
        return make_table(data, len);
    default:
        return -1;
    }
}

/* ---- Frames ---- */

static void send_part(const void *data, size_t len, int passed) {
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {{0}};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (passed >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof passed);
        memcpy(CMSG_DATA(rights), &passed, sizeof passed);
    }
    if (len > 0)
        (void)!sendmsg(stage.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void note_command(const uint8_t *bytes, size_t len) {
    frames_to_guest message = sonde_guest_v1_ToGuest_init_zero;
    pb_istream_t stream = pb_istream_from_buffer(bytes, len);
    if (!pb_decode(&stream, sonde_guest_v1_ToGuest_fields, &message))
        abort(); /* sonded's own frames are good */
    if (message.which_message == sonde_guest_v1_ToGuest_heap_command_tag)
        stage.heap_sequence = message.message.heap_command.sequence;
    if (message.which_message == sonde_guest_v1_ToGuest_cpu_config_tag)
        stage.cpu_sequence = message.message.cpu_config.sequence;
}

static void read_commands(void) {
    ssize_t got;
    while ((got = recv(stage.fd, stage.input + stage.input_len,
                       sizeof stage.input - stage.input_len, MSG_DONTWAIT)) > 0) {
        uint32_t len;
        stage.input_len += (size_t)got;
        while (stage.input_len >= sizeof len &&
               (memcpy(&len, stage.input, sizeof len), stage.input_len >= len + sizeof len)) {
            note_command(stage.input + sizeof len, len);
            stage.input_len -= len + sizeof len;
            memmove(stage.input, stage.input + len + sizeof len, stage.input_len);
        }
    }
}

static void fill_in_sequence(frames_from_guest *message) {
    if (message->which_message == sonde_guest_v1_FromGuest_heap_answer_tag &&
        message->message.heap_answer.sequence == 0)
        message->message.heap_answer.sequence = stage.heap_sequence;
    if (message->which_message == sonde_guest_v1_FromGuest_cpu_state_tag &&
        message->message.cpu_state.sequence == 0)
        message->message.cpu_state.sequence = stage.cpu_sequence;
}

static void send_frame(const uint8_t *data, size_t size, int passed) {
    static frames_from_guest message;
    uint8_t frame[4 + FRAMES_MAX_BYTES];
    uint32_t len = (uint32_t)size;
    pb_istream_t from = pb_istream_from_buffer(data, size);
    pb_ostream_t to = pb_ostream_from_buffer(frame + 4, FRAMES_MAX_BYTES);
    memset(&message, 0, sizeof message);
    memcpy(frame + 4, data, size);
    if (pb_decode(&from, sonde_guest_v1_FromGuest_fields, &message)) {
        fill_in_sequence(&message);
        if (pb_encode(&to, sonde_guest_v1_FromGuest_fields, &message))
            len = (uint32_t)to.bytes_written;
    }
    memcpy(frame, &len, sizeof len);
    send_part(frame, 4 + len, passed);
}

/* ---- Steps ---- */

/* Runs rounds until the workers are done, and then until the targets are gone. 10 s, because
 * workers may be slow. */
static void settle(bool is_last) {
    for (int i = 0; i < 100000; i++) {
        engine_round(stage.engine, 0);
        if (atomic_load(&stage.engine->jobs_running) == 0 && !(is_last && stage.engine->targets))
            return;
        if (i > 10)
            usleep(100);
    }
    abort(); /* a job, a capture or a target never ends */
}

static void act(enum action action, enum kind kind, const uint8_t *data, size_t len) {
    int passed = action <= BYTES ? make_descriptor(kind, data, len) : -1;
    if (action == FRAME)
        send_frame(data, len, passed);
    else if (action == BYTES)
        send_part(data, len, passed);
    else if (action == CPU || action == ALLOCS)
        start_capture(action == ALLOCS, (uint8_t)kind);
    else if (action == FINISH)
        finish_captures();
    else if (action == HEAP)
        ask_heap(len ? data[0] : 0);
    else if (action == WAIT)
        settle(false);
    else
        ask_dump(action == SAVED);
    if (passed >= 0)
        close(passed);
    engine_round(stage.engine, 0);
    read_commands();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int pair[2];
    if (!stage.engine)
        open_engine();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return 0;
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    if (!link_create_target(stage.engine, pair[0]))
        abort();
    stage.fd = pair[1];
    stage.heap_sequence = stage.cpu_sequence = 0;
    stage.input_len = 0;
    for (int i = 0; i < MOST_STEPS && size >= 3; i++) {
        size_t len = data[2] < size - 3 ? data[2] : size - 3;
        act(data[0] % ACTIONS, data[1] % KINDS, data + 3, len);
        data += 3 + len;
        size -= 3 + len;
    }
    finish_captures();
    close(stage.fd);
    settle(true);
    return 0;
}
