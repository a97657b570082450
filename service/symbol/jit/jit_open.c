/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the files of a JIT compiler. Both are looked up in the process's own root. They must belong
 * to the process's user, because everyone can write to /tmp. */
#include "service/process/inner_pid.h"
#include "service/symbol/jit/perf_map.h"
#include "service/symbol/locate/locate.h"
#include "service/symbol/locate/proc_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* `root` is the process in whose root to look; 0 = ours. */
static int open_map(pid_t root, pid_t named, uid_t owner) {
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)named);
    int fd = symbol_open_no_link(root, path);
    if (fd >= 0 && (fstat(fd, &info) != 0 || info.st_uid != owner)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int symbol_perf_map_open(pid_t pid, uid_t *owner) {
    char process[64];
    struct stat info;
    snprintf(process, sizeof process, "/proc/%d", (int)pid);
    if (stat(process, &info) != 0)
        return -1;
    *owner = info.st_uid;
    int fd = open_map(pid, process_inner_tid(pid, pid), info.st_uid);
    return fd >= 0 ? fd : open_map(0, pid, info.st_uid);
}

int symbol_perf_map_open_left(pid_t pid, uid_t owner) {
    bool is_unused = kill(pid, 0) != 0 && errno == ESRCH;
    return is_unused ? open_map(0, pid, owner) : -1;
}

/* --- jitdump ---------------------------------------------------------------------------------- */

/* "…/jit-PID.dump" */
static bool is_dump(const char *path, pid_t inner, pid_t outer) {
    const char *base = strrchr(path, '/');
    int pid, end = 0;
    if (!base || sscanf(base, "/jit-%d.dump%n", &pid, &end) != 1 || end == 0)
        return false;
    return base[end] == 0 && (pid == inner || pid == outer);
}

static int open_mapped(pid_t pid, const struct symbol_mapping *mapping) {
    int fd = symbol_open_mapped(pid, mapping);
    return fd >= 0 || mapping->is_deleted ? fd : symbol_open_no_link(pid, mapping->path);
}

/* Opens the first jitdump that the process has mapped executable. */
static int find_mapped(pid_t pid, pid_t inner) {
    char text[PATH_MAX + 128];
    struct proc_maps_line line;
    int fd = -1;
    FILE *maps = proc_maps_open(pid);
    while (maps && fd < 0 && fgets(text, sizeof text, maps))
        if (proc_maps_parse(text, &line) && line.is_executable &&
            is_dump(line.mapping.path, inner, pid))
            fd = open_mapped(pid, &line.mapping);
    if (maps)
        fclose(maps);
    return fd;
}

int symbol_jitdump_open(pid_t pid) {
    char process[64];
    struct stat owner, info;
    snprintf(process, sizeof process, "/proc/%d", (int)pid);
    if (stat(process, &owner) != 0)
        return -1;
    int fd = find_mapped(pid, process_inner_tid(pid, pid));
    if (fd >= 0 && (fstat(fd, &info) != 0 || info.st_uid != owner.st_uid)) {
        close(fd);
        fd = -1;
    }
    return fd;
}
