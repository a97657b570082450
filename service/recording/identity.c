/* SPDX-License-Identifier: Apache-2.0 */
#include "service/recording/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static void read_identity(const char *path, struct identity *identity) {
    char text[64] = "", end = 0;
    uint64_t source;
    uint32_t epoch;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = 0;
    bool is_whole =
        sscanf(text, "%16" SCNx64 " %" SCNu32 "%c", &source, &epoch, &end) == 3 && end == '\n';
    if (is_whole && source != 0 && epoch != 0 && epoch < UINT32_MAX)
        *identity = (struct identity){source, epoch + 1};
}

static bool write_durably(const char *path, const char *text) {
    char other[4096 + 8];
    snprintf(other, sizeof other, "%s.new", path);
    int fd = open(other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool is_written = write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fsync(fd) == 0;
    close(fd);
    return is_written && rename(other, path) == 0;
}

/* The new name of the file must be durable, too. */
static void sync_directory(const char *dir) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

sonde_err identity_begin(const char *dir, struct identity *identity, struct sonde_diag *diag) {
    char path[4096], text[64];
    snprintf(path, sizeof path, "%s/source", dir);
    *identity = (struct identity){0};
    read_identity(path, identity);
    while (identity->source == 0) {
        if (getrandom(&identity->source, sizeof identity->source, 0) < 0)
            return sonde_fail_os(diag, errno, "no random number");
        identity->epoch = 1;
    }
    snprintf(text, sizeof text, "%016" PRIx64 " %" PRIu32 "\n", identity->source, identity->epoch);
    if (!write_durably(path, text))
        return sonde_fail_os(diag, errno, "%s cannot be written", path);
    sync_directory(dir);
    return SONDE_OK;
}
