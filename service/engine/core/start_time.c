/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/core/start_time.h"

#include "api/base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static int64_t boot_s;

static void read_boot_time(void) {
    char line[256];
    long long seconds;
    FILE *file = fopen("/proc/stat", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "btime %lld", &seconds) == 1)
            boot_s = seconds;
    }
    if (file)
        fclose(file);
}

int64_t start_time_unix_ns(uint64_t start_ticks) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_boot_time);
    if (start_ticks && boot_s)
        return boot_s * 1000000000ll + (int64_t)start_ticks * (1000000000ll / sysconf(_SC_CLK_TCK));
    return clock_ns(CLOCK_REALTIME);
}
