/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/files/table_cache.h"

#include "api/base/array.h"
#include "api/os/shared_memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_LIMIT     ((uint64_t)1 << 30)
#define STALE_TEMPORARY_S 3600

sonde_err symbol_cache_init(struct symbol_cache *cache, const char *path, uint64_t limit,
                            struct sonde_diag *diag) {
    *cache = (struct symbol_cache){.directory = -1, .limit = limit ? limit : DEFAULT_LIMIT};
    if (!path)
        return SONDE_OK;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return sonde_fail_os(diag, errno, "cannot create the symbol cache %s", path);
    cache->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat info;
    if (cache->directory < 0 || fstat(cache->directory, &info) != 0)
        return sonde_fail_os(diag, errno, "cannot open the symbol cache %s", path);
    if ((info.st_uid == geteuid() || info.st_uid == 0) && (info.st_mode & 022) == 0)
        return SONDE_OK;
    symbol_cache_finish(cache);
    return sonde_fail(diag, SONDE_PERMISSION_DENIED,
                      "other users can write to the symbol cache %s: run chmod 700 on it", path);
}

void symbol_cache_finish(struct symbol_cache *cache) {
    if (cache->directory >= 0)
        close(cache->directory);
    cache->directory = -1;
}

void symbol_image_finish(struct symbol_image *image) {
    if (image->is_mapped)
        munmap(image->bytes, image->len);
    else
        free(image->bytes);
    *image = (struct symbol_image){0};
}

static void table_name(char name[NAME_MAX], const char *identity, const char *kind) {
    snprintf(name, NAME_MAX, "%s.%s", identity, kind);
}

/* Sets the time of the last use, in whole seconds: the fraction is the table's seal
 * (table/table_file.h) and stays. This can fail in a read-only directory. */
static void mark_used(int fd) {
    struct stat info;
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = time(NULL)}};
    if (fstat(fd, &info) != 0)
        return;
    times[1].tv_nsec = info.st_mtim.tv_nsec;
    futimens(fd, times);
}

int symbol_cache_open(const struct symbol_cache *cache, const char *identity, const char *kind) {
    char name[NAME_MAX];
    if (cache->directory < 0)
        return -1;
    table_name(name, identity, kind);
    int fd = openat(cache->directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0)
        mark_used(fd);
    return fd;
}

void symbol_cache_remove(const struct symbol_cache *cache, const char *identity, const char *kind) {
    char name[NAME_MAX];
    table_name(name, identity, kind);
    if (cache->directory >= 0)
        unlinkat(cache->directory, name, 0);
}

