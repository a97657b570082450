/* SPDX-License-Identifier: Apache-2.0 */
#include "service/process/live_thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A thread whose state cannot be read counts as alive: it may be hidden. */
static bool has_ended(pid_t pid, pid_t tid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = 0;
    const char *name_end = strrchr(text, ')'); /* the name can contain any character */
    return name_end && name_end[1] == ' ' && (name_end[2] == 'Z' || name_end[2] == 'X');
}

pid_t process_live_thread(pid_t pid) {
    char path[64];
    pid_t found = pid;
    if (!has_ended(pid, pid))
        return pid;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    for (struct dirent *entry; threads && found == pid && (entry = readdir(threads));) {
        long tid = strtol(entry->d_name, NULL, 10);
        if (tid > 0 && tid <= INT32_MAX && !has_ended(pid, (pid_t)tid))
            found = (pid_t)tid;
    }
    if (threads)
        closedir(threads);
    return found;
}
