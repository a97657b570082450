/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/heap/dumps.h"

#include "api/base/array.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES     (256u << 10)
#define UNFINISHED     "unfinished-"
#define MAX_DUMPS_READ 100000u /* in case somebody else has filled the directory */

bool heap_dumps_parse_name(const char *name, uint32_t *number) {
    *number = 0;
    for (int i = 0; i < 6; i++) {
        if (name[i] < '0' || name[i] > '9')
            return false;
        *number = *number * 10 + (uint32_t)(name[i] - '0');
    }
    return *number > 0 && strcmp(name + 6, ".heap") == 0;
}

bool heap_dumps_is_unfinished(const char *name) {
    return strncmp(name, UNFINISHED, sizeof UNFINISHED - 1) == 0;
}

void heap_dumps_name(uint32_t number, char name[HEAP_DUMPS_NAME]) {
    snprintf(name, HEAP_DUMPS_NAME, "%06u.heap", number % (HEAP_DUMPS_MAX_NUMBER + 1));
}

static int path_of(const struct heap_dumps *dumps, uint32_t number, char *path, size_t size) {
    char name[HEAP_DUMPS_NAME];
    heap_dumps_name(number, name);
    return snprintf(path, size, "%s/%s", dumps->dir, name);
}

static sonde_err append(struct heap_dumps *dumps, const struct heap_dump *dump) {
    if (!array_room(&dumps->items, &dumps->capacity, dumps->count, 1))
        return SONDE_OUT_OF_MEMORY;
    dumps->items[dumps->count++] = *dump;
    dumps->bytes += dump->bytes;
    return SONDE_OK;
}

static int by_time(const void *a, const void *b) {
    const struct heap_dump *left = a, *right = b;
    if (left->unix_ns != right->unix_ns)
        return left->unix_ns > right->unix_ns ? 1 : -1;
    return (left->number > right->number) - (left->number < right->number);
}

static sonde_err read_entry(struct heap_dumps *dumps, int dir, const char *name) {
    struct heap_dump dump = {0};
    struct stat file;
    if (heap_dumps_is_unfinished(name))
        unlinkat(dir, name, 0);
    if (!heap_dumps_parse_name(name, &dump.number) ||
        fstatat(dir, name, &file, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(file.st_mode))
        return SONDE_OK;
    dump.unix_ns = (int64_t)file.st_mtim.tv_sec * 1000000000ll + file.st_mtim.tv_nsec;
    dump.bytes = (uint64_t)file.st_size;
    return dumps->count < MAX_DUMPS_READ ? append(dumps, &dump) : SONDE_OK;
}

static uint32_t highest_number(const struct heap_dumps *dumps) {
    uint32_t highest = 0;
    for (uint32_t i = 0; i < dumps->count; i++)
        highest = dumps->items[i].number > highest ? dumps->items[i].number : highest;
    return highest;
}

sonde_err heap_dumps_open(struct heap_dumps *dumps, const char *dir) {
    *dumps = (struct heap_dumps){0};
    if (!dir)
        return SONDE_OK;
    dumps->dir = strdup(dir);
    if (!dumps->dir)
        return SONDE_OUT_OF_MEMORY;
    DIR *listing = opendir(dir);
    sonde_err err = SONDE_OK;
    for (struct dirent *entry; listing && !err && (entry = readdir(listing));)
        err = read_entry(dumps, dirfd(listing), entry->d_name);
    if (listing)
        closedir(listing);
    if (dumps->count > 1)
        qsort(dumps->items, dumps->count, sizeof *dumps->items, by_time);
    dumps->last_number = highest_number(dumps);
    return err;
}

void heap_dumps_finish(struct heap_dumps *dumps) {
    free(dumps->dir);
    free(dumps->items);
    *dumps = (struct heap_dumps){0};
}

/* Creates the directory and its parent, which is in the data directory. */
sonde_err heap_dumps_prepare(const struct heap_dumps *dumps, struct sonde_diag *diag) {
    if (!dumps->dir)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "sonded has no data directory to keep periodic dumps in: start it with "
                          "--data-dir");
    char above[4096];
    snprintf(above, sizeof above, "%s", dumps->dir);
    char *slash = strrchr(above, '/');
    if (slash)
        *slash = 0;
    bool made = (!slash || mkdir(above, 0700) == 0 || errno == EEXIST) &&
                (mkdir(dumps->dir, 0700) == 0 || errno == EEXIST) &&
                access(dumps->dir, W_OK | X_OK) == 0;
    return made ? SONDE_OK : sonde_fail_os(diag, errno, "no directory for heap dumps can be made");
}

