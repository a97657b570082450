/* SPDX-License-Identifier: Apache-2.0
 *
 * Each case writes in a child, because a process looks for the journal once. */
#include "api/os/log.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum stream { STREAM_NONE, STREAM_OURS, STREAM_OTHER };

static void write_lines(int out, enum stream stream) {
    struct stat info;
    char name[64];
    dup2(out, STDERR_FILENO);
    unsetenv("JOURNAL_STREAM");
    fstat(out, &info);
    snprintf(name, sizeof name, "%llu:%llu", (unsigned long long)info.st_dev,
             (unsigned long long)info.st_ino + (stream == STREAM_OTHER));
    if (stream != STREAM_NONE)
        setenv("JOURNAL_STREAM", name, 1);
    log_write(LOG_LINE_ERROR, "sonded", "it ends");
    log_write(LOG_LINE_INFO, NULL, "call=GetInfo");
    log_report("sonded", "audit: method=HeapActivate");
    log_report("sonded", "the token file x was read again");
    log_report("sonded", "the token file x stays as it was: no token");
}

static void check_output(enum stream stream, const char *expected) {
    int pipes[2];
    char text[512] = "";
    size_t len = 0;
    CHECK_INT(pipe(pipes), ==, 0);
    pid_t child = fork();
    if (child == 0) {
        write_lines(pipes[1], stream);
        _exit(0);
    }
    close(pipes[1]);
    for (ssize_t got; (got = read(pipes[0], text + len, sizeof text - 1 - len)) > 0;)
        len += (size_t)got;
    close(pipes[0]);
    waitpid(child, NULL, 0);
    CHECK_STR(text, expected);
}

#define WITHOUT                                 \
    "sonded: it ends\ncall=GetInfo\n"           \
    "sonded: audit: method=HeapActivate\n"      \
    "sonded: the token file x was read again\n" \
    "sonded: the token file x stays as it was: no token\n"

TEST(lines_have_no_priority_on_a_terminal) {
    check_output(STREAM_NONE, WITHOUT);
}

TEST(lines_have_a_priority_in_the_journal) {
    check_output(STREAM_OURS, "<3>sonded: it ends\n<6>call=GetInfo\n"
                              "<6>sonded: audit: method=HeapActivate\n"
                              "<6>sonded: the token file x was read again\n"
                              "<4>sonded: the token file x stays as it was: no token\n");
}

TEST(a_redirected_stderr_is_not_the_journal) {
    check_output(STREAM_OTHER, WITHOUT);
}
