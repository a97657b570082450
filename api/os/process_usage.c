/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/process_usage.h"

#include "api/base/clock.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static void read_memory(struct process_usage *usage) {
    unsigned long long all = 0, resident = 0;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return;
    if (fscanf(file, "%llu %llu", &all, &resident) == 2) {
        usage->virtual_bytes = all * page;
        usage->resident_bytes = resident * page;
    }
    fclose(file);
}

/* Without the descriptor of the folder itself. */
static uint64_t count_fds(void) {
    uint64_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return 0;
    for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count ? count - 1 : 0;
}

void process_usage_read(struct process_usage *usage) {
    struct rlimit limit = {0};
    *usage = (struct process_usage){0};
    usage->cpu_ns = (uint64_t)clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    read_memory(usage);
    usage->open_fds = count_fds();
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        usage->max_fds = limit.rlim_cur;
}
