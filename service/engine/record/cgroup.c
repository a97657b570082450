/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/record/cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void cgroup_parse(const char *text, char path[CGROUP_BYTES]) {
    path[0] = 0;
    size_t longest = 1; /* longer than "/" */
    while (*text) {
        size_t len = strcspn(text, "\n");
        const char *second = memchr(text, ':', len);
        const char *third =
            second ? memchr(second + 1, ':', len - (size_t)(second + 1 - text)) : NULL;
        size_t path_len = third ? len - (size_t)(third + 1 - text) : 0;
        if (path_len > longest && path_len < CGROUP_BYTES) {
            memcpy(path, third + 1, path_len);
            path[path_len] = 0;
            longest = path_len;
        }
        text += len + (text[len] == '\n');
    }
}

void cgroup_read(pid_t pid, char path[CGROUP_BYTES]) {
    char name[64], text[8192];
    snprintf(name, sizeof name, "/proc/%d/cgroup", (int)pid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = 0;
    cgroup_parse(text, path);
}
