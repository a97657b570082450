/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/maps_line.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <string.h>

static struct sonde_maps_line line;

static bool parse(const char *text) {
    memset(&line, 0xee, sizeof line);
    return sonde_maps_line_parse(text, strlen(text), &line);
}

TEST(maps_line_of_a_file_has_all_fields) {
    CHECK(parse("7f03f48a2000-7f03f48c4000 r-xp 00001000 fe:1f 10954152    /usr/lib/libx.so\n"));
    CHECK_INT(line.start, ==, 0x7f03f48a2000);
    CHECK_INT(line.end, ==, 0x7f03f48c4000);
    CHECK_INT(line.offset, ==, 0x1000);
    CHECK_INT(line.device_major, ==, 0xfe);
    CHECK_INT(line.device_minor, ==, 0x1f);
    CHECK_INT(line.inode, ==, 10954152);
    CHECK(line.is_readable && !line.is_writable && line.is_executable);
    CHECK(sonde_maps_line_has_path(&line, "/usr/lib/libx.so"));
    CHECK(!sonde_maps_line_has_path(&line, "/usr/lib/libx.so.1"));
    CHECK(!sonde_maps_line_has_path(&line, "/usr/lib/libx"));
}

TEST(maps_line_of_anonymous_memory_has_no_path) {
    CHECK(parse("1000-2000 rw-p 00000000 00:00 0 \n"));
    CHECK(line.is_readable && line.is_writable && !line.is_executable && !line.is_shared);
    CHECK_INT(line.path_len, ==, 0);
    CHECK(sonde_maps_line_has_path(&line, ""));
    CHECK(parse("1000-2000 rw-p 00000000 00:00 0"));
    CHECK_INT(line.path_len, ==, 0);
}

TEST(maps_line_path_may_contain_blanks) {
    CHECK(parse("1000-2000 r--s 00000000 00:01 7    /tmp/a b (deleted)"));
    CHECK(line.is_shared);
    CHECK(sonde_maps_line_has_path(&line, "/tmp/a b (deleted)"));
}

static size_t path_len(const char *path) {
    return sonde_maps_path_len(path, strlen(path));
}

TEST(maps_path_len_leaves_out_that_the_file_was_deleted) {
    CHECK_INT(path_len("/a b (deleted)"), ==, strlen("/a b"));
    CHECK_INT(path_len("/a (deleted) (deleted)"), ==, strlen("/a (deleted)"));
    CHECK_INT(path_len("/a (deleted)b"), ==, strlen("/a (deleted)b"));
    CHECK_INT(path_len("/a(deleted)"), ==, strlen("/a(deleted)"));
    CHECK_INT(path_len(" (deleted)"), ==, strlen(" (deleted)"));
    CHECK_INT(path_len(""), ==, 0);
}

TEST(maps_line_accepts_any_blanks_between_fields) {
    CHECK(parse("  1000-2000\tr-xp   00000000  00:00   0\t[vdso]"));
    CHECK(sonde_maps_line_has_path(&line, "[vdso]"));
}

TEST(maps_line_accepts_the_largest_numbers_and_no_larger) {
    CHECK(parse("0-ffffffffffffffff r-xp ffffffffffffffff ffffffff:ffffffff 18446744073709551615"));
    CHECK(line.end == UINT64_MAX && line.offset == UINT64_MAX && line.inode == UINT64_MAX);
    CHECK_INT(line.device_minor, ==, UINT32_MAX);
    CHECK(!parse("0-10000000000000000 r-xp 0 0:0 0"));
    CHECK(!parse("0-1000 r-xp 10000000000000000 0:0 0"));
    CHECK(!parse("0-1000 r-xp 0 100000000:0 0"));
    CHECK(!parse("0-1000 r-xp 0 0:100000000 0"));
    CHECK(!parse("0-1000 r-xp 0 0:0 18446744073709551616"));
}

TEST(maps_line_of_another_form_is_refused) {
    static const char *const wrong[] = {
        "",
        "\n",
        "1000",
        "1000-",
        "-2000 r-xp 0 0:0 0",
        "1000 2000 r-xp 0 0:0 0",
        "2000-2000 r-xp 0 0:0 0", /* empty */
        "2000-1000 r-xp 0 0:0 0",
        "1000-2000r-xp 0 0:0 0",
        "1000-2000 r-x",
        "1000-2000 r-xp",
        "1000-2000 r-xp0 0:0 0",
        "1000-2000 r-xp z 0:0 0",
        "1000-2000 r-xp 0 00 0",
        "1000-2000 r-xp 0 0: 0",
        "1000-2000 r-xp 0 0:0",
        "1000-2000 r-xp 0 0:0 a",
        "1000-2000 r-xp 0 0:0 1a",
        "1000-2000 r-xp 0 0:0 1/path",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (parse(wrong[i]))
            check_fail(__FILE__, __LINE__, "accepted: %s", wrong[i]);
}

TEST(maps_lines_of_this_process_are_read_as_sscanf_reads_them) {
    char text[8192];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps);
    for (; fgets(text, sizeof text, maps); count++) {
        unsigned long start, end, offset, inode;
        unsigned major, minor;
        char permissions[5], path[4200] = "";
        sscanf(text, "%lx-%lx %4s %lx %x:%x %lu %4199[^\n]", &start, &end, permissions, &offset,
               &major, &minor, &inode, path);
        CHECK(parse(text));
        CHECK(line.start == start && line.end == end && line.offset == offset);
        CHECK(line.device_major == major && line.device_minor == minor && line.inode == inode);
        CHECK_INT(line.is_executable, ==, permissions[2] == 'x');
        CHECK_INT(line.is_shared, ==, permissions[3] == 's');
        CHECK(sonde_maps_line_has_path(&line, path));
    }
    CHECK_INT(count, >, 5);
    fclose(maps);
}
