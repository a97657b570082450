/* SPDX-License-Identifier: Apache-2.0 */
#include "service/programs/private_captures.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "captures-of-"

static void remove_files(int folder) {
    DIR *entries = fdopendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(entries), entry->d_name, 0);
    if (entries)
        closedir(entries); /* and the descriptor */
    else
        close(folder);
}

static void remove_folder(int parent, const char *name) {
    int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0)
        remove_files(folder);
    unlinkat(parent, name, AT_REMOVEDIR);
}

static bool is_of_ended(const char *name) {
    const char *digits = name + strlen(PREFIX);
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || !*digits || strlen(digits) > 9 ||
        strspn(digits, "0123456789") != strlen(digits))
        return false;
    return kill((pid_t)strtol(digits, NULL, 10), 0) != 0 && errno == ESRCH;
}

void private_captures_open(const char *data_dir, char path[PRIVATE_CAPTURES_PATH]) {
    DIR *entries = opendir(data_dir);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (is_of_ended(entry->d_name))
            remove_folder(dirfd(entries), entry->d_name);
    if (entries)
        closedir(entries);
    snprintf(path, PRIVATE_CAPTURES_PATH, "%s/" PREFIX "%d", data_dir, (int)getppid());
}

void private_captures_remove(const char *path) {
    remove_folder(AT_FDCWD, path);
}
