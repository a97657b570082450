/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/run/sonded_once.h"

#include "api/settings/install.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ANSWER_BYTES ((size_t)2048 << 20)

/* Its input is the file, its output a file in memory, so nothing can block. */
static pid_t start(const char *program, const char *argument, int in, int out, int errors) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    unsetenv("LD_PRELOAD");
    /* If our own were closed, some of these have their numbers. */
    in = fcntl(in, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    out = fcntl(out, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    errors = fcntl(errors, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(errors, STDERR_FILENO) >= 0)
        execl(program, program, argument, (char *)NULL);
    _exit(127);
}

static sonde_err read_back(int fd, struct sonde_buf *bytes) {
    off_t size = lseek(fd, 0, SEEK_END);
    if (size <= 0)
        return SONDE_OK;
    if ((size_t)size > MAX_ANSWER_BYTES)
        return SONDE_TOO_LARGE;
    char *to = sonde_buf_extend(bytes, (size_t)size);
    for (off_t at = 0; to && at < size;) {
        ssize_t got = pread(fd, to + at, (size_t)(size - at), at);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return SONDE_IO;
        at += got > 0 ? got : 0;
    }
    return to ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

/* The process exits with a sonde_err, whose sentence it has printed. */
static sonde_err judge(int status, int errors, struct sonde_diag *diag) {
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    char text[sizeof diag->text] = "";
    if (code == 0)
        return SONDE_OK;
    ssize_t len = pread(errors, text, sizeof text - 1, 0);
    if (code > 0 && code < 127 && len > 0)
        return sonde_fail(diag, (sonde_err)code, "%s", text);
    return sonde_fail(diag, SONDE_INTERNAL, "`sonded` has failed");
}

static sonde_err run(const char *argument, int in, int out, int errors, struct sonde_buf *answer,
                     struct sonde_diag *diag) {
    char program[PATH_MAX];
    int status = 0;
    sonde_err err = install_find(INSTALLED_SONDED, program, diag);
    if (err)
        return err;
    pid_t pid = start(program, argument, in, out, errors);
    if (pid < 0)
        return sonde_fail_os(diag, errno, "cannot start %s", program);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    err = judge(status, errors, diag);
    if (err)
        return err;
    err = read_back(out, answer);
    return err ? sonde_fail(diag, err, "the answer does not fit into memory") : SONDE_OK;
}

sonde_err sonded_once(const char *argument, int fd, struct sonde_buf *answer,
                      struct sonde_diag *diag) {
    int out = memfd_create("answer", MFD_CLOEXEC), errors = memfd_create("errors", MFD_CLOEXEC);
    sonde_err err;
    if (out < 0 || errors < 0 || lseek(fd, 0, SEEK_SET) < 0)
        err = sonde_fail_os(diag, errno, "cannot keep the answer in memory");
    else
        err = run(argument, fd, out, errors, answer, diag);
    if (out >= 0)
        close(out);
    if (errors >= 0)
        close(errors);
    return err;
}

sonde_err sonded_once_bytes(const char *argument, struct sonde_slice input,
                            struct sonde_buf *answer, struct sonde_diag *diag) {
    int fd = memfd_create("input", MFD_CLOEXEC);
    size_t at = 0;
    while (fd >= 0 && at < input.len) {
        ssize_t put = write(fd, input.data + at, input.len - at);
        if (put < 0 && errno != EINTR)
            break;
        at += put > 0 ? (size_t)put : 0;
    }
    sonde_err err = fd < 0 || at < input.len
                        ? sonde_fail_os(diag, errno, "cannot keep the input in memory")
                        : sonded_once(argument, fd, answer, diag);
    if (fd >= 0)
        close(fd);
    return err;
}
