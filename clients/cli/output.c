/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define OTHER_COLUMNS 80 /* of a terminal that does not say its width */

/* True for a pipe, a terminal or /dev/null, which must not be replaced by a file. */
static bool is_special(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

static sonde_err open_temporary(struct output *output, struct sonde_diag *diag) {
    const char *slash = strrchr(output->path, '/');
    int folder = slash ? (int)(slash + 1 - output->path) : 0;
    int len = snprintf(output->temporary, PATH_MAX, "%.*s.sonde-XXXXXX", folder, output->path);
    output->fd = len < PATH_MAX ? mkostemp(output->temporary, O_CLOEXEC) : -1;
    if (output->fd < 0) {
        int os_error = len < PATH_MAX ? errno : ENAMETOOLONG;
        output->temporary[0] = 0;
        return sonde_fail_os(diag, os_error, "cannot write %.200s", output->path);
    }
    mode_t mask = umask(0);
    umask(mask);
    fchmod(output->fd, 0666 & ~mask);
    return SONDE_OK;
}

sonde_err output_open(struct output *output, const char *path, struct sonde_diag *diag) {
    *output = (struct output){.path = path, .fd = -1};
    if (strcmp(path, "-") == 0)
        output->fd = fcntl(1, F_DUPFD_CLOEXEC, 3);
    else if (is_special(path))
        output->fd = open(path, O_WRONLY | O_CLOEXEC);
    else
        return open_temporary(output, diag);
    return output->fd < 0 ? sonde_fail_os(diag, errno, "cannot write %.200s", path) : SONDE_OK;
}

/* The reader of stdout has what it wants: nothing is wrong. */
static bool has_reader_gone(const struct output *output, int os_error) {
    return os_error == EPIPE && strcmp(output->path, "-") == 0;
}

sonde_err output_write(struct output *output, const void *data, size_t len,
                       struct sonde_diag *diag) {
    const char *at = data;
    while (len > 0) {
        ssize_t written = write(output->fd, at, len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && has_reader_gone(output, errno))
            return SONDE_OK;
        if (written < 0)
            return sonde_fail_os(diag, errno, "cannot write %.200s", output->path);
        at += written;
        len -= (size_t)written;
    }
    return SONDE_OK;
}

sonde_err output_commit(struct output *output, struct sonde_diag *diag) {
    int result = close(output->fd);
    output->fd = -1;
    if (result == 0 && output->temporary[0])
        result = rename(output->temporary, output->path);
    if (result != 0)
        return sonde_fail_os(diag, errno, "cannot write %.200s", output->path);
    output->temporary[0] = 0;
    return SONDE_OK;
}

void output_finish(struct output *output) {
    if (output->fd >= 0)
        close(output->fd);
    output->fd = -1;
    if (output->temporary[0])
        unlink(output->temporary);
    output->temporary[0] = 0;
}

size_t output_terminal_columns(int fd) {
    struct winsize size;
    if (!isatty(fd))
        return 0;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : OTHER_COLUMNS;
}

size_t output_columns(const char *path) {
    return strcmp(path, "-") == 0 ? output_terminal_columns(STDOUT_FILENO) : 0;
}
