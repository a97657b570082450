/* SPDX-License-Identifier: Apache-2.0 */
#include "service/process/inner_pid.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The last number of "NSpid:". */
pid_t process_inner_tid(pid_t pid, pid_t tid) {
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%d/status", (int)pid, (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = 0;
    char *at = strstr(text, "\nNSpid:");
    if (!at)
        return tid;
    at += strlen("\nNSpid:");
    at[strcspn(at, "\n")] = 0;
    for (pid_t inner = tid;;) {
        char *end;
        long value = strtol(at, &end, 10);
        if (end == at)
            return inner;
        inner = (pid_t)value;
        at = end;
    }
}
