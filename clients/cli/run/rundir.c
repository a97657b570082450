/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory of a run is named run-PID-XXXXXX. If no process has that PID, the run was killed,
 * and the next run deletes its directory. If the PID was reused, that happens later. */
#include "clients/cli/run/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* True if path is a directory of this user that nobody else can enter. */
static bool is_private(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
           (info.st_mode & 077) == 0;
}

/* Finds or creates the parent of all run directories. False if none can be trusted. */
static bool find_base(char base[RUNDIR_MAX]) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    for (int i = 0; i < 2; i++) {
        int len = i == 0 ? snprintf(base, RUNDIR_MAX, "%s/sonde", runtime ? runtime : "")
                         : snprintf(base, RUNDIR_MAX, "/tmp/sonde-%u", (unsigned)geteuid());
        if (len > RUNDIR_MAX - 24 || (i == 0 && (!runtime || runtime[0] != '/')))
            continue;
        mkdir(base, 0700); /* is_private checks the result */
        if (is_private(base))
            return true;
    }
    return false;
}

static void remove_folder(const char *path) {
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    rmdir(path);
}

/* The PID in the name of a run directory; 0 for other names. */
static pid_t pid_of(const char *name) {
    int pid = 0;
    return sscanf(name, "run-%d-", &pid) == 1 && pid > 0 ? pid : 0;
}

static bool is_alive(pid_t pid) {
    return kill(pid, 0) == 0 || errno == EPERM;
}

static void sweep(const char *base) {
    DIR *folder = opendir(base);
    if (!folder)
        return;
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        char path[RUNDIR_MAX + 256];
        pid_t pid = pid_of(entry->d_name);
        snprintf(path, sizeof path, "%s/%s", base, entry->d_name);
        if (pid && !is_alive(pid) && is_private(path))
            remove_folder(path);
    }
    closedir(folder);
}

sonde_err rundir_create(struct rundir *dir, struct sonde_diag *diag) {
    char base[RUNDIR_MAX];
    bool shared = find_base(base);
    if (shared)
        sweep(base);
    int len = snprintf(dir->path, sizeof dir->path, "%s/run-%d-XXXXXX", shared ? base : "/tmp",
                       (int)getpid());
    if (len < (int)sizeof dir->path && mkdtemp(dir->path))
        return SONDE_OK;
    int os_error = errno;
    dir->path[0] = 0;
    return sonde_fail_os(diag, os_error, "cannot create a private directory in %s",
                         shared ? base : "/tmp");
}

void rundir_remove(struct rundir *dir) {
    if (dir->path[0])
        remove_folder(dir->path);
    dir->path[0] = 0;
}

void rundir_file(const struct rundir *dir, const char *name, char out[108]) {
    snprintf(out, 108, "%s/%s", dir->path, name);
}

void rundir_each_service(const char *base, void (*each)(void *context, const char *path),
                         void *context) {
    DIR *folder = opendir(base);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[RUNDIR_MAX + 256 + 32];
        pid_t pid = pid_of(entry->d_name);
        int len = snprintf(path, sizeof path, "%s/%s/service.sock", base, entry->d_name);
        if (pid && len < (int)sizeof path && is_alive(pid) && access(path, F_OK) == 0)
            each(context, path);
    }
    if (folder)
        closedir(folder);
}
