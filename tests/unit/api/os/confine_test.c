/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/confine.h"

#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each attempt returns 0 if it succeeded, else errno. */
static int outcome(long result) {
    return result < 0 ? errno : 0;
}

static int start_program(void) {
    char *arguments[] = {(char *)"/bin/true", NULL}, *environment[] = {NULL};
    return outcome(execve(arguments[0], arguments, environment));
}

static int start_process(void) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    return pid < 0 ? errno : (waitpid(pid, NULL, 0), 0);
}

static int write_file(void) {
    return outcome(open("/dev/null", O_WRONLY | O_CLOEXEC));
}

static int create_file(void) {
    return outcome(open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
}

static int read_file(void) {
    return outcome(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

static int trace(void) {
    return outcome(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static int read_own_memory(void) {
    char from = 1, to = 0;
    struct iovec source = {&from, 1}, copy = {&to, 1};
    return outcome(process_vm_readv(getpid(), &copy, 1, &source, 1, 0));
}

static int change_user(void) {
    return outcome(syscall(SYS_setresuid, geteuid(), geteuid(), geteuid()));
}

static int enter_namespace(void) {
    return outcome(unshare(CLONE_NEWUSER));
}

static int mount_folder(void) {
    return outcome(mount("/", "/", NULL, MS_REMOUNT | MS_BIND, NULL));
}

/* A socket, or a capability to use. */
static int open_socket(void) {
    return outcome(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int map_memory(void) {
    return mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? errno
                                                                                         : 0;
}

static int load_bpf(void) {
    return outcome(syscall(SYS_bpf, 0, NULL, 0));
}

static int change_event(void) {
    return outcome(ioctl(0, 0, 0));
}

/* The call itself is allowed: the kernel looks at its arguments. */
static int open_event(void) {
    return outcome(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
}

static int receive_nothing(void) {
    return outcome(recv(-1, NULL, 0, 0));
}

static void *nothing(void *unused) {
    return unused;
}

static int start_thread(void) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, nothing, NULL);
    return error ? error : pthread_join(thread, NULL);
}

/* The outcome of an attempt in a process of its own, which has given up these rights. */
static int attempt(enum confine_rights rights, int (*act)(void)) {
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct sonde_diag diag = {0};
        if (confine_process(rights, &diag) ||
            (rights != CONFINE_OPENER && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1))
            _exit(255);
        _exit(act());
    }
    CHECK_INT(waitpid(pid, &status, 0), ==, pid);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(a_service_changes_neither_mounts_nor_namespaces) {
    CHECK_INT(attempt(CONFINE_SERVICE, mount_folder), ==, EPERM);
    CHECK_INT(attempt(CONFINE_SERVICE, enter_namespace), ==, EPERM);
}

TEST(a_service_starts_its_workers_and_reads_its_targets) {
    CHECK_INT(attempt(CONFINE_SERVICE, start_program), ==, 0);
    CHECK_INT(attempt(CONFINE_SERVICE, start_process), ==, 0);
    CHECK_INT(attempt(CONFINE_SERVICE, read_own_memory), ==, 0);
    CHECK_INT(attempt(CONFINE_SERVICE, write_file), ==, 0);
}

TEST(a_frontend_starts_no_program_and_no_process) {
    CHECK_INT(attempt(CONFINE_FRONTEND, start_program), ==, EPERM);
    CHECK_INT(attempt(CONFINE_FRONTEND, start_process), ==, EPERM);
}

TEST(a_frontend_writes_no_file) {
    CHECK_INT(attempt(CONFINE_FRONTEND, write_file), ==, EPERM);
    CHECK_INT(attempt(CONFINE_FRONTEND, create_file), ==, EPERM);
}

TEST(a_frontend_neither_traces_nor_reads_other_processes) {
    CHECK_INT(attempt(CONFINE_FRONTEND, trace), ==, EPERM);
    CHECK_INT(attempt(CONFINE_FRONTEND, read_own_memory), ==, EPERM);
}

TEST(a_frontend_keeps_its_user_mounts_and_namespaces) {
    CHECK_INT(attempt(CONFINE_FRONTEND, change_user), ==, EPERM);
    CHECK_INT(attempt(CONFINE_FRONTEND, mount_folder), ==, EPERM);
    CHECK_INT(attempt(CONFINE_FRONTEND, enter_namespace), ==, EPERM);
}

TEST(an_opener_opens_events_over_its_socket_and_nothing_else) {
    int (*const refused[])(void) = {
        start_program,   start_process, write_file,   create_file,  read_file,
        trace,           change_user,   mount_folder, open_socket,  enter_namespace,
        read_own_memory, map_memory,    load_bpf,     change_event,
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK_INT(attempt(CONFINE_OPENER, refused[i]), ==, EPERM);
    CHECK_INT(attempt(CONFINE_OPENER, open_event), ==, EFAULT);
    CHECK_INT(attempt(CONFINE_OPENER, receive_nothing), ==, EBADF);
}

TEST(a_frontend_reads_files_and_starts_threads) {
    CHECK_INT(attempt(CONFINE_FRONTEND, read_file), ==, 0);
    CHECK_INT(attempt(CONFINE_FRONTEND, start_thread), ==, 0);
}

static void *confine_all(void *result) {
    struct sonde_diag diag = {0};
    *(sonde_err *)result = confine_process(CONFINE_FRONTEND, &diag);
    return NULL;
}

static int write_after_another_thread_confined(void) {
    pthread_t thread;
    sonde_err err = SONDE_CANCELLED;
    if (pthread_create(&thread, NULL, confine_all, &err) || pthread_join(thread, NULL) || err)
        return 255;
    return write_file();
}

TEST(all_threads_are_confined) {
    CHECK_INT(attempt(CONFINE_SERVICE, write_after_another_thread_confined), ==, EPERM);
}
