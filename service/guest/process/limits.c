/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/limits.h"

#include "service/guest/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>

/* What getdents64 gives. */
struct entry {
    uint64_t inode;
    int64_t offset;
    uint16_t size;
    uint8_t type;
    char name[];
};

static bool digit(char byte) {
    return byte >= '0' && byte <= '9';
}

static uint64_t number_at(const char **text) {
    uint64_t number = 0;
    while (digit(**text))
        number = number * 10 + (uint64_t)(*(*text)++ - '0');
    return number;
}

bool limits_kernel_at_least(unsigned major, unsigned minor) {
    struct utsname name;
    if (uname(&name) != 0)
        return false;
    const char *at = name.release;
    uint64_t first = number_at(&at), second = 0;
    if (*at++ == '.')
        second = number_at(&at);
    return first > major || (first == major && second >= minor);
}

bool limits_each_number(const char *path, void (*visit)(uint32_t number, void *context),
                        void *context) {
    static _Alignas(8) char buffer[16384];
    long fd = raw_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0);
    if (fd < 0)
        return false;
    long got;
    while ((got = raw_call3(SYS_getdents64, fd, (long)buffer, sizeof buffer)) > 0)
        for (long at = 0; at < got;) {
            const struct entry *entry = (const struct entry *)(buffer + at);
            const char *name = entry->name;
            if (digit(*name))
                visit((uint32_t)number_at(&name), context);
            at += entry->size;
        }
    raw_close((int)fd);
    return got == 0;
}

static void count(uint32_t number, void *context) {
    int *sum = context;
    *sum += *sum < 65536;
}

void limits_descriptors(int *open_now, int *most) {
    struct rlimit limit = {1024, 1024};
    getrlimit(RLIMIT_NOFILE, &limit);
    *most = limit.rlim_cur > 1u << 20 ? 1 << 20 : (int)limit.rlim_cur;
    *open_now = 0;
    if (!limits_each_number("/proc/self/fd", count, open_now))
        *open_now = *most / 2;
}

uint32_t limits_cpus(void) {
    uint64_t set[128];
    long bytes = raw_call3(SYS_sched_getaffinity, 0, sizeof set, (long)set);
    uint32_t cpus = 0;
    for (long i = 0; i < bytes / 8; i++)
        cpus += (uint32_t)__builtin_popcountll(set[i]);
    return cpus ? cpus : 1;
}

long limits_read_file(const char *path, char *buffer, size_t size) {
    long fd = raw_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0);
    if (fd < 0)
        return fd;
    long used = 0, got = 1;
    while (got > 0 && (size_t)used < size - 1) {
        got = raw_call3(SYS_read, fd, (long)(buffer + used), (long)(size - 1) - used);
        used += got > 0 ? got : 0;
    }
    raw_close((int)fd);
    buffer[used] = 0;
    return got < 0 ? got : used;
}

uint64_t limits_stat_field(int number) {
    char text[1024];
    if (limits_read_file("/proc/self/stat", text, sizeof text) <= 0)
        return 0;
    const char *at = strrchr(text, ')'); /* field 2 may hold anything */
    for (int field = 2; at && field < number; field++)
        at = strchr(at + 1, ' ');
    return at && at++ ? number_at(&at) : 0;
}

uint64_t limits_task_mask(uint32_t tid, const char *name) {
    char path[64] = "/proc/self/task/", text[4096];
    limits_append_number(path, sizeof path, tid);
    limits_append(path, sizeof path, "/status");
    if (limits_read_file(path, text, sizeof text) <= 0)
        return 0;
    const char *at = strstr(text, name);
    if (!at)
        return 0;
    uint64_t mask = 0;
    for (at += strlen(name); *at == ' ' || *at == '\t';)
        at++;
    for (; digit(*at) || (*at >= 'a' && *at <= 'f'); at++)
        mask = mask << 4 | (uint64_t)(digit(*at) ? *at - '0' : *at - 'a' + 10);
    return mask;
}

void limits_task_name(uint32_t tid, char name[16]) {
    char path[64] = "/proc/self/task/", text[32] = "";
    limits_append_number(path, sizeof path, tid);
    limits_append(path, sizeof path, "/comm");
    memset(name, 0, 16);
    if (limits_read_file(path, text, sizeof text) > 0)
        memcpy(name, text, strcspn(text, "\n") < 16 ? strcspn(text, "\n") : 15);
}

static void task_path(char *path, size_t size, uint32_t tid, const char *name) {
    path[0] = 0;
    limits_append(path, size, "/proc/self/task/");
    limits_append_number(path, size, tid);
    limits_append(path, size, name);
}

static uint64_t hex_number_at(const char *at) {
    uint64_t number = 0;
    for (at += at[0] == '0' && at[1] == 'x' ? 2 : 0; digit(*at) || (*at >= 'a' && *at <= 'f'); at++)
        number = number << 4 | (uint64_t)(digit(*at) ? *at - '0' : *at - 'a' + 10);
    return number;
}

/* "running", or numbers of which the last two are rsp and rip. */
enum limits_whereabouts limits_task_where(uint32_t tid, uint64_t *pc, uint64_t *sp) {
    char path[64], text[256];
    task_path(path, sizeof path, tid, "/syscall");
    if (limits_read_file(path, text, sizeof text) <= 0)
        return LIMITS_UNKNOWN;
    if (text[0] == 'r')
        return LIMITS_RUNNING;
    char *last = strrchr(text, ' ');
    if (!last)
        return LIMITS_UNKNOWN;
    *pc = hex_number_at(last + 1);
    *last = 0;
    last = strrchr(text, ' ');
    *sp = last ? hex_number_at(last + 1) : 0;
    return LIMITS_BLOCKED;
}

int64_t limits_task_waited_ns(uint32_t tid) {
    char path[64], text[96];
    task_path(path, sizeof path, tid, "/schedstat");
    if (limits_read_file(path, text, sizeof text) <= 0)
        return -1;
    const char *at = strchr(text, ' ');
    return at && at++ ? (int64_t)number_at(&at) : -1;
}

void limits_append(char *buffer, size_t size, const char *text) {
    size_t used = strlen(buffer), more = strlen(text);
    if (more > size - 1 - used)
        more = size - 1 - used;
    memcpy(buffer + used, text, more);
    buffer[used + more] = 0;
}

void limits_append_number(char *buffer, size_t size, uint64_t number) {
    char digits[21];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    limits_append(buffer, size, digits + at);
}

const char *limits_error_name(int error) {
    static const struct {
        int error;
        const char *name;
    } names[] = {
        {EPERM, "EPERM"},   {EACCES, "EACCES"}, {ENOSYS, "ENOSYS"}, {EINVAL, "EINVAL"},
        {EMFILE, "EMFILE"}, {ENFILE, "ENFILE"}, {EAGAIN, "EAGAIN"}, {EBUSY, "EBUSY"},
        {ENOMEM, "ENOMEM"}, {E2BIG, "E2BIG"},
    };
    static char other[32];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].error == error)
            return names[i].name;
    other[0] = 0;
    limits_append(other, sizeof other, "error ");
    limits_append_number(other, sizeof other, (uint64_t)error);
    return other;
}
