/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/secrets/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static sonde_err read_all(int fd, const char *path, const char *what, struct sonde_buf *out,
                          struct sonde_diag *diag) {
    for (;;) {
        char bytes[4096];
        ssize_t got = read(fd, bytes, sizeof bytes);
        if (got < 0)
            return sonde_fail_os(diag, errno, "cannot read the %s %s", what, path);
        if (got == 0)
            return SONDE_OK;
        sonde_buf_append(out, bytes, (size_t)got);
        if (out->failed)
            return sonde_fail(diag, SONDE_TOO_LARGE, "the %s %s is too large", what, path);
    }
}

sonde_err sonde_file_read(const char *path, const char *what, enum sonde_file_kind kind,
                          struct sonde_buf *out, struct sonde_diag *diag) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return sonde_fail_os(diag, errno, "cannot open the %s %s", what, path);
    sonde_err err;
    if (fstat(fd, &info) != 0)
        err = sonde_fail_os(diag, errno, "cannot read the %s %s", what, path);
    else if (kind == SONDE_FILE_SECRET && (info.st_mode & S_IROTH))
        err =
            sonde_fail(diag, SONDE_PERMISSION_DENIED,
                       "other users can read the %s %s; run chmod 600 %s first", what, path, path);
    else
        err = read_all(fd, path, what, out, diag);
    close(fd);
    return err;
}
