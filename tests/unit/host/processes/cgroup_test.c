/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/processes/cgroup.h"

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

#define ID    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"

static const char *container(const char *cgroup) {
    static char id[CGROUP_CONTAINER_BYTES];
    cgroup_container(cgroup, id);
    return id;
}

TEST(each_runtime_names_its_containers_in_its_own_way) {
    CHECK_STR(container("/docker/" ID), ID);
    CHECK_STR(container("/machine.slice/libpod-" ID ".scope/container"), ID);
    CHECK_STR(container("/kubepods.slice/x.slice/cri-containerd-" ID ".scope"), ID);
    CHECK_STR(container("/kubepods.slice/crio-" ID ".scope"), ID);
    CHECK_STR(container("/x.slice/kubepods-besteffort.slice:cri-containerd:" ID), ID);
    CHECK_STR(container("/lxc.payload.web-1/system.slice/x.service"), "web-1");
    CHECK_STR(container("/lxc/web-1/init.scope"), "web-1");
    CHECK_STR(container("/machine.slice/machine-my\\x2dweb.scope/payload"), "my-web");
    CHECK_STR(container("/machine.slice/systemd-nspawn@web.service/payload"), "web");
}

TEST(the_innermost_container_counts) {
    CHECK_STR(container("/docker/" OTHER "/docker/" ID), ID);
    CHECK_STR(container("/lxc.payload.outer/docker/" ID "/init.scope"), ID);
}

TEST(other_paths_have_no_container) {
    static const char *const paths[] = {"",
                                        "/",
                                        "/system.slice/redis.service",
                                        "/docker/0" ID,
                                        "/x" ID,
                                        "/lxc",
                                        "/lxc.payload.",
                                        "/machine-.scope",
                                        "/docker/abc"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        CHECK_STR(container(paths[i]), "");
}

TEST(hostile_names_of_containers_become_plain_text) {
    CHECK_STR(container("/lxc.payload.\x1b[2J\xff \"x"), "_[2J___x");
    CHECK_STR(container("/lxc/a\\x00\\x1b\\x2f\\xzz"), "a___xzz");
    CHECK_INT(strlen(container("/lxc.payload." ID ID)), ==, 64);
}
