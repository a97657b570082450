/* SPDX-License-Identifier: Apache-2.0
 *
 * sonded's side. A call sends one request and waits for the reply with its number. */
#include "api/base/clock.h"
#include "service/host/sampler/capabilities.h"
#include "service/host/sampler/message.h"
#include "service/host/sampler/protocol.h"

#include "service/locks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define END_WAIT_MS 1000

struct sampler {
    char *program;
    bool is_separate; /* otherwise everything is done in this process */
    struct lock lock;
    int socket; /* -1 = not running */
    pid_t pid;
    uint32_t sequence, wait_ms;
    uint64_t capabilities;
    bool is_lost;
    void (*on_loss)(const char *problem);
    char problem[192];
};

/* --- the program ------------------------------------------------------------------------------ */

/* The program gets no environment, and no descriptor but its socket and stderr. It is not in our
 * process group, so that a terminal's Ctrl-C leaves it running until we end. */
static int spawn(const char *program, int socket, pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    char *argv[] = {(char *)program, NULL}, *environment[] = {NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, socket, SAMPLER_SOCKET);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&actions, SAMPLER_SOCKET + 1);
    posix_spawnattr_init(&attributes);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
    int error = posix_spawn(pid, program, &actions, &attributes, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

/* Closing the socket ends the program. */
static void stop(struct sampler *sampler) {
    if (sampler->socket < 0)
        return;
    close(sampler->socket);
    sampler->socket = -1;
    struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, sampler->pid, 0), .events = POLLIN};
    if (ended.fd < 0 || poll(&ended, 1, END_WAIT_MS) <= 0)
        kill(sampler->pid, SIGKILL);
    if (ended.fd >= 0)
        close(ended.fd);
    while (waitpid(sampler->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    sampler->pid = 0;
}

static int start_program(struct sampler *sampler) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return errno;
    int error = spawn(sampler->program, pair[1], &sampler->pid);
    close(pair[1]);
    if (error)
        close(pair[0]);
    else
        sampler->socket = pair[0];
    return error;
}

/* --- a call ----------------------------------------------------------------------------------- */

static int receive(struct sampler *sampler, struct sampler_reply *reply, int fds[SAMPLER_MAX_FDS]) {
    return message_receive(sampler->socket, reply, fds, MSG_DONTWAIT);
}

static void discard(const struct sampler_reply *reply, const int *fds) {
    for (uint32_t i = 0; i < reply->fd_count; i++)
        close(fds[i]);
}

/* Replies to calls that had given up, and reports of deaths between calls. */
static int discard_old(struct sampler *sampler) {
    struct sampler_reply reply;
    int fds[SAMPLER_MAX_FDS], error;
    while ((error = receive(sampler, &reply, fds)) == 0)
        discard(&reply, fds);
    return error == -EAGAIN ? 0 : error;
}

static int await(struct sampler *sampler, struct sampler_reply *reply, int fds[SAMPLER_MAX_FDS]) {
    int64_t until_ms = clock_ms(CLOCK_MONOTONIC) + sampler->wait_ms;
    for (;;) {
        int64_t left_ms = until_ms - clock_ms(CLOCK_MONOTONIC);
        struct pollfd socket = {.fd = sampler->socket, .events = POLLIN};
        if (left_ms <= 0)
            return -ETIMEDOUT;
        if (poll(&socket, 1, (int)left_ms) <= 0)
            continue;
        int error = receive(sampler, reply, fds);
        if (error == -EAGAIN)
            continue;
        if (error)
            return error;
        if (reply->sequence == sampler->sequence || reply->sequence == 0)
            return reply->error;
        discard(reply, fds);
    }
}

/* One request and its reply. If the program has ended, it is not running afterwards. */
static int exchange(struct sampler *sampler, struct sampler_request *request,
                    struct sampler_reply *reply, int fds[SAMPLER_MAX_FDS]) {
    *reply = (struct sampler_reply){0};
    sampler->sequence += sampler->sequence == UINT32_MAX ? 2 : 1; /* never 0 */
    request->version = SAMPLER_VERSION;
    request->sequence = sampler->sequence;
    int error = discard_old(sampler);
    if (!error && send(sampler->socket, request, sizeof *request, MSG_NOSIGNAL) < 0)
        error = -EPIPE;
    if (error) {
        stop(sampler);
        return error;
    }
    error = await(sampler, reply, fds);
    if (error == -EPIPE && reply->sequence != 0)
        return error;
    struct pollfd end = {.fd = sampler->socket};
    if (error == -EPIPE && poll(&end, 1, 0) > 0 && (end.revents & POLLHUP))
        stop(sampler);
    return error;
}

static void note_loss(struct sampler *sampler) {
    sampler->is_lost = true;
    snprintf(sampler->problem, sizeof sampler->problem,
             "%.90s was killed: restart sonded, which then samples from outside again",
             sampler->program);
    if (sampler->on_loss)
        sampler->on_loss(sampler->problem);
}

/* Starts the program and asks for its capabilities. A failure is final: a second program would have
 * no more of them. */
static bool start(struct sampler *sampler) {
    struct sampler_request request = {.kind = SAMPLER_HELLO};
    struct sampler_reply reply;
    int fds[SAMPLER_MAX_FDS];
    int error = start_program(sampler);
    if (!error)
        error = -exchange(sampler, &request, &reply, fds);
    if (!error && (reply.capabilities & capabilities_of_sampler()) != 0) {
        uint64_t lost = sampler->capabilities & ~reply.capabilities;
        sampler->capabilities = reply.capabilities;
        if (lost & (capabilities_of_sampler() | capabilities_of_opener()))
            note_loss(sampler);
        return true;
    }
    if (sampler->socket >= 0)
        stop(sampler);
    sampler->is_separate = false;
    if (sampler->capabilities != 0) {
        note_loss(sampler);
        return false;
    }
    snprintf(sampler->problem, sizeof sampler->problem, "%.120s: %s", sampler->program,
             error == 0 || error == EPIPE ? "it has no capabilities" : strerrordesc_np(error));
    return false;
}