char *heap_dumps_unfinished(struct heap_dumps *dumps) {
    char *path = NULL;
    if (asprintf(&path, "%s/" UNFINISHED "%u", dumps->dir ? dumps->dir : "", ++dumps->writes) < 0)
        return NULL;
    return path;
}

/* Reads instead of mapping, because the sender could shrink the memfd meanwhile. */
static int copy_bytes(int from, int to, uint64_t limit, uint64_t *bytes) {
    char *buffer = malloc(COPY_BYTES);
    int error = buffer ? 0 : ENOMEM;
    for (*bytes = 0; !error;) {
        ssize_t got = pread(from, buffer, COPY_BYTES, (off_t)*bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            error = got < 0 ? errno : 0;
            break;
        }
        for (ssize_t done = 0, put; done < got && !error; done += put > 0 ? put : 0) {
            put = write(to, buffer + done, (size_t)(got - done));
            error = put < 0 && errno != EINTR ? errno : 0;
        }
        *bytes += (uint64_t)got;
        error = !error && *bytes > limit ? EFBIG : error;
    }
    free(buffer);
    return error;
}

sonde_err heap_dumps_write(const char *path, int fd, uint64_t limit, uint64_t *bytes,
                           struct sonde_diag *diag) {
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return sonde_fail_os(diag, errno, "a heap dump cannot be saved");
    int error = copy_bytes(fd, file, limit, bytes);
    if (!error && fsync(file) != 0)
        error = errno;
    if (close(file) != 0 && !error)
        error = errno;
    if (!error)
        return SONDE_OK;
    unlink(path);
    if (*bytes > limit)
        return sonde_fail(diag, SONDE_TOO_LARGE,
                          "a heap dump is larger than the limit of %llu bytes",
                          (unsigned long long)limit);
    return sonde_fail_os(diag, error, "a heap dump cannot be written");
}

/* One after the highest number; after the last number, the next free one. */
static uint32_t next_number(const struct heap_dumps *dumps) {
    uint32_t number = dumps->last_number;
    do
        number = number >= HEAP_DUMPS_MAX_NUMBER ? 1 : number + 1;
    while (heap_dumps_find(dumps, number));
    return number;
}

static void sync_directory(const char *dir) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

sonde_err heap_dumps_add(struct heap_dumps *dumps, const char *path, uint64_t bytes, uint64_t epoch,
                         struct sonde_diag *diag) {
    char final[4096];
    struct stat file;
    struct heap_dump dump = {.number = next_number(dumps), .bytes = bytes, .epoch = epoch};
    path_of(dumps, dump.number, final, sizeof final);
    if (stat(path, &file) != 0 || rename(path, final) != 0) {
        int error = errno;
        unlink(path);
        return sonde_fail_os(diag, error, "a heap dump cannot be saved");
    }
    dump.unix_ns = (int64_t)file.st_mtim.tv_sec * 1000000000ll + file.st_mtim.tv_nsec;
    sonde_err err = append(dumps, &dump);
    if (err) {
        unlink(final);
        return sonde_fail(diag, err, "out of memory");
    }
    dumps->last_number = dump.number;
    sync_directory(dumps->dir);
    return SONDE_OK;
}

static void drop_oldest(struct heap_dumps *dumps, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        char path[4096];
        path_of(dumps, dumps->items[i].number, path, sizeof path);
        unlink(path);
        dumps->bytes -= dumps->items[i].bytes;
    }
    dumps->count -= count;
    memmove(dumps->items, dumps->items + count, dumps->count * sizeof *dumps->items);
}

void heap_dumps_prune(struct heap_dumps *dumps, uint32_t keep, uint64_t keep_bytes) {
    uint64_t bytes = dumps->bytes;
    uint32_t drop = 0;
    while (drop + 1 < dumps->count && (dumps->count - drop > keep || bytes > keep_bytes))
        bytes -= dumps->items[drop++].bytes;
    if (drop > 0)
        drop_oldest(dumps, drop);
}

void heap_dumps_delete(struct heap_dumps *dumps) {
    if (dumps->count > 0)
        drop_oldest(dumps, dumps->count);
    dumps->last_number = 0;
}

const struct heap_dump *heap_dumps_find(const struct heap_dumps *dumps, uint32_t number) {
    for (uint32_t i = 0; i < dumps->count; i++)
        if (dumps->items[i].number == number)
            return &dumps->items[i];
    return NULL;
}

int heap_dumps_open_file(const struct heap_dumps *dumps, uint32_t number) {
    char path[4096];
    path_of(dumps, number, path, sizeof path);
    return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}
