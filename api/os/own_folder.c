/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/own_folder.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Cuts off the last part of the path. False: nothing is left, or only the root. */
static bool to_parent(char *path) {
    char *slash = strrchr(path, '/');
    while (slash && slash > path && slash[1] == 0) { /* "folder/" */
        *slash = 0;
        slash = strrchr(path, '/');
    }
    if (!slash || slash == path)
        return false;
    *slash = 0;
    return true;
}

static bool is_open_to_all(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && (info.st_mode & S_IWOTH);
}

static sonde_err judge(const char *folder, const char *option, struct sonde_diag *diag) {
    struct stat info;
    if (lstat(folder, &info) != 0)
        return sonde_fail_os(diag, errno, "cannot look at %.80s", folder);
    if (!S_ISDIR(info.st_mode))
        return sonde_fail(
            diag, SONDE_PERMISSION_DENIED,
            "%.80s is not a directory, and anybody could have made it; remove it, set "
            "XDG_RUNTIME_DIR, or choose another %s",
            folder, option);
    if (info.st_uid != geteuid() && info.st_uid != 0)
        return sonde_fail(diag, SONDE_PERMISSION_DENIED,
                          "%.80s belongs to user %u, who could pose as Sonde; set XDG_RUNTIME_DIR, "
                          "or choose another %s",
                          folder, (unsigned)info.st_uid, option);
    if (info.st_mode & 022)
        return sonde_fail(diag, SONDE_PERMISSION_DENIED,
                          "other users may write to %.80s; run chmod 0700 on it", folder);
    return SONDE_OK;
}

sonde_err own_folder_check(const char *file, const char *option, struct sonde_diag *diag) {
    char folder[PATH_MAX], parent[PATH_MAX];
    if (snprintf(folder, sizeof folder, "%s", file) >= (int)sizeof folder || !to_parent(folder))
        return SONDE_OK;
    memcpy(parent, folder, sizeof parent);
    if (!to_parent(parent) || !is_open_to_all(parent))
        return SONDE_OK;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return sonde_fail_os(diag, errno, "cannot create the directory %.80s", folder);
    return judge(folder, option, diag);
}
