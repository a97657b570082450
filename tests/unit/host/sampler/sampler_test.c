/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler as root's sonded uses it. */
#include "service/host/sampler/capabilities.h"
#include "service/host/sampler/protocol.h"

#include "tests/unit/check.h"
#include "tests/unit/host/sampler/scene.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sampler *open_sampler(void) {
    struct sampler *sampler;
    CHECK_INT(sampler_create(scene_program(0755, 0, false), &sampler, NULL), ==, SONDE_OK);
    CHECK(sampler_is_separate(sampler));
    return sampler;
}

/* Where this test's own code is mapped. */
static void own_mapping(uint64_t *start, uint64_t *end) {
    char line[512];
    unsigned long long low = 0, high = 0, code = (uintptr_t)own_mapping;
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%llx-%llx", &low, &high) == 2 && low <= code && code < high)
            break;
    fclose(maps);
    *start = low;
    *end = high;
}

static ino_t inode(int fd) {
    struct stat info;
    CHECK(fd >= 0 && fstat(fd, &info) == 0);
    close(fd);
    return info.st_ino;
}

static void check_files(struct sampler *sampler) {
    char text[64];
    uint64_t start, end, word = 0;
    static const uint64_t wanted = 0x1234567890abcdefull;
    own_mapping(&start, &end);
    ino_t program = inode(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    CHECK(inode(sampler_open(sampler, PROCESS_EXE, getpid(), 0, 0)) == program);
    CHECK(inode(sampler_open(sampler, PROCESS_MAPPED, getpid(), start, end)) == program);
    CHECK(inode(sampler_open(sampler, PROCESS_ROOT, getpid(), 0, 0)) ==
          inode(open("/", O_PATH | O_CLOEXEC)));
    int fd = sampler_open(sampler, PROCESS_MEMORY, getpid(), 0, 0);
    CHECK_INT(pread(fd, &word, sizeof word, (off_t)(uintptr_t)&wanted), ==, sizeof word);
    CHECK(word == wanted);
    CHECK_INT(pwrite(fd, &word, sizeof word, (off_t)(uintptr_t)&word), <, 0); /* read-only */
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    fd = sampler_open(sampler, PROCESS_MAPS, getpid(), 0, 0);
    CHECK_INT(read(fd, text, sizeof text), >, 0);
    close(fd);
    fd = sampler_open(sampler, PROCESS_KALLSYMS, 0, 0, 0);
    CHECK_INT(read(fd, text, sizeof text), >, 0);
    close(fd);
}

TEST(the_sampler_opens_what_this_process_would) {
    struct sampler *sampler = open_sampler();
    check_files(sampler);
    sampler_destroy(sampler);
    check_files(NULL);
}

TEST(the_sampler_has_its_capabilities_and_no_others) {
    struct sampler *sampler = open_sampler();
    pid_t pids[] = {sampler_pid(sampler), scene_worker(sampler_pid(sampler))};
    for (size_t i = 0; i < 2; i++) {
        CHECK_INT(pids[i], >, 0);
        static const char *const sets[] = {"CapPrm:", "CapEff:", "CapBnd:", "CapInh:", "CapAmb:"};
        /* The program itself keeps one more for an opener, without using it. */
        uint64_t spare = i == 0 ? capabilities_of_opener() : 0;
        for (size_t set = 0; set < 5; set++)
            CHECK_INT(scene_status(pids[i], sets[set]) &
                          ~(capabilities_of_sampler() | (set == 0 ? spare : 0)),
                      ==, 0);
        CHECK(scene_status(pids[i], "CapEff:") & 1ull << CAP_SYS_PTRACE);
    }
    CHECK_INT(scene_status(pids[1], "NoNewPrivs:"), ==, 1);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK_INT(scene_status(pids[1], "Seccomp:"), ==, 2);
#endif
    CHECK((sampler_capabilities(sampler) & capabilities_of_sampler()) ==
          scene_status(pids[1], "CapEff:"));
    CHECK_INT(scene_opener(pids[0]), ==, 0); /* as long as the kernel refuses nothing */
    sampler_destroy(sampler);
    CHECK_INT(kill(pids[1], 0), <, 0);
}

TEST(invalid_requests_are_refused_and_the_next_is_served) {
    struct sampler *sampler = open_sampler();
    static const struct perf_event_spec spec = {
        .pid = -1, .period_ns = 10000000, .stack_bytes = 1024};
    struct perf_event_spec bad[] = {spec, spec, spec, spec, spec};
    bad[0].pid = -2;
    bad[1].period_ns = 1;
    bad[2].stack_bytes = 65536;
    bad[3].cpu = -1;
    bad[4].stack_bytes = 1025;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_INT(sampler_perf_event(sampler, &bad[i]), ==, -EINVAL);
    CHECK_INT(sampler_open(sampler, PROCESS_FILES, getpid(), 0, 0), ==, -EINVAL);
    CHECK_INT(sampler_open(sampler, PROCESS_MAPS, 0, 0, 0), ==, -EINVAL);
    CHECK_INT(sampler_open(sampler, PROCESS_MAPS, -1, 0, 0), ==, -EINVAL);
    CHECK_INT(sampler_open(sampler, PROCESS_MAPPED, getpid(), 4096, 4096), ==, -EINVAL);
    CHECK_INT(sampler_open(sampler, PROCESS_MAPPED, getpid(), 4096, 8192), ==, -ENOENT);
    CHECK_INT(sampler_load_off_cpu(sampler, &(struct off_cpu_spec){0}, (int[OFF_CPU_FDS]){0}), ==,
              -EINVAL);
    check_files(sampler);
    sampler_destroy(sampler);
}

/* Starts the program with a socket of our own, as sonded does. */
static pid_t start_raw(int *socket) {
    int pair[2];
    const char *program = scene_program(0755, 0, false);
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), ==, 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pair[1], SAMPLER_SOCKET);
        execl(program, program, (char *)NULL);
        _exit(99);
    }
    close(pair[1]);
    *socket = pair[0];
    return pid;
}

