/* SPDX-License-Identifier: Apache-2.0
 *
 * A list has one path per line: "/usr/bin/redis-server". Some packages list files by the old names
 * of merged directories, /lib/x for /usr/lib/x. */
#include "service/symbol/debian_package.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Packages whose symbols are in a package of another name, in the main archive. */
static const struct other_name {
    const char *package, *symbols;
} other_names[] = {{"libc6", "libc6-dbg"}};

struct search {
    int folder;
    char wanted[2][PATH_MAX + 2]; /* "\n/usr/lib/x\n" and "\n/lib/x\n", "" = none */
    char *text;
    size_t capacity, read; /* of the text; bytes of all lists so far */
};

static bool set_wanted(struct search *search, const char *path) {
    size_t len = strlen(path);
    if (path[0] != '/' || len >= PATH_MAX - 1 || strchr(path, '\n'))
        return false;
    snprintf(search->wanted[0], sizeof search->wanted[0], "\n%s\n", path);
    if (strncmp(path, "/usr/", 5) == 0)
        snprintf(search->wanted[1], sizeof search->wanted[1], "\n%s\n", path + 4);
    return true;
}

static bool make_room(struct search *search, size_t size) {
    if (size <= search->capacity)
        return true;
    char *grown = realloc(search->text, size);
    if (!grown)
        return false;
    search->text = grown;
    search->capacity = size;
    return true;
}

/* Reads a list between two newlines. Returns the length; 0 = it could not be read. */
static size_t read_list(struct search *search, const char *name) {
    struct stat info;
    int fd = openat(search->folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    size_t len = 0;
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
        size_t size = (size_t)info.st_size;
        size = size < DEBIAN_MAX_LIST_BYTES ? size : DEBIAN_MAX_LIST_BYTES;
        ssize_t got = make_room(search, size + 2) ? pread(fd, search->text + 1, size, 0) : 0;
        len = got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        close(fd);
    if (len == 0)
        return 0;
    search->text[0] = search->text[len + 1] = '\n';
    search->read += len;
    return len + 2;
}

static bool lists_file(struct search *search, const char *name) {
    size_t len = read_list(search, name);
    for (int i = 0; i < 2 && len > 0; i++) {
        size_t wanted = strlen(search->wanted[i]);
        if (wanted && memmem(search->text, len, search->wanted[i], wanted))
            return true;
    }
    return false;
}

/* "redis-tools.list", "libc6:amd64.list" */
static void set_name(struct debian_package *package, const char *list) {
    int len = (int)strcspn(list, ":");
    if (!list[len])
        len -= (int)strlen(".list");
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++) {
        const struct other_name *other = &other_names[i];
        if (strlen(other->package) == (size_t)len && strncmp(list, other->package, len) == 0) {
            snprintf(package->name, sizeof package->name, "%s", other->symbols);
            package->is_main = true;
            return;
        }
    }
    snprintf(package->name, sizeof package->name, "%.*s-dbgsym", len < 100 ? len : 100, list);
    package->is_main = false;
}

static bool is_list(const char *name) {
    size_t len = strlen(name), end = strlen(".list");
    return len > end && strcmp(name + len - end, ".list") == 0;
}

bool debian_package_find(const char *folder, const char *path, struct debian_package *package) {
    struct search search = {0};
    DIR *entries = set_wanted(&search, path) ? opendir(folder) : NULL;
    bool found = false;
    if (!entries)
        return false;
    search.folder = dirfd(entries);
    struct dirent *entry;
    for (int i = 0; !found && i < DEBIAN_MAX_LISTS && search.read < DEBIAN_MAX_BYTES &&
                    (entry = readdir(entries)) != NULL;) {
        if (!is_list(entry->d_name))
            continue;
        i++;
        found = lists_file(&search, entry->d_name);
        if (found)
            set_name(package, entry->d_name);
    }
    closedir(entries);
    free(search.text);
    return found;
}