/* Does a request, in the program or here. */
static int call(struct sampler *sampler, struct sampler_request *request,
                int fds[SAMPLER_MAX_FDS]) {
    struct sampler_reply reply;
    uint32_t fd_count;
    request->version = SAMPLER_VERSION;
    if (!sampler_is_separate(sampler))
        return sampler_work(request, fds, &fd_count);
    lock_take(&sampler->lock);
    bool is_running = sampler->is_separate && (sampler->socket >= 0 || start(sampler));
    int error = is_running ? exchange(sampler, request, &reply, fds) : 0;
    if (is_running && sampler->socket < 0)
        (void)start(sampler); /* it was killed: notice at once if it cannot come back */
    lock_drop(&sampler->lock);
    return is_running ? error : sampler_work(request, fds, &fd_count);
}

/* --- functions -------------------------------------------------------------------------------- */

sonde_err sampler_create(const char *program, struct sampler **sampler, struct sonde_diag *diag) {
    struct sampler *made = calloc(1, sizeof *made);
    bool is_wanted = program && program[0];
    if (made)
        made->program = strdup(is_wanted ? program : "");
    *sampler = made;
    if (!made || !made->program) {
        free(made);
        *sampler = NULL;
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    }
    made->socket = -1;
    made->wait_ms = SAMPLER_WAIT_MS;
    lock_init(&made->lock, LOCK_SAMPLER);
    made->is_separate = is_wanted;
    if (is_wanted)
        (void)start(made);
    return SONDE_OK;
}

void sampler_destroy(struct sampler *sampler) {
    if (!sampler)
        return;
    stop(sampler);
    lock_finish(&sampler->lock);
    free(sampler->program);
    free(sampler);
}

bool sampler_is_separate(struct sampler *sampler) {
    if (!sampler)
        return false;
    lock_take(&sampler->lock);
    bool is_separate = sampler->is_separate;
    lock_drop(&sampler->lock);
    return is_separate;
}

uint64_t sampler_capabilities(struct sampler *sampler) {
    if (!sampler_is_separate(sampler))
        return capabilities_held();
    lock_take(&sampler->lock);
    uint64_t capabilities = sampler->capabilities;
    lock_drop(&sampler->lock);
    return capabilities;
}

void sampler_problem(struct sampler *sampler, char text[192]) {
    text[0] = 0;
    if (!sampler)
        return;
    lock_take(&sampler->lock);
    memcpy(text, sampler->problem, sizeof sampler->problem);
    lock_drop(&sampler->lock);
}

bool sampler_is_lost(struct sampler *sampler) {
    if (!sampler)
        return false;
    lock_take(&sampler->lock);
    bool is_lost = sampler->is_lost;
    lock_drop(&sampler->lock);
    return is_lost;
}

void sampler_on_loss(struct sampler *sampler, void (*on_loss)(const char *problem)) {
    lock_take(&sampler->lock);
    sampler->on_loss = on_loss;
    lock_drop(&sampler->lock);
}

const char *sampler_program(const struct sampler *sampler) {
    return sampler ? sampler->program : "";
}

pid_t sampler_pid(struct sampler *sampler) {
    lock_take(&sampler->lock);
    pid_t pid = sampler->pid;
    lock_drop(&sampler->lock);
    return pid;
}

void sampler_limit_wait(struct sampler *sampler, uint32_t wait_ms) {
    lock_take(&sampler->lock);
    sampler->wait_ms = wait_ms;
    lock_drop(&sampler->lock);
}

int sampler_perf_event(struct sampler *sampler, const struct perf_event_spec *spec) {
    struct sampler_request request = {.kind = SAMPLER_EVENT, .event = *spec};
    int fds[SAMPLER_MAX_FDS];
    int error = call(sampler, &request, fds);
    return error ? error : fds[0];
}

int sampler_open(struct sampler *sampler, enum process_file file, pid_t pid, uint64_t start_address,
                 uint64_t end) {
    struct sampler_request request = {
        .kind = SAMPLER_FILE, .file = file, .pid = pid, .start = start_address, .end = end};
    int fds[SAMPLER_MAX_FDS];
    int error = call(sampler, &request, fds);
    return error ? error : fds[0];
}

int sampler_load_off_cpu(void *sampler, const struct off_cpu_spec *spec, int fds[OFF_CPU_FDS]) {
    struct sampler_request request = {.kind = SAMPLER_OFF_CPU, .off_cpu = *spec};
    int passed[SAMPLER_MAX_FDS];
    int error = call(sampler, &request, passed);
    if (!error)
        memcpy(fds, passed, OFF_CPU_FDS * sizeof *fds);
    return error;
}

int sampler_try_bpf(struct sampler *sampler) {
    struct sampler_request request = {.kind = SAMPLER_TRY_BPF};
    int fds[SAMPLER_MAX_FDS];
    return call(sampler, &request, fds);
}

int sampler_create_event(void *sampler, const struct perf_event_spec *spec) {
    return sampler_perf_event(sampler, spec);
}

int sampler_open_file(void *sampler, enum process_file file, pid_t pid, uint64_t start_address,
                      uint64_t end) {
    return sampler_open(sampler, file, pid, start_address, end);
}