static int create_temporary(const struct symbol_cache *cache, char name[SYMBOL_CACHE_NAME]) {
    static atomic_uint serial;
    snprintf(name, SYMBOL_CACHE_NAME, "tmp.%d.%u", (int)getpid(), atomic_fetch_add(&serial, 1));
    unlinkat(cache->directory, name, 0); /* left by a process that had this pid */
    return openat(cache->directory, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
}

int symbol_cache_scratch(const struct symbol_cache *cache) {
    char name[SYMBOL_CACHE_NAME];
    int fd = cache->directory >= 0 ? create_temporary(cache, name) : -1;
    if (fd < 0)
        return memfd_create("sonde-symbols", MFD_CLOEXEC);
    unlinkat(cache->directory, name, 0);
    return fd;
}

static bool write_all(int fd, const char *bytes, size_t len) {
    while (len > 0) {
        ssize_t done = write(fd, bytes, len);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        bytes += done;
        len -= (size_t)done;
    }
    return true;
}

sonde_err symbol_image_map(int fd, struct symbol_image *image) {
    struct stat info;
    if (fstat(fd, &info) != 0 || info.st_size <= 0)
        return SONDE_CORRUPT;
    const void *bytes = shared_memory_map(fd, (uint64_t)info.st_size);
    if (!bytes)
        return SONDE_OUT_OF_MEMORY;
    *image = (struct symbol_image){(void *)bytes, (size_t)info.st_size, true};
    return SONDE_OK;
}

int symbol_cache_begin(const struct symbol_cache *cache, char name[SYMBOL_CACHE_NAME]) {
    int fd = cache->directory >= 0 ? create_temporary(cache, name) : -1;
    if (fd >= 0)
        return fd;
    name[0] = 0;
    return memfd_create("sonde-symbols", MFD_CLOEXEC);
}

void symbol_cache_abandon(const struct symbol_cache *cache, const char *name) {
    if (name[0])
        unlinkat(cache->directory, name, 0);
}

/* Syncs the file before it gets its name. */
bool symbol_cache_commit(const struct symbol_cache *cache, int fd, const char *name,
                         const char *identity, const char *kind) {
    char own[NAME_MAX];
    if (name[0] == 0)
        return true;
    table_name(own, identity, kind);
    if (fsync(fd) == 0 && renameat(cache->directory, name, cache->directory, own) == 0) {
        symbol_cache_evict(cache);
        return true;
    }
    symbol_cache_abandon(cache, name);
    return false;
}

static bool write_table(const struct symbol_cache *cache, const char *identity, const char *kind,
                        const struct sonde_buf *buf, struct symbol_image *image) {
    char name[SYMBOL_CACHE_NAME];
    int fd = create_temporary(cache, name);
    if (fd < 0)
        return false;
    bool done = write_all(fd, buf->data, buf->len);
    if (!done)
        symbol_cache_abandon(cache, name);
    done = done && symbol_cache_commit(cache, fd, name, identity, kind) &&
           symbol_image_map(fd, image) == SONDE_OK;
    close(fd);
    return done;
}

sonde_err symbol_cache_publish(const struct symbol_cache *cache, const char *identity,
                               const char *kind, struct sonde_buf *buf,
                               struct symbol_image *image) {
    *image = (struct symbol_image){0};
    if (cache->directory >= 0 && write_table(cache, identity, kind, buf, image)) {
        sonde_buf_finish(buf);
        return SONDE_OK;
    }
    image->bytes = sonde_buf_take(buf, &image->len);
    return image->bytes ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

/* --- eviction --------------------------------------------------------------------------------- */

struct entry {
    char name[NAME_MAX + 1];
    uint64_t bytes;
    struct timespec used;
};

struct entries {
    struct entry *items;
    size_t count, capacity;
    uint64_t bytes;
};

static int oldest_first(const void *left, const void *right) {
    const struct entry *a = left, *b = right;
    if (a->used.tv_sec != b->used.tv_sec)
        return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
    return (a->used.tv_nsec > b->used.tv_nsec) - (a->used.tv_nsec < b->used.tv_nsec);
}

static bool entries_add(struct entries *entries, const char *name, const struct stat *info) {
    if (!array_room(&entries->items, &entries->capacity, entries->count, 1))
        return false;
    struct entry *entry = &entries->items[entries->count++];
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->bytes = (uint64_t)info->st_blocks * 512;
    entry->used = info->st_mtim;
    entries->bytes += entry->bytes;
    return true;
}

static void read_directory(const struct symbol_cache *cache, DIR *listing,
                           struct entries *entries) {
    struct dirent *item;
    while ((item = readdir(listing)) != NULL) {
        struct stat info;
        if (fstatat(cache->directory, item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(info.st_mode))
            continue;
        bool temporary = strncmp(item->d_name, "tmp.", 4) == 0;
        if (temporary && time(NULL) - info.st_mtime > STALE_TEMPORARY_S)
            unlinkat(cache->directory, item->d_name, 0);
        else if (!temporary && !entries_add(entries, item->d_name, &info))
            return;
    }
}

void symbol_cache_evict(const struct symbol_cache *cache) {
    int fd = cache->directory >= 0 ? openat(cache->directory, ".", O_RDONLY | O_CLOEXEC) : -1;
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    if (!listing) {
        if (fd >= 0)
            close(fd);
        return;
    }
    struct entries entries = {0};
    read_directory(cache, listing, &entries);
    closedir(listing);
    if (entries.bytes > cache->limit)
        qsort(entries.items, entries.count, sizeof *entries.items, oldest_first);
    /* The newest file stays even if it alone exceeds the limit, because it is about to be used. */
    for (size_t i = 0; i + 1 < entries.count && entries.bytes > cache->limit; i++) {
        unlinkat(cache->directory, entries.items[i].name, 0);
        entries.bytes -= entries.items[i].bytes;
    }
    free(entries.items);
}
