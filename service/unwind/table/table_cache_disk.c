/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/table/table_cache_disk.h"

#include "api/base/array.h"
#include "service/unwind/table/table.h"
#include "service/unwind/table/table_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SUFFIX      ".unwind"
#define TEMPORARY   ".new-" /* a hidden file, which no identity can name */
#define NAME_BYTES  (UNWIND_CACHE_IDENTITY + sizeof SUFFIX)
#define MAX_TABLE   (256u << 20)
#define STALE_AFTER 3600 /* seconds; an older temporary file was left by a crash */

struct stored_table {
    char name[NAME_BYTES];
    uint64_t bytes;
    struct timespec used;
};

static void file_name(char *name, const char *identity) {
    snprintf(name, NAME_BYTES, "%s%s", identity, SUFFIX);
}

/* Calls visit for each entry of the directory. The directory stream has its own descriptor. */
static void each_entry(int dir_fd, void (*visit)(int, const char *, void *), void *context) {
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        visit(dir_fd, entry->d_name, context);
    closedir(dir);
}

static void remove_stale(int dir_fd, const char *name, void *context) {
    const time_t *now = context;
    struct stat status;
    if (strncmp(name, TEMPORARY, sizeof TEMPORARY - 1) == 0 &&
        fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        status.st_mtime + STALE_AFTER < *now)
        unlinkat(dir_fd, name, 0);
}

int unwind_disk_open(const char *dir) {
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return -1;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    time_t now = time(NULL);
    if (fd >= 0)
        each_entry(fd, remove_stale, &now);
    return fd;
}

static bool read_whole(int fd, struct sonde_buf *table) {
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > MAX_TABLE ||
        status.st_size < (off_t)sizeof(struct unwind_header))
        return false;
    size_t len = (size_t)status.st_size;
    char *bytes = sonde_buf_extend(table, len);
    for (size_t done = 0; bytes && done < len;) {
        ssize_t got = pread(fd, bytes + done, len - done, (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return bytes != NULL;
}

bool unwind_disk_load(int dir_fd, const char *identity, struct sonde_buf *table, bool *discarded) {
    char name[NAME_BYTES];
    file_name(name, identity);
    *discarded = false;
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool good = read_whole(fd, table) && unwind_table_check(table->data, table->len) == SONDE_OK;
    if (good) {
        futimens(fd, NULL); /* the time of the last use */
    } else {
        *discarded = true;
        unlinkat(dir_fd, name, 0);
        sonde_buf_finish(table);
    }
    close(fd);
    return good;
}

static bool write_whole(int fd, const struct sonde_buf *table) {
    for (size_t done = 0; done < table->len;) {
        ssize_t put = write(fd, table->data + done, table->len - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        done += (size_t)put;
    }
    return true;
}

void unwind_disk_store(int dir_fd, const char *identity, const struct sonde_buf *table) {
    static atomic_uint counter;
    char name[NAME_BYTES], temporary[64];
    file_name(name, identity);
    snprintf(temporary, sizeof temporary, "%s%d-%u", TEMPORARY, (int)getpid(),
             atomic_fetch_add(&counter, 1));
    int fd = openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    bool good = write_whole(fd, table) && fsync(fd) == 0;
    good = close(fd) == 0 && good;
    if (!good || renameat(dir_fd, temporary, dir_fd, name) != 0)
        unlinkat(dir_fd, temporary, 0);
}

struct listing {
    struct stored_table *files;
    size_t count, capacity;
    uint64_t bytes;
};

static void list_table(int dir_fd, const char *name, void *context) {
    struct listing *listing = context;
    struct stat status;
    size_t len = strlen(name);
    if (len >= NAME_BYTES || len < sizeof SUFFIX ||
        strcmp(name + len - (sizeof SUFFIX - 1), SUFFIX) != 0 ||
        fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    if (!array_room(&listing->files, &listing->capacity, listing->count, 1))
        return;
    struct stored_table *stored = &listing->files[listing->count++];
    memcpy(stored->name, name, len + 1);
    stored->bytes = (uint64_t)status.st_size;
    stored->used = status.st_mtim;
    listing->bytes += stored->bytes;
}

static int by_use(const void *left, const void *right) {
    const struct timespec *a = &((const struct stored_table *)left)->used;
    const struct timespec *b = &((const struct stored_table *)right)->used;
    if (a->tv_sec != b->tv_sec)
        return a->tv_sec < b->tv_sec ? -1 : 1;
    return (a->tv_nsec > b->tv_nsec) - (a->tv_nsec < b->tv_nsec);
}

void unwind_disk_trim(int dir_fd, uint64_t limit) {
    struct listing listing = {0};
    each_entry(dir_fd, list_table, &listing);
    if (listing.bytes > limit)
        qsort(listing.files, listing.count, sizeof *listing.files, by_use);
    for (size_t i = 0; i < listing.count && listing.bytes > limit; i++)
        if (unlinkat(dir_fd, listing.files[i].name, 0) == 0)
            listing.bytes -= listing.files[i].bytes;
    free(listing.files);
}
