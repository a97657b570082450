/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/processes/process_text.h"

#include "tests/unit/check.h"

#include <stdio.h>

#define REST " S 7 1 1 0 -1 4194560 1 2 3 4 50 60 0 0 20 0 3 0 1234567 1000 200"

TEST(stat_has_parent_threads_times_and_start) {
    struct process_stat stat;
    CHECK(process_stat_parse("12 (redis-server)" REST "\n", &stat));
    CHECK_STR(stat.comm, "redis-server");
    CHECK_INT(stat.parent, ==, 7);
    CHECK_INT(stat.threads, ==, 3);
    CHECK_INT(stat.cpu_ticks, ==, 110);
    CHECK_INT(stat.start_ticks, ==, 1234567);
    CHECK(!stat.is_kernel);
    CHECK(process_stat_parse("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0",
                             &stat));
    CHECK(stat.is_kernel);
}

TEST(a_name_with_brackets_blanks_and_newlines_moves_no_field) {
    struct process_stat stat;
    CHECK(process_stat_parse("12 (x) R 1 (\n\x1b[2J)" REST, &stat));
    CHECK_STR(stat.comm, "x) R 1 (??[2J");
    CHECK_INT(stat.start_ticks, ==, 1234567);
    CHECK(process_stat_parse("12 ()" REST, &stat));
    CHECK_STR(stat.comm, "");
    CHECK(process_stat_parse("12 (01234567890123456789)" REST, &stat));
    CHECK_STR(stat.comm, "012345678901234");
}

TEST(a_zombie_with_living_threads_has_not_ended) {
    struct process_stat stat;
    CHECK(process_stat_parse("12 (x) Z 7 1 1 0 -1 4 1 2 3 4 50 60 0 0 20 0 3 0 12 0 0", &stat));
    CHECK(!stat.has_ended);
    CHECK(process_stat_parse("12 (x) Z 7 1 1 0 -1 4 1 2 3 4 50 60 0 0 20 0 1 0 12 0 0", &stat));
    CHECK(stat.has_ended);
    CHECK(process_stat_parse("12 (x)" REST, &stat));
    CHECK(!stat.has_ended);
}

TEST(a_malformed_stat_is_refused) {
    static const char *const texts[] = {"",         "12",         "12 (x",
                                        "12 )x(",   "12 (x)",     "12 (x) ",
                                        "12 (x) S", "12 (x) S 1", "12 (x) S 7 1 1 0 -1 4 1 x 3"};
    struct process_stat stat;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        CHECK(!process_stat_parse(texts[i], &stat));
}

TEST(the_first_word_of_auxv_tells_32_from_64_bits) {
    CHECK(!process_auxv_is_32bit("\x21\0\0\0\0\0\0\0", 8));
    CHECK(process_auxv_is_32bit("\x20\0\0\0\x80\x55\xf7\xf7", 8));
    CHECK(!process_auxv_is_32bit("\0\0\0\0\0\0\0\0", 8));
    CHECK(!process_auxv_is_32bit("\x20\0\0\0", 4));
}

static const char *name_of(const char *command, const char *executable, const char *comm) {
    static char name[64];
    process_name(name, sizeof name, &(struct process_command){command, strlen(command)}, executable,
                 comm);
    return name;
}

TEST(a_name_is_what_the_program_was_started_as) {
    CHECK_STR(name_of("/usr/bin/python3", "python3.11", "python3"), "python3");
    CHECK_STR(name_of("-bash", "bash", "bash"), "-bash");
    CHECK_STR(name_of("", "redis-server", "redis"), "redis-server");
    CHECK_STR(name_of("", "", "kthreadd"), "kthreadd");
    CHECK_STR(name_of("/", "x", "y"), "_"); /* no base name */
}

TEST(a_program_that_the_dynamic_linker_starts_has_its_own_name) {
    static const char words[] = "/lib64/ld-linux-x86-64.so.2\0--library-path\0lib\0./shop";
    char name[64];
    process_name(name, sizeof name, &(struct process_command){words, sizeof words - 1},
                 "ld-linux-x86-64.so.2", "ld-linux-x86-6");
    CHECK_STR(name, "shop");
}

TEST(titles_that_a_server_gives_itself_are_cut_off) {
    CHECK_STR(name_of("/usr/bin/redis-server *:6379", "redis-check-rdb", "x"), "redis-server");
    CHECK_STR(name_of("nginx: master process /usr/sbin/nginx -g daemon", "nginx", "x"), "nginx");
    CHECK_STR(name_of("postgres: walwriter ", "postgres", "x"), "postgres");
    CHECK_STR(name_of("sshd: root@pts/0", "sshd", "x"), "sshd");
    /* But the program's own name may contain blanks. */
    CHECK_STR(name_of("/opt/My App/the server", "the_server", "x"), "the_server");
}

TEST(hostile_names_become_plain_text) {
    char name[64], text[300];
    CHECK_STR(name_of("\x1b]0;x\x07\n", "", ""), "_]0;x__");
    CHECK_STR(name_of("@all", "", ""), "_all");
    CHECK_STR(name_of("a@b", "", ""), "a@b");
    CHECK_STR(name_of("\xff\"\\", "", ""), "___");
    CHECK_STR(name_of(" ", "real", ""), "real");
    CHECK_STR(name_of(":", "real", ""), ":");
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    CHECK_INT(strlen(name_of(text, "", "")), ==, 63);
    process_name_clean(name, 4, "abcdef");
    CHECK_STR(name, "abc");
}

TEST(a_deleted_executable_keeps_its_name) {
    char name[64];
    process_executable_name(name, sizeof name, "/usr/bin/redis-server (deleted)");
    CHECK_STR(name, "redis-server");
    process_executable_name(name, sizeof name, "/usr/bin/my app");
    CHECK_STR(name, "my_app");
    process_executable_name(name, sizeof name, "");
    CHECK_STR(name, "");
}
