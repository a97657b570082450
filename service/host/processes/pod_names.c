/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/processes/pod_names.h"

#include "service/locks.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct directory {
    const char *path;
    struct timespec modified;
    char **entries;
    size_t count;
};

struct pod_directories {
    struct lock lock;
    struct directory pods, containers;
};

struct pod_directories pod_directories_of_node = {
    .lock = {PTHREAD_MUTEX_INITIALIZER, LOCK_POD_NAMES},
    .pods = {.path = "/var/log/pods"},
    .containers = {.path = "/var/log/containers"},
};

static void forget(struct directory *directory) {
    for (size_t i = 0; i < directory->count; i++)
        free(directory->entries[i]);
    free(directory->entries);
    directory->entries = NULL;
    directory->count = 0;
}

/* False: it could not be read. */
static bool read_entries(struct directory *directory) {
    DIR *dir = opendir(directory->path);
    char **entries = dir ? calloc(POD_MAX_ENTRIES, sizeof *entries) : NULL;
    const struct dirent *entry;
    while (entries && directory->count < POD_MAX_ENTRIES && (entry = readdir(dir)) != NULL) {
        entries[directory->count] = strdup(entry->d_name);
        directory->count += entries[directory->count] != NULL;
    }
    directory->entries = entries;
    if (dir)
        closedir(dir);
    return entries != NULL;
}

/* Whoever adds or removes an entry changes the directory's time. It is taken before the entries, so
 * that a change meanwhile is seen at the next look. */
static void refresh(struct directory *directory) {
    struct stat now = {0};
    bool is_there = stat(directory->path, &now) == 0;
    if (is_there && now.st_mtim.tv_sec == directory->modified.tv_sec &&
        now.st_mtim.tv_nsec == directory->modified.tv_nsec)
        return;
    forget(directory);
    directory->modified = is_there ? now.st_mtim : (struct timespec){0};
    if (is_there && !read_entries(directory))
        directory->modified = (struct timespec){0}; /* the next look tries again */
}

/* The entry that ends in mark, key and suffix, and the length of what comes before them. */
static const char *find(struct directory *directory, char mark, const char *key, const char *suffix,
                        size_t *len) {
    size_t key_len = strlen(key), suffix_len = strlen(suffix);
    if (key_len == 0)
        return NULL;
    refresh(directory);
    for (size_t i = 0; i < directory->count; i++) {
        const char *entry = directory->entries[i];
        size_t all = strlen(entry), end = 1 + key_len + suffix_len;
        if (all <= end || entry[all - end] != mark ||
            memcmp(entry + all - end + 1, key, key_len) != 0 ||
            memcmp(entry + all - suffix_len, suffix, suffix_len) != 0)
            continue;
        *len = all - end;
        return entry;
    }
    return NULL;
}

/* Texts that are longer than a name may be are no names. */
static void copy(char *out, size_t size, const char *text, size_t len) {
    if (len >= size)
        return;
    memcpy(out, text, len);
    out[len] = 0;
}

static void find_pod(struct directory *pods, const char *uid, struct pod_names *names) {
    size_t len = 0;
    const char *entry = find(pods, '_', uid, "", &len);
    const char *between = entry ? memchr(entry, '_', len) : NULL;
    if (!between)
        return;
    size_t first = (size_t)(between - entry);
    copy(names->namespace_name, sizeof names->namespace_name, entry, first);
    copy(names->pod, sizeof names->pod, between + 1, len - first - 1);
}

static void find_container(struct directory *containers, const char *id, struct pod_names *names) {
    size_t len = 0;
    const char *entry = find(containers, '-', id, ".log", &len);
    const char *name = entry ? memrchr(entry, '_', len) : NULL;
    if (name)
        copy(names->container, sizeof names->container, name + 1, len - (size_t)(name + 1 - entry));
}

void pod_names_find(struct pod_directories *directories, const char *uid, const char *container_id,
                    struct pod_names *names) {
    *names = (struct pod_names){0};
    lock_take(&directories->lock);
    find_pod(&directories->pods, uid, names);
    find_container(&directories->containers, container_id, names);
    lock_drop(&directories->lock);
}

struct pod_directories *pod_directories_create(const char *pods, const char *containers) {
    struct pod_directories *directories = calloc(1, sizeof *directories);
    if (!directories)
        return NULL;
    lock_init(&directories->lock, LOCK_POD_NAMES);
    directories->pods.path = pods;
    directories->containers.path = containers;
    return directories;
}

void pod_directories_destroy(struct pod_directories *directories) {
    if (!directories)
        return;
    forget(&directories->pods);
    forget(&directories->containers);
    lock_finish(&directories->lock);
    free(directories);
}
