/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/process_usage.h"

#include "tests/unit/check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

TEST(an_open_descriptor_is_counted) {
    struct process_usage before, after;
    process_usage_read(&before);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    process_usage_read(&after);
    CHECK(before.open_fds >= 3 && after.open_fds == before.open_fds + 1);
    close(fd);
}

TEST(memory_and_cpu_time_grow_and_the_limit_is_that_of_the_process) {
    enum { BYTES = 64 << 20 };
    struct process_usage before, after;
    struct rlimit limit;
    process_usage_read(&before);
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(memory != MAP_FAILED);
    process_usage_read(&after);
    munmap(memory, BYTES);
    CHECK(after.resident_bytes >= before.resident_bytes + BYTES / 2);
    CHECK(after.virtual_bytes >= after.resident_bytes);
    CHECK(after.cpu_ns > before.cpu_ns);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && after.max_fds == limit.rlim_cur);
}
