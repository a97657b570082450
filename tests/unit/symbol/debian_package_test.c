/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/debian_package.h"
#include "tests/unit/check.h"
#include "tests/unit/symbol/fixture.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct debian_package package;

static bool find(const char *path) {
    package = (struct debian_package){0};
    return debian_package_find(fixture_path("info"), path, &package);
}

static void write_lists(void) {
    fixture_run("mkdir -p info");
    fixture_write("info/redis-tools.list", "/.\n/usr\n/usr/bin\n/usr/bin/redis-check-rdb\n");
    fixture_write("info/libx1:amd64.list", "/usr/lib/libx.so.1.2\n/lib/libold.so\n");
    fixture_write("info/libc6:amd64.list", "/lib/x86_64-linux-gnu/libc.so.6\n");
    fixture_write("info/last.list", "/usr/bin/last"); /* without a newline */
    fixture_write("info/redis-tools.md5sums", "/usr/bin/other\n");
}

TEST(the_package_of_a_file_has_its_symbols) {
    write_lists();
    CHECK(find("/usr/bin/redis-check-rdb"));
    CHECK_STR(package.name, "redis-tools-dbgsym");
    CHECK(!package.is_main);
    CHECK(find("/usr/lib/libx.so.1.2"));
    CHECK_STR(package.name, "libx1-dbgsym");
    CHECK(find("/usr/bin/last"));
    CHECK_STR(package.name, "last-dbgsym");
}

TEST(files_are_found_by_the_old_name_of_a_merged_directory) {
    write_lists();
    CHECK(find("/usr/lib/libold.so"));
    CHECK_STR(package.name, "libx1-dbgsym");
}

TEST(libc_has_a_package_of_another_name_in_the_main_archive) {
    write_lists();
    CHECK(find("/usr/lib/x86_64-linux-gnu/libc.so.6"));
    CHECK_STR(package.name, "libc6-dbg");
    CHECK(package.is_main);
}

TEST(files_of_no_package_and_parts_of_paths_are_not_found) {
    write_lists();
    CHECK(!find("/usr/bin/redis-check"));
    CHECK(!find("/bin/redis-check-rdb-2"));
    CHECK(!find("bin/redis-check-rdb"));
    CHECK(!find("/usr/bin/other"));
    CHECK(!find("/usr/bin\n/usr/bin/redis-check-rdb"));
    CHECK(!find(""));
    CHECK(!debian_package_find(fixture_path("nothing"), "/usr/bin/last", &package));
}

TEST(long_paths_long_lists_and_other_files_are_harmless) {
    static char path[PATH_MAX + 100];
    write_lists();
    memset(path, 'p', sizeof path - 1);
    path[0] = '/';
    CHECK(!find(path));
    fixture_run("mkdir -p info/folder.list && ln -sf /dev/zero info/zero.list && mkfifo "
                "info/pipe.list; printf '\\n/late\\n' > tail && truncate -s 17000000 "
                "info/huge.list && cat tail >> info/huge.list && : > info/empty.list");
    CHECK(!find("/late")); /* beyond the limit of a list */
    CHECK(find("/usr/bin/last"));
    fixture_run("rm -rf info");
}
