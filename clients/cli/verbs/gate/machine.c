/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/gate/machine.h"

#include "api/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Of one CPU. The ticks of /proc/stat alone are off by 0.01 in a second. */
#define OTHER_WORK 0.1
#define STOLEN     0.02

/* user and nice contain the time of guests of this machine. */
bool machine_times_parse(const char *line, double ticks_per_s, struct machine_times *times) {
    unsigned long long user, nice, kernel, idle, wait, irq, softirq, steal = 0;
    int found = sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &kernel,
                       &idle, &wait, &irq, &softirq, &steal);
    times->is_known = found >= 7;
    if (!times->is_known)
        return false;
    times->busy = (double)(user + nice + kernel + irq + softirq) / ticks_per_s;
    times->stolen = (double)steal / ticks_per_s;
    return true;
}

static double seconds_of(const struct rusage *usage) {
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
           (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1e6;
}

void machine_times_read(struct machine_times *times) {
    struct rusage self, children;
    char line[256] = "";
    FILE *file = fopen("/proc/stat", "re");
    *times = (struct machine_times){.at = (double)clock_ns(CLOCK_MONOTONIC) / 1e9};
    if (!file)
        return;
    if (fgets(line, sizeof line, file) && getrusage(RUSAGE_SELF, &self) == 0 &&
        getrusage(RUSAGE_CHILDREN, &children) == 0) {
        machine_times_parse(line, (double)sysconf(_SC_CLK_TCK), times);
        times->own = seconds_of(&self) + seconds_of(&children);
    }
    fclose(file);
}

void machine_describe(const struct machine_times *before, const struct machine_times *after,
                      char *text, size_t size) {
    double elapsed = after->at - before->at;
    text[0] = 0;
    if (!before->is_known || !after->is_known || elapsed <= 0)
        return;
    double other = (after->busy - before->busy - (after->own - before->own)) / elapsed;
    double stolen = (after->stolen - before->stolen) / elapsed;
    size_t len = 0;
    if (other >= OTHER_WORK)
        len = (size_t)snprintf(text, size, "%.2f CPUs were busy with other work", other);
    if (stolen >= STOLEN && len < size)
        snprintf(text + len, size - len, "%s%.2f CPUs were stolen by the hypervisor",
                 len ? ", " : "", stolen);
}
