/* SPDX-License-Identifier: Apache-2.0
 *
 * Guest frames: sends the input through a real socket to an engine whose rounds are run by hand.
 * The first byte chooses how the input is split and whether a capture runs. Some parts carry a
 * descriptor. */
#include "service/engine/capture/cpu_capture.h"
#include "service/engine/loop/loop.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_profile(void *context, struct sonde_profile *profile,
                       const struct engine_metadata *metadata) {
    sonde_profile_destroy(profile);
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
}

static const struct engine_capture_events events = {.on_profile = on_profile, .on_end = on_end};

static void send_part(int fd, const uint8_t *data, size_t len, int passed) {
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
    (void)!sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static struct engine *the_engine(void) {
    static struct engine *engine;
    static char path[64];
    if (engine)
        return engine;
    uint64_t word = 0; /* a random name, because sandboxes share abstract names but not pids */
    (void)!getrandom(&word, sizeof word, 0);
    snprintf(path, sizeof path, "@sonde-fuzz-%llx", (unsigned long long)word);
    struct engine_options options = {.socket_path = path, .workers = 1, .source = ENGINE_GUEST};
    if (engine_open(&options, &engine, NULL) != SONDE_OK)
        abort();
    return engine;
}

/* An encoded Hello: field 1 of FromGuest with protocol 1, the name "f" and a uuid of 16 bytes. */
static const uint8_t hello[] = {25, 0, 0, 0, 0x0a, 23, 0x08, 1, 0x1a, 1, 'f', 0x22, 16, 1, 2,
                                3,  4, 5, 6, 7,    8,  9,    1, 2,    3, 4,   5,    6,  7};

static void settle(struct engine *engine) {
    for (int i = 0; i < 50000; i++) { /* 5 s: workers may be slow */
        engine_round(engine, 0);
        if (!engine->targets && atomic_load(&engine->jobs_running) == 0)
            return;
        if (i > 10)
            usleep(100);
    }
    abort(); /* a job or a capture never ends */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct engine *engine = the_engine();
    struct engine_capture *capture = NULL;
    int pair[2];
    if (size < 2 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return 0;
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    if (!link_create_target(engine, pair[0]))
        abort();
    uint8_t choice = data[0];
    if (choice & 1)
        send_part(pair[1], hello, sizeof hello, -1);
    engine_round(engine, 0);
    if (choice & 2) {
        struct engine_cpu_spec spec = {.frequency_hz = 99, .no_symbols = true};
        sonde_err err = engine_capture_cpu(engine, &spec, &events, NULL, &capture, NULL);
        (void)err; /* fails if there is no target */
        engine_round(engine, 0);
    }
    int passed = -1;
    if (choice & 4) {
        passed = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        (void)!ftruncate(passed, 1 << 18);
    }
    size_t first = 1 + data[1] % size;
    first = first < size ? first : size;
    send_part(pair[1], data + 1, first - 1 > 0 ? first - 1 : 1, passed);
    engine_round(engine, 0);
    send_part(pair[1], data + first, size - first, -1);
    engine_round(engine, 0);
    if (passed >= 0)
        close(passed);
    close(pair[1]);
    settle(engine);
    engine_capture_release(capture);
    return 0;
}
