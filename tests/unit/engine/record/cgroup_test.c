/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/record/cgroup.h"

#include "tests/unit/check.h"

#include <unistd.h>

static char path[CGROUP_BYTES];

TEST(the_one_path_of_version_2_is_taken) {
    cgroup_parse("0::/system.slice/redis.service\n", path);
    CHECK_STR(path, "/system.slice/redis.service");
}

TEST(of_several_controllers_the_longest_path_counts) {
    cgroup_parse("12:pids:/docker/ab\n1:name=systemd:/docker/abcdef\n0::/\n", path);
    CHECK_STR(path, "/docker/abcdef");
}

TEST(a_path_may_contain_colons) {
    cgroup_parse("0::/a:b:c\n", path);
    CHECK_STR(path, "/a:b:c");
}

TEST(the_root_and_malformed_lines_have_no_path) {
    const char *const texts[] = {"", "0::/\n", "0::", "nonsense\n", ":\n::\n", "\n\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        strcpy(path, "old");
        cgroup_parse(texts[i], path);
        CHECK_STR(path, "");
    }
}

TEST(a_path_that_is_too_long_is_left_out) {
    char text[2 * CGROUP_BYTES];
    memset(text, 'x', sizeof text);
    memcpy(text, "0::/", 4);
    text[sizeof text - 1] = 0;
    cgroup_parse(text, path);
    CHECK_STR(path, "");
    text[4 + CGROUP_BYTES - 2] = 0; /* "/" and all but the NUL */
    cgroup_parse(text, path);
    CHECK_INT(strlen(path), ==, CGROUP_BYTES - 1);
}

TEST(a_process_that_is_gone_has_no_path) {
    strcpy(path, "old");
    cgroup_read(-1, path);
    CHECK_STR(path, "");
    cgroup_read(getpid(), path);
    CHECK(path[0] == 0 || path[0] == '/');
}
