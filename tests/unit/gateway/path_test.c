/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/path.h"

#include "tests/unit/check.h"

#include <stdlib.h>

struct row {
    const char *path;
    bool good, named;
    const char *name;
    int pid;
    const char *rest;
};

TEST(a_path_is_split_into_the_targets_prefix_and_the_rest) {
    static const struct row rows[] = {
        {"/debug/pprof/profile", true, false, "", 0, "/debug/pprof/profile"},
        {"/t/redis/debug/pprof/heap", true, true, "redis", 0, "/debug/pprof/heap"},
        {"/t/123/symbol", true, true, "", 123, "/symbol"},
        {"/t/%31%32/symbol", true, true, "", 12, "/symbol"},
        {"/t/a%2Fb%20c/", true, true, "a/b c", 0, "/"},
        {"/t/a+b", true, true, "a+b", 0, "/"},
        {"/t/%C3%A9/x", true, true, "\xc3\xa9", 0, "/x"},
        {"/t//x", false, true, "", 0, "/x"},
        {"/t/", false, true, "", 0, "/"},
        {"/t", true, false, "", 0, "/t"},
        {"/t/0/x", false, true, "", 0, "/x"},
        {"/t/2147483648/x", false, true, "", 0, "/x"},
        {"/t/99999999999999999999999/x", false, true, "", 0, "/x"},
        {"/t/a%00b/x", false, true, "", 0, "/x"},
        {"/t/%ff/x", false, true, "", 0, "/x"},
        {"/t/%c0%af/x", false, true, "", 0, "/x"},
        {"/t/%ed%a0%80/x", false, true, "", 0, "/x"},
        {"/t/@allx/x", true, true, "@allx", 0, "/x"},
        {"/t/@/x", true, true, "@", 0, "/x"},
        {"*", true, false, "", 0, "*"},
        {"", true, false, "", 0, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct path_parts parts;
        bool good = path_split(sonde_slice_of(rows[i].path), &parts);
        if (good != rows[i].good || parts.named != rows[i].named ||
            parts.target.pid != rows[i].pid || !sonde_slice_equals(parts.rest, rows[i].rest) ||
            (good && strcmp(parts.target.name, rows[i].name) != 0))
            check_fail(__FILE__, __LINE__, "%s: %d %d \"%s\" %d", rows[i].path, good, parts.named,
                       parts.target.name, parts.target.pid);
    }
}

TEST(a_decoded_name_may_have_200_bytes) {
    struct path_parts parts;
    struct sonde_buf path = {0};
    sonde_buf_puts(&path, "/t/");
    for (int i = 0; i < 200; i++)
        sonde_buf_puts(&path, "%61");
    CHECK(path_split(sonde_buf_slice(&path), &parts));
    CHECK_INT(strlen(parts.target.name), ==, 200);
    sonde_buf_puts(&path, "a");
    CHECK(!path_split(sonde_buf_slice(&path), &parts));
    sonde_buf_finish(&path);
}

TEST(an_encoded_name_is_decoded_to_the_same_name) {
    struct path_parts parts;
    struct sonde_buf path = {0};
    sonde_buf_puts(&path, "/t/");
    path_append_encoded(&path, sonde_slice_of("a b/<c>\"\xc3\xa9%~"));
    CHECK_STR(path.data, "/t/a%20b%2F%3Cc%3E%22%C3%A9%25~");
    CHECK(path_split(sonde_buf_slice(&path), &parts));
    CHECK_STR(parts.target.name, "a b/<c>\"\xc3\xa9%~");
    sonde_buf_finish(&path);
}

TEST(a_target_is_written_as_it_is_read) {
    static const char *const paths[] = {"/t/redis/x", "/t/12/x", "/t/@all/x", "/t/@all:redis/x",
                                        "/t/@all:12/x"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct path_parts parts;
        struct sonde_buf path = {0};
        CHECK(path_split(sonde_slice_of(paths[i]), &parts));
        sonde_buf_puts(&path, "/t/");
        path_append_target(&path, &parts.target);
        sonde_buf_puts(&path, "/x");
        CHECK_STR(path.data, paths[i]);
        sonde_buf_finish(&path);
    }
}

TEST(digits_are_a_pid_in_a_path_and_a_name_in_a_query) {
    struct target_choice target;
    CHECK(path_read_name(sonde_slice_of("12"), &target));
    CHECK_STR(target.name, "12");
    CHECK(path_read_name(sonde_slice_of("@all:12"), &target));
    CHECK(target.all && target.pid == 12 && !target.name[0]);
}

TEST(several_processes_are_named_after_all) {
    static const struct {
        const char *path;
        bool good;
        const char *name;
        int pid;
    } rows[] = {
        {"/t/@all/profile", true, "", 0},
        {"/t/%40all:redis-server/profile", true, "redis-server", 0},
        {"/t/@all:7/profile", true, "", 7},
        {"/t/@all:a%3Ab/x", true, "a:b", 0},
        {"/t/@all:@all/x", true, "@all", 0},
        {"/t/@all:/x", false, "", 0},
        {"/t/@all:0/x", false, "", 0},
        {"/t/@all:4294967296/x", false, "", 0},
        {"/t/@all:%00/x", false, "", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct path_parts parts;
        bool good = path_split(sonde_slice_of(rows[i].path), &parts);
        if (good != rows[i].good || !parts.target.all || parts.target.pid != rows[i].pid ||
            strcmp(parts.target.name, rows[i].name) != 0)
            check_fail(__FILE__, __LINE__, "%s: %d \"%s\" %d", rows[i].path, good,
                       parts.target.name, parts.target.pid);
    }
}
