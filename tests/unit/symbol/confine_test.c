/* SPDX-License-Identifier: Apache-2.0
 *
 * What the worker can no longer do. Each attempt is made in a child that was confined. */
#include "service/symbol/worker/confine.h"
#include "service/symbol/worker/worker.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* 0 = refused as it should be. */
typedef int attempt(void);

static int status_of(attempt *make) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    check_skip("a sanitizer's run-time needs more system calls than the worker has");
#endif
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        for (int fd = SYMBOL_WORKER_MAIN; fd < SYMBOL_WORKER_FD_END; fd++)
            if (fcntl(fd, F_GETFD) < 0)
                dup2(open("/dev/null", O_RDWR), fd);
        _exit(symbol_confine() ? make() : 99);
    }
    int status = 0;
    CHECK_INT(waitpid(pid, &status, 0), ==, pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int refused(long result) {
    return result == -1 && (errno == EPERM || errno == EACCES) ? 0 : 1;
}

static int try_socket(void) {
    return refused(socket(AF_INET, SOCK_STREAM, 0));
}

static int try_unix_socket(void) {
    return refused(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int try_exec(void) {
    return refused(execl("/bin/true", "true", (char *)NULL));
}

static int try_fork(void) {
    return refused(fork());
}

static int try_write_file(void) {
    return refused(open("/tmp/sonde-confined", O_WRONLY | O_CREAT, 0600));
}

static int try_signal_parent(void) {
    return refused(kill(getppid(), 0));
}

static int try_ptrace(void) {
    return refused(ptrace(PTRACE_ATTACH, getppid(), 0, 0));
}

static int try_unlink(void) {
    return refused(unlink("/tmp/sonde-confined"));
}

static int try_read(void) {
    char byte;
    int fd = open("/proc/self/status", O_RDONLY);
    return fd >= 0 && read(fd, &byte, 1) == 1 ? 0 : 1;
}

static int try_memory(void) {
    void *some = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *much = mmap(NULL, 1ul << 40, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return some != MAP_FAILED && much == MAP_FAILED ? 0 : 1;
}

static int try_identity(void) {
    char text[2048];
    int fd = open("/proc/self/status", O_RDONLY);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    text[len > 0 ? len : 0] = 0;
    const char *uid = strstr(text, "Uid:\t");
    return uid && strncmp(uid, "Uid:\t0", 6) != 0 ? 0 : 1;
}

TEST(a_confined_worker_reaches_nobody) {
    CHECK_INT(status_of(try_socket), ==, 0);
    CHECK_INT(status_of(try_unix_socket), ==, 0);
    CHECK_INT(status_of(try_exec), ==, 0);
    CHECK_INT(status_of(try_fork), ==, 0);
    CHECK_INT(status_of(try_signal_parent), ==, 0);
    CHECK_INT(status_of(try_ptrace), ==, 0);
}

TEST(a_confined_worker_changes_no_file) {
    CHECK_INT(status_of(try_write_file), ==, 0);
    CHECK_INT(status_of(try_unlink), ==, 0);
}

TEST(a_confined_worker_can_still_read) {
    CHECK_INT(status_of(try_read), ==, 0);
}

TEST(a_confined_worker_has_a_bound_on_memory) {
    CHECK_INT(status_of(try_memory), ==, 0);
}

TEST(a_confined_worker_is_not_root) {
    CHECK_INT(status_of(try_identity), ==, 0);
}