static int raw(int socket, const struct sampler_request *request, size_t len) {
    struct sampler_reply reply = {.error = 1};
    CHECK_INT(send(socket, request, len, 0), ==, len);
    CHECK_INT(recv(socket, &reply, sizeof reply, 0), ==, sizeof reply);
    CHECK_INT(reply.fd_count, ==, 0);
    return reply.error;
}

TEST(a_malformed_message_is_refused_and_the_next_is_served) {
    struct sampler_request request[2] = {{.version = SAMPLER_VERSION, .kind = SAMPLER_HELLO}};
    int socket, status;
    pid_t pid = start_raw(&socket);
    CHECK_INT(raw(socket, request, sizeof *request), ==, 0);
    CHECK_INT(raw(socket, request, 1), ==, -EINVAL);
    CHECK_INT(raw(socket, request, sizeof *request - 1), ==, -EINVAL);
    request->kind = SAMPLER_KINDS;
    CHECK_INT(raw(socket, request, sizeof *request), ==, -EINVAL);
    request->kind = SAMPLER_HELLO;
    request->version++;
    CHECK_INT(raw(socket, request, sizeof *request), ==, -EPROTO);
    request->version--;
    CHECK_INT(raw(socket, request, sizeof *request), ==, 0);
    close(socket);
    CHECK_INT(waitpid(pid, &status, 0), ==, pid); /* it ends with us */
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* --- deaths ----------------------------------------------------------------------------------- */

static _Atomic pid_t caller;

static void *open_maps(void *sampler) {
    caller = gettid();
    int fd = sampler_open(sampler, PROCESS_MAPS, getpid(), 0, 0);
    if (fd >= 0)
        close(fd);
    return (void *)(intptr_t)fd;
}

/* Until the caller waits for its reply, in poll. */
static void wait_for_reply(void) {
    char path[64], text[16];
    do {
        snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)caller);
        FILE *file = fopen(path, "re");
        if (!file || !fgets(text, sizeof text, file))
            text[0] = 0;
        if (file)
            fclose(file);
    } while (strtol(text, NULL, 10) != SYS_poll);
}

/* Kills a process while it has a request; returns the result of the request. */
static int kill_at_work(struct sampler *sampler, pid_t worker, pid_t victim) {
    pthread_t thread;
    void *result;
    caller = 0;
    CHECK_INT(kill(worker, SIGSTOP), ==, 0);
    CHECK_INT(pthread_create(&thread, NULL, open_maps, sampler), ==, 0);
    wait_for_reply();
    CHECK_INT(kill(victim, SIGKILL), ==, 0);
    CHECK_INT(pthread_join(thread, &result), ==, 0);
    return (int)(intptr_t)result;
}

TEST(when_the_worker_dies_the_call_fails_and_the_next_is_served) {
    struct sampler *sampler = open_sampler();
    pid_t program = sampler_pid(sampler), worker = scene_worker(program);
    int maps = sampler_open(sampler, PROCESS_MAPS, getpid(), 0, 0);
    CHECK_INT(kill_at_work(sampler, worker, worker), ==, -EPIPE);
    check_files(sampler);
    CHECK_INT(sampler_pid(sampler), ==, program);
    CHECK_INT(scene_worker(program), !=, worker);
    char byte;
    CHECK_INT(read(maps, &byte, 1), ==, 1); /* what was opened before stays usable */
    close(maps);
    sampler_destroy(sampler);
}

