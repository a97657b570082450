/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/procfs.h"

#include "service/guest/process/append.h"
#include "service/guest/raw.h"

#include <fcntl.h>
#include <string.h>

/* What getdents64 returns. */
struct entry {
    uint64_t inode;
    int64_t offset;
    uint16_t size;
    uint8_t type;
    char name[];
};

static bool is_digit(char byte) {
    return byte >= '0' && byte <= '9';
}

static uint64_t parse_decimal(const char *at) {
    uint64_t number = 0;
    for (; is_digit(*at); at++)
        number = number * 10 + (uint64_t)(*at - '0');
    return number;
}

static uint64_t parse_hex(const char *at) {
    uint64_t number = 0;
    for (; is_digit(*at) || (*at >= 'a' && *at <= 'f'); at++)
        number = number << 4 | (uint64_t)(is_digit(*at) ? *at - '0' : *at - 'a' + 10);
    return number;
}

long procfs_read_file(const char *path, char *buffer, size_t size) {
    long fd = system_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0);
    if (fd < 0)
        return fd;
    long used = 0, got = 1;
    while (got > 0 && (size_t)used < size - 1) {
        got = system_call3(SYS_read, fd, (long)(buffer + used), (long)(size - 1) - used);
        used += got > 0 ? got : 0;
    }
    raw_close((int)fd);
    buffer[used] = 0;
    return got < 0 ? got : used;
}

bool procfs_each_number(const char *path, void (*visit)(uint32_t number, void *context),
                        void *context) {
    static _Alignas(8) char buffer[16384];
    long fd =
        system_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0);
    if (fd < 0)
        return false;
    long got;
    while ((got = system_call3(SYS_getdents64, fd, (long)buffer, sizeof buffer)) > 0)
        for (long at = 0; at < got;) {
            const struct entry *entry = (const struct entry *)(buffer + at);
            if (is_digit(*entry->name))
                visit((uint32_t)parse_decimal(entry->name), context);
            at += entry->size;
        }
    raw_close((int)fd);
    return got == 0;
}

uint64_t procfs_stat_field(int number) {
    char text[1024];
    if (procfs_read_file("/proc/self/stat", text, sizeof text) <= 0)
        return 0;
    const char *at = strrchr(text, ')'); /* field 2, the name, may hold anything */
    for (int field = 2; at && field < number; field++)
        at = strchr(at + 1, ' ');
    return at ? parse_decimal(at + 1) : 0;
}

/* ---- Threads ---- */

static long read_task_file(uint32_t tid, const char *name, char *buffer, size_t size) {
    char path[64] = "/proc/self/task/";
    append_number(path, sizeof path, tid);
    append_text(path, sizeof path, name);
    return procfs_read_file(path, buffer, size);
}

/* What follows a line's name in a status file; "" if there is no such line. */
static const char *value_of(const char *text, const char *line) {
    const char *at = strstr(text, line);
    if (!at)
        return "";
    at += strlen(line);
    return at + strspn(at, " \t");
}

uint64_t procfs_task_mask(uint32_t tid, const char *line) {
    char text[4096];
    if (read_task_file(tid, "/status", text, sizeof text) <= 0)
        return 0;
    return parse_hex(value_of(text, line));
}

bool procfs_task_seccomp(uint32_t tid, struct procfs_seccomp *seccomp) {
    char text[4096];
    if (read_task_file(tid, "/status", text, sizeof text) <= 0)
        return false;
    seccomp->mode = parse_decimal(value_of(text, "\nSeccomp:"));
    seccomp->filters = parse_decimal(value_of(text, "\nSeccomp_filters:"));
    return true;
}

bool procfs_is_traced(void) {
    char text[4096];
    return procfs_read_file("/proc/thread-self/status", text, sizeof text) > 0 &&
           parse_decimal(value_of(text, "\nTracerPid:")) != 0;
}

void procfs_task_name(uint32_t tid, char name[16]) {
    char text[32];
    memset(name, 0, 16);
    if (read_task_file(tid, "/comm", text, sizeof text) <= 0)
        return;
    size_t len = strcspn(text, "\n");
    memcpy(name, text, len < 16 ? len : 15);
}

static uint64_t parse_address(const char *at) {
    return parse_hex(at[0] == '0' && at[1] == 'x' ? at + 2 : at);
}

/* The file holds "running", or numbers of which the last two are sp and pc. */
enum procfs_state procfs_task_state(uint32_t tid, uint64_t *pc, uint64_t *sp) {
    char text[256];
    if (read_task_file(tid, "/syscall", text, sizeof text) <= 0)
        return PROCFS_UNKNOWN;
    if (text[0] == 'r')
        return PROCFS_RUNNING;
    char *last = strrchr(text, ' ');
    if (!last)
        return PROCFS_UNKNOWN;
    *pc = parse_address(last + 1);
    *last = 0;
    last = strrchr(text, ' ');
    *sp = last ? parse_address(last + 1) : 0;
    return PROCFS_BLOCKED;
}

/* The second number of "run waited slices". */
int64_t procfs_task_waited_ns(uint32_t tid) {
    char text[96];
    if (read_task_file(tid, "/schedstat", text, sizeof text) <= 0)
        return -1;
    const char *space = strchr(text, ' ');
    return space ? (int64_t)parse_decimal(space + 1) : -1;
}
