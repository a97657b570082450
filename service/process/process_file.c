/* SPDX-License-Identifier: Apache-2.0 */
#include "service/process/process_file.h"

#include "service/process/live_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static process_file_opener *opener;
static void *opener_context;

/* What a process maps or runs can be a device or a FIFO, on which open has effects. O_PATH has
 * none. */
static int open_regular(const char *path) {
    struct stat info;
    char link[64];
    int found = open(path, O_PATH | O_CLOEXEC);
    if (found < 0)
        return -errno;
    int fd = -EINVAL;
    if (fstat(found, &info) == 0 && S_ISREG(info.st_mode)) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", found);
        fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        fd = fd < 0 ? -errno : fd;
    }
    close(found);
    return fd;
}

static int open_path(const char *path, int flags) {
    int fd = open(path, O_CLOEXEC | flags);
    return fd < 0 ? -errno : fd;
}

/* A task's folder has no map_files. The kernel has them under /proc/TID, which it does not list. */
void process_mapped_path(pid_t pid, uint64_t start, uint64_t end, char path[PROCESS_MAPPED_PATH]) {
    snprintf(path, PROCESS_MAPPED_PATH, "/proc/%d/map_files/%llx-%llx",
             (int)process_live_thread(pid), (unsigned long long)start, (unsigned long long)end);
}

int process_file_open_own(enum process_file file, pid_t pid, uint64_t start, uint64_t end) {
    static const char *const leaves[] = {[PROCESS_MAPS] = "maps",
                                         [PROCESS_EXE] = "exe",
                                         [PROCESS_ROOT] = "root",
                                         [PROCESS_MEMORY] = "mem",
                                         [PROCESS_PAGEMAP] = "pagemap"};
    char path[PROCESS_MAPPED_PATH];
    if (file == PROCESS_KALLSYMS)
        return open_path("/proc/kallsyms", O_RDONLY);
    if (file >= PROCESS_FILES || pid <= 0 || (file == PROCESS_MAPPED && start >= end))
        return -EINVAL;
    if (file == PROCESS_MAPPED)
        process_mapped_path(pid, start, end, path);
    else
        snprintf(path, sizeof path, "/proc/%d/task/%d/%s", (int)pid, (int)process_live_thread(pid),
                 leaves[file]);
    if (file == PROCESS_EXE || file == PROCESS_MAPPED)
        return open_regular(path);
    return open_path(path, file == PROCESS_ROOT ? O_PATH | O_DIRECTORY : O_RDONLY);
}

/* The kernel lets anybody open kallsyms, but shows zeros to those who may not see addresses. */
static bool has_addresses(int fd) {
    char text[16] = "";
    ssize_t len = pread(fd, text, sizeof text, 0);
    for (ssize_t i = 0; i < len; i++)
        if (text[i] != '0')
            return true;
    return false;
}

int process_file_open(enum process_file file, pid_t pid, uint64_t start, uint64_t end) {
    int fd = process_file_open_own(file, pid, start, end);
    if (!opener)
        return fd;
    bool is_refused = fd == -EACCES || fd == -EPERM;
    if (file == PROCESS_KALLSYMS)
        is_refused |= fd >= 0 && !has_addresses(fd);
    else if (geteuid() == 0)
        is_refused = false;
    if (!is_refused)
        return fd;
    int other = opener(opener_context, file, pid, start, end);
    if (other < 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return other;
}

void process_file_set_opener(process_file_opener *use, void *context) {
    opener = use;
    opener_context = context;
}
