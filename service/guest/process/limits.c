/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/limits.h"

#include "service/guest/process/procfs.h"
#include "service/guest/raw.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#define COUNTED_DESCRIPTORS 65536
#define MAX_DESCRIPTORS     (1 << 20)

bool limits_kernel_at_least(unsigned major, unsigned minor) {
    struct utsname name;
    if (uname(&name) != 0)
        return false;
    char *end;
    unsigned long first = strtoul(name.release, &end, 10), second = 0;
    if (*end == '.')
        second = strtoul(end + 1, NULL, 10);
    return first > major || (first == major && second >= minor);
}

static void count(uint32_t number, void *context) {
    int *sum = context;
    *sum += *sum < COUNTED_DESCRIPTORS;
}

void limits_descriptors(int *open_now, int *most) {
    struct rlimit limit = {1024, 1024};
    getrlimit(RLIMIT_NOFILE, &limit);
    *most = limit.rlim_cur > MAX_DESCRIPTORS ? MAX_DESCRIPTORS : (int)limit.rlim_cur;
    *open_now = 0;
    if (!procfs_each_number("/proc/thread-self/fd", count, open_now))
        *open_now = *most / 2;
}

int limits_perf_paranoid(void) {
    char text[16];
    if (procfs_read_file("/proc/sys/kernel/perf_event_paranoid", text, sizeof text) <= 0)
        return -2;
    return (int)strtol(text, NULL, 10);
}

uint32_t limits_cpus(void) {
    uint64_t set[128];
    long bytes = system_call3(SYS_sched_getaffinity, 0, sizeof set, (long)set);
    uint32_t cpus = 0;
    for (long i = 0; i < bytes / 8; i++)
        cpus += (uint32_t)__builtin_popcountll(set[i]);
    return cpus ? cpus : 1;
}