TEST(when_the_program_dies_the_call_fails_and_the_next_starts_another) {
    struct sampler *sampler = open_sampler();
    pid_t program = sampler_pid(sampler), worker = scene_worker(program);
    CHECK_INT(kill_at_work(sampler, worker, program), ==, -EPIPE);
    check_files(sampler);
    CHECK_INT(sampler_pid(sampler), !=, program);
    sampler_destroy(sampler);
}

static char loss[192];

static void on_loss(const char *problem) {
    snprintf(loss, sizeof loss, "%s", problem);
}

/* The program is gone, as the capabilities of a program that sonded may not start again. */
TEST(a_program_that_cannot_come_back_is_reported_once_and_this_process_does_the_work) {
    struct sampler *sampler = open_sampler();
    char moved[256];
    sampler_on_loss(sampler, on_loss);
    CHECK(!sampler_is_lost(sampler));
    snprintf(moved, sizeof moved, "%s.moved", sampler_program(sampler));
    CHECK_INT(rename(sampler_program(sampler), moved), ==, 0);
    CHECK_INT(kill(sampler_pid(sampler), SIGKILL), ==, 0);
    int fd = sampler_open(sampler, PROCESS_MAPS, getpid(), 0, 0);
    CHECK(fd >= 0 || fd == -EPIPE);
    if (fd >= 0)
        close(fd);
    for (int i = 0; i < 100 && !sampler_is_lost(sampler); i++) {
        fd = sampler_open(sampler, PROCESS_MAPS, getpid(), 0, 0);
        if (fd >= 0)
            close(fd);
        usleep(10000);
    }
    CHECK(sampler_is_lost(sampler));
    CHECK(!sampler_is_separate(sampler));
    CHECK(strstr(loss, "was killed: restart sonded") != NULL);
    check_files(sampler);
    CHECK_INT(rename(moved, sampler_program(sampler)), ==, 0);
    sampler_destroy(sampler);
}

TEST(a_death_between_calls_is_no_loss_for_later_calls) {
    struct sampler *sampler = open_sampler();
    for (int i = 0; i < 5; i++) {
        CHECK_INT(kill(scene_worker(sampler_pid(sampler)), SIGKILL), ==, 0);
        int fd = sampler_open(sampler, PROCESS_MAPS, getpid(), 0, 0);
        CHECK(fd >= 0 || fd == -EPIPE);
        if (fd >= 0)
            close(fd);
        check_files(sampler);
    }
    sampler_destroy(sampler);
}

static size_t open_descriptors(void) {
    size_t count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

TEST(a_call_that_takes_too_long_fails_and_its_late_answer_is_discarded) {
    struct sampler *sampler = open_sampler();
    pid_t worker = scene_worker(sampler_pid(sampler));
    size_t before = open_descriptors();
    sampler_limit_wait(sampler, 20);
    CHECK_INT(kill(worker, SIGSTOP), ==, 0);
    CHECK_INT(sampler_open(sampler, PROCESS_EXE, getpid(), 0, 0), ==, -ETIMEDOUT);
    CHECK_INT(sampler_open(sampler, PROCESS_ROOT, getpid(), 0, 0), ==, -ETIMEDOUT);
    sampler_limit_wait(sampler, SAMPLER_WAIT_MS);
    CHECK_INT(kill(worker, SIGCONT), ==, 0);
    check_files(sampler);
    CHECK_INT(open_descriptors(), ==, before);
    sampler_destroy(sampler);
}

TEST(an_operation_that_hangs_ends_the_worker_and_the_next_call_is_served) {
    struct sampler *sampler = open_sampler();
    pid_t worker = scene_worker(sampler_pid(sampler));
    CHECK_INT(kill(worker, SIGSTOP), ==, 0);
    CHECK_INT(kill(worker, SIGALRM), ==, 0); /* as after SAMPLER_WORKER_S */
    CHECK_INT(kill(worker, SIGCONT), ==, 0);
    int fd = sampler_open(sampler, PROCESS_MAPS, getpid(), 0, 0);
    CHECK(fd >= 0 || fd == -EPIPE);
    if (fd >= 0)
        close(fd);
    check_files(sampler);
    CHECK_INT(scene_worker(sampler_pid(sampler)), !=, worker);
    sampler_destroy(sampler);
}

TEST(a_missing_program_leaves_the_work_to_this_process) {
    static const char *const programs[] = {NULL, "", "/nonexistent", "/bin/true", "/dev/null"};
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        struct sampler *sampler;
        char problem[192];
        CHECK_INT(sampler_create(programs[i], &sampler, NULL), ==, SONDE_OK);
        CHECK(!sampler_is_separate(sampler));
        sampler_problem(sampler, problem);
        CHECK_INT(problem[0] != 0, ==, i > 1);
        check_files(sampler);
        sampler_destroy(sampler);
    }
}
