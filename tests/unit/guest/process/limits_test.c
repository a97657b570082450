/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/limits.h"

#include "tests/unit/check.h"

#include <sys/resource.h>
#include <unistd.h>

TEST(the_kernel_is_newer_than_3_0_and_older_than_999_0) {
    CHECK(limits_kernel_at_least(3, 0));
    CHECK(!limits_kernel_at_least(999, 0));
}

TEST(open_descriptors_are_counted) {
    int before, after, most;
    limits_descriptors(&before, &most);
    int fd = dup(0);
    CHECK_INT(fd, >=, 0);
    limits_descriptors(&after, &most);
    close(fd);
    CHECK_INT(after, ==, before + 1);
    CHECK_INT(most, >=, after);
}

TEST(the_descriptor_limit_is_the_soft_one) {
    struct rlimit limit;
    int open_now, most;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    struct rlimit lower = {limit.rlim_cur < 200 ? limit.rlim_cur : 200, limit.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &lower), ==, 0);
    limits_descriptors(&open_now, &most);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    CHECK_INT(most, ==, (int)lower.rlim_cur);
}

TEST(there_is_a_cpu) {
    CHECK_INT(limits_cpus(), >=, 1);
    CHECK_INT(limits_cpus(), <=, (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
}
