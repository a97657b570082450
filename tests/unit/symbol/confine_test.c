/* SPDX-License-Identifier: Apache-2.0
 *
 * What a confined worker can and cannot do. Each attempt is made in a child of its own. */
#include "service/symbol/worker/confine.h"
#include "service/symbol/worker/worker.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns 0 if the attempt ended as it should. */
typedef int attempt(void);

/* The child's exit status, or 1000 and the signal that killed it. */
static int fork_and_run(attempt *make) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        _exit(make());
    int status = 0;
    CHECK_INT(waitpid(pid, &status, 0), ==, pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static attempt *confined_attempt;

static int confine_and_try(void) {
    for (int fd = SYMBOL_WORKER_MAIN; fd < SYMBOL_WORKER_FD_END; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            dup2(open("/dev/null", O_RDWR), fd);
    return symbol_confine() ? confined_attempt() : 99;
}

static int status_of(attempt *make) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    check_skip("a sanitizer's run-time library needs more system calls than the filter allows");
#endif
    confined_attempt = make;
    return fork_and_run(confine_and_try);
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

/* Exactly EPERM, the filter's answer: files and folders that nobody may write to answer EACCES. */
static int refused_by_filter(long result) {
    return result == -1 && errno == EPERM ? 0 : 1;
}

static const char *existing_file(void) {
    static char path[512];
    const char *folder = getenv("TEST_TMPDIR");
    snprintf(path, sizeof path, "%s/existing", folder ? folder : "/tmp");
    return path;
}

static int try_write_only(void) {
    return refused_by_filter(open(existing_file(), O_WRONLY));
}

static int try_read_write(void) {
    return refused_by_filter(open(existing_file(), O_RDWR));
}

static int try_create(void) {
    return refused_by_filter(open(existing_file(), O_RDONLY | O_CREAT, 0600));
}

static int try_truncate(void) {
    return refused_by_filter(open(existing_file(), O_RDONLY | O_TRUNC));
}

static int try_signal_parent(void) {
    return refused(kill(getppid(), 0));
}

static int try_ptrace(void) {
    return refused(ptrace(PTRACE_ATTACH, getppid(), 0, 0));
}

static int try_unlink(void) {
    return refused_by_filter(unlink(existing_file()));
}

/* The x32 table of system calls shares the 64-bit numbers, with one more bit set. */
static int try_other_table(void) {
    return syscall(0x40000000 | SYS_read, -1, NULL, 0) == -1 ? 0 : 1;
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

TEST(a_confined_worker_reaches_no_other_process_and_no_network) {
    CHECK_INT(status_of(try_socket), ==, 0);
    CHECK_INT(status_of(try_unix_socket), ==, 0);
    CHECK_INT(status_of(try_exec), ==, 0);
    CHECK_INT(status_of(try_fork), ==, 0);
    CHECK_INT(status_of(try_signal_parent), ==, 0);
    CHECK_INT(status_of(try_ptrace), ==, 0);
}

TEST(a_confined_worker_opens_files_for_reading_only) {
    FILE *file = fopen(existing_file(), "w");
    CHECK(file && fputs("text", file) >= 0 && fclose(file) == 0);
    CHECK_INT(chmod(existing_file(), 0666), ==, 0);
    CHECK_INT(status_of(try_write_only), ==, 0);
    CHECK_INT(status_of(try_read_write), ==, 0);
    CHECK_INT(status_of(try_create), ==, 0);
    CHECK_INT(status_of(try_truncate), ==, 0);
    CHECK_INT(status_of(try_unlink), ==, 0);
}

TEST(a_confined_worker_that_uses_another_table_of_system_calls_is_killed) {
    CHECK_INT(status_of(try_other_table), ==, 1000 + SIGSYS);
}

TEST(a_confined_worker_can_still_read) {
    CHECK_INT(status_of(try_read), ==, 0);
}

TEST(a_confined_worker_has_a_memory_limit) {
    CHECK_INT(status_of(try_memory), ==, 0);
}

TEST(a_confined_worker_is_not_root) {
    CHECK_INT(status_of(try_identity), ==, 0);
}
