/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/heap/dump_retention.h"

#include "api/base/clock.h"
#include "service/engine/heap/dumps.h"
#include "service/engine/heap/saved_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_DIRECTORIES 16384u /* most directories per pass */
#define MAX_LINES       8 /* lines of a state file to search for the one that names its process */
#define NS_PER_S        1000000000ll
#define NAME_BYTES      64u

struct ended_process {
    char name[NAME_BYTES];
    int64_t changed_ns;
    uint64_t bytes;
};

bool heap_sweep_parse_name(const char *name, int32_t *pid) {
    size_t digits = strspn(name, "0123456789");
    const char *rest = name + digits;
    if (digits == 0 || digits > 9 || *rest != '-' || strlen(name) >= NAME_BYTES)
        return false;
    *pid = (int32_t)strtol(name, NULL, 10);
    return *pid > 0 && rest[1] != 0 && rest[1 + strspn(rest + 1, "0123456789abcdef")] == 0;
}

/* ---- Living processes ---- */

uint64_t heap_sweep_ticks(int32_t pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = 0;
    const char *after_name = strrchr(text, ')');
    unsigned long long ticks = 0;
    if (!after_name || sscanf(after_name + 1,
                              " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                              "%*d %*d %*d %llu",
                              &ticks) != 1)
        return 0;
    return ticks;
}

/* From the state file; 0 = unknown. */
static uint64_t remembered_ticks(int dir, const char *name) {
    struct heap_saved_state memory = {0};
    char path[NAME_BYTES + 8];
    snprintf(path, sizeof path, "%s/state", name);
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (file) {
        heap_saved_state_read(&memory, NULL, file);
        fclose(file);
    } else if (fd >= 0) {
        close(fd);
    }
    return memory.ticks;
}

/* A process with another start time only has the same pid. */
bool heap_sweep_is_alive(int dir, const char *name, int32_t pid) {
    uint64_t began = heap_sweep_ticks(pid);
    uint64_t remembered = began ? remembered_ticks(dir, name) : 0;
    return began != 0 && (remembered == 0 || remembered == began);
}

/* ---- Directories ---- */

static uint64_t bytes_in(int dir, const char *name) {
    uint64_t bytes = 0;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    struct stat file;
    for (struct dirent *entry; listing && (entry = readdir(listing));)
        if (fstatat(fd, entry->d_name, &file, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(file.st_mode))
            bytes += (uint64_t)file.st_size;
    if (listing)
        closedir(listing);
    else if (fd >= 0)
        close(fd);
    return bytes;
}

/* False if it is not such a directory, or if its process lives. */
static bool read_ended(int dir, const char *name, struct ended_process *ended) {
    struct stat folder;
    int32_t pid;
    if (!heap_sweep_parse_name(name, &pid) ||
        fstatat(dir, name, &folder, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(folder.st_mode))
        return false;
    ended->changed_ns = (int64_t)folder.st_mtim.tv_sec * NS_PER_S + folder.st_mtim.tv_nsec;
    if (heap_sweep_is_alive(dir, name, pid))
        return false;
    snprintf(ended->name, sizeof ended->name, "%s", name);
    ended->bytes = bytes_in(dir, name);
    return true;
}

static uint32_t read_all(DIR *listing, struct ended_process *list) {
    uint32_t count = 0;
    for (struct dirent *entry; count < MAX_DIRECTORIES && (entry = readdir(listing));)
        count += read_ended(dirfd(listing), entry->d_name, &list[count]);
    return count;
}

static int newest_first(const void *a, const void *b) {
    const struct ended_process *left = a, *right = b;
    return (left->changed_ns < right->changed_ns) - (left->changed_ns > right->changed_ns);
}

/* ---- Removal ---- */

static bool is_ours(const char *name) {
    uint32_t number;
    return heap_dumps_parse_name(name, &number) || heap_dumps_is_unfinished(name) ||
           strcmp(name, "state") == 0 || strcmp(name, "state.new") == 0;
}

/* A directory with files of somebody else stays. */
static bool remove_directory(int dir, const char *name) {
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    for (struct dirent *entry; listing && (entry = readdir(listing));)
        if (is_ours(entry->d_name))
            unlinkat(fd, entry->d_name, 0);
    if (listing)
        closedir(listing);
    else if (fd >= 0)
        close(fd);
    return unlinkat(dir, name, AT_REMOVEDIR) == 0;
}

static uint32_t remove_beyond(int dir, const struct ended_process *list, uint32_t count,
                              const struct heap_sweep_limits *limits) {
    int64_t now_ns = clock_ns(CLOCK_REALTIME);
    uint64_t bytes = 0;
    uint32_t kept = 0, removed = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct ended_process *ended = &list[i];
        if (kept < limits->count && bytes + ended->bytes <= limits->bytes &&
            now_ns - ended->changed_ns <= limits->age_ns) {
            bytes += ended->bytes;
            kept++;
        } else {
            removed += remove_directory(dir, ended->name);
        }
    }
    return removed;
}

uint32_t heap_sweep(const char *dir, const struct heap_sweep_limits *limits) {
    uint32_t removed = 0;
    DIR *listing = opendir(dir);
    struct ended_process *list = listing ? calloc(MAX_DIRECTORIES, sizeof *list) : NULL;
    if (list) {
        uint32_t count = read_all(listing, list);
        qsort(list, count, sizeof *list, newest_first);
        removed = remove_beyond(dirfd(listing), list, count, limits);
    }
    free(list);
    if (listing)
        closedir(listing);
    return removed;
}
