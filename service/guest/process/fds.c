/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/fds.h"

#include "service/guest/process/append.h"
#include "service/guest/raw.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARKABLE  65536u
#define HIGH      1024 /* FD_SETSIZE: select cannot wait for numbers from here on */
#define WORD_BITS 64u

static _Atomic uint64_t marks[MARKABLE / WORD_BITS];

static uint64_t bit(unsigned fd) {
    return 1ull << (fd % WORD_BITS);
}

/* At least half of the numbers that the process may use stay below ours. */
static int lowest_number(void) {
    struct rlimit limit = {HIGH, HIGH};
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur / 2 < HIGH ? (int)limit.rlim_cur / 2 : HIGH;
}

static int mark(int fd) {
    if ((unsigned)fd < MARKABLE)
        atomic_fetch_or(&marks[(unsigned)fd / WORD_BITS], bit((unsigned)fd));
    return fd;
}

int fds_raise(int fd, fds_check *is_ours, const void *context) {
    int high = fcntl(fd, F_DUPFD_CLOEXEC, lowest_number());
    if (high < 0)
        return is_ours(fd, context) ? mark(fd) : -1;
    if (!is_ours(high, context)) {
        raw_close(high);
        return -1;
    }
    if (is_ours(fd, context))
        raw_close(fd);
    return mark(high);
}

void fds_forget(int fd) {
    if ((unsigned)fd < MARKABLE)
        atomic_fetch_and(&marks[(unsigned)fd / WORD_BITS], ~bit((unsigned)fd));
}

bool fds_marked(int fd) {
    return (unsigned)fd < MARKABLE &&
           atomic_load_explicit(&marks[(unsigned)fd / WORD_BITS], memory_order_relaxed) &
               bit((unsigned)fd);
}

uint64_t fds_next(uint64_t from, uint64_t to) {
    for (uint64_t at = from; at <= to && at < MARKABLE; at++) {
        if (at % WORD_BITS == 0 && !atomic_load(&marks[at / WORD_BITS]))
            at += WORD_BITS - 1;
        else if (fds_marked((int)at))
            return at;
    }
    return to + 1;
}

static struct fds_file describe(int fd) {
    struct fds_file file = {.fd = fd};
    struct stat status;
    char path[40] = "/proc/thread-self/fd/";
    if (raw_fstat(fd, &status) != 0)
        return FDS_NONE;
    file.device = status.st_dev;
    file.inode = status.st_ino;
    append_number(path, sizeof path, (uint64_t)fd);
    if (readlink(path, file.link, sizeof file.link - 1) < 0)
        file.link[0] = 0;
    return file;
}

static bool is_file(int fd, const void *context) {
    const struct fds_file *file = context;
    struct fds_file now = fd >= 0 ? describe(fd) : FDS_NONE;
    bool same_link = !now.link[0] || !file->link[0] || strcmp(now.link, file->link) == 0;
    return now.fd >= 0 && now.device == file->device && now.inode == file->inode && same_link;
}

struct fds_file fds_keep(int fd) {
    struct fds_file file = describe(fd);
    if (file.fd >= 0)
        file.fd = fds_raise(fd, is_file, &file);
    return file.fd >= 0 ? file : FDS_NONE;
}

bool fds_ours(const struct fds_file *file) {
    return is_file(file->fd, file);
}

void fds_close(struct fds_file *file) {
    if (file->fd < 0)
        return;
    bool ours = fds_ours(file);
    fds_forget(file->fd);
    if (ours)
        raw_close(file->fd);
    *file = FDS_NONE;
}
