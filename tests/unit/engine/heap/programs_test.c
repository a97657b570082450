/* SPDX-License-Identifier: Apache-2.0
 *
 * Third-party programs whose imports of malloc are patched and restored while they run. Their
 * output is the same as without, and most of the memory they hold is sampled. */
#include "tests/unit/engine/heap/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Switches on and off until the program has written its first line. */
static int disturb(struct stage *stage, char *line, size_t size) {
    struct engine_heap_request on = {.verb = ENGINE_HEAP_ACTIVATE,
                                     .backend = ENGINE_HEAP_INTERPOSED};
    int rounds = 0;
    ssize_t got = 0;
    size_t len = 0;
    for (time_t end = time(NULL) + 30; time(NULL) < end && !memchr(line, '\n', len); rounds++) {
        on.sample_bytes = rounds % 2 ? 4096 : 1 << 19;
        struct asked asked = stage_ask(stage, on);
        if (asked.err == SONDE_TARGET_GONE)
            break;
        CHECK_STR(asked.diag.text, "");
        usleep(10000);
        (void)stage_ask_verb(stage, ENGINE_HEAP_DEACTIVATE);
        fd_set wait;
        struct timeval none = {0, 0};
        FD_ZERO(&wait);
        FD_SET(stage->from, &wait);
        while (select(stage->from + 1, &wait, NULL, NULL, &none) > 0 &&
               (got = read(stage->from, line + len, size - 1 - len)) > 0)
            len += (size_t)got;
        if (got == 0 && len > 0)
            break;
    }
    while (!memchr(line, '\n', len) && (got = read(stage->from, line + len, size - 1 - len)) > 0)
        len += (size_t)got;
    line[len] = 0;
    return rounds;
}

static void check_program(const char *const *command, const char *expected) {
    struct stage stage;
    char line[256] = "";
    if (access(command[0], X_OK) != 0)
        check_skip("%s is not installed", command[0]);
    stage_init(&stage, NULL, command);
    int rounds = disturb(&stage, line, sizeof line);
    printf("  %s: %d rounds, said %s", command[0], rounds, line);
    CHECK_STR(line, expected);
    CHECK_INT(rounds, >, 3);
    int status = -1;
    close(stage.to);
    CHECK_INT(waitpid(stage.pid, &status, 0), ==, stage.pid);
    CHECK_INT(status, ==, 0);
    stage.to = dup(stage.from);
    stage_finish(&stage);
}

TEST(python_counts_words) {
    const char *const command[] = {"/usr/bin/python3", "-c",
                                   "import json, threading, time\n"
                                   "end = time.time() + 1.5\n"
                                   "def work():\n"
                                   "    while time.time() < end:\n"
                                   "        d = {str(i): [i] * 50 for i in range(2000)}\n"
                                   "        assert json.loads(json.dumps(d)) == d\n"
                                   "t = [threading.Thread(target=work) for _ in range(3)]\n"
                                   "[x.start() for x in t]\n"
                                   "[x.join() for x in t]\n"
                                   "print('done')",
                                   NULL};
    check_program(command, "done\n");
}

TEST(node_builds_and_drops_buffers) {
    const char *const command[] = {"/usr/bin/node", "-e",
                                   "const end = Date.now() + 1500; let n = 0;"
                                   "while (Date.now() < end) {"
                                   "  const b = []; for (let i = 0; i < 200; i++)"
                                   "    b.push(Buffer.alloc(3000 + i, i & 255));"
                                   "  const z = require('zlib').deflateSync(Buffer.concat(b));"
                                   "  if (require('zlib').inflateSync(z).length < 600000) n++; }"
                                   "console.log(n ? 'wrong' : 'done')",
                                   NULL};
    check_program(command, "done\n");
}

TEST(perl_sorts) {
    const char *const command[] = {
        "/usr/bin/perl", "-e",
        "$e = time + 2; while (time < $e) { my %h = map { rand() => $_ } "
        "1..5000; my @s = sort keys %h; $w++ if @s != keys %h }"
        "print $w ? \"wrong\\n\" : \"done\\n\"",
        NULL};
    check_program(command, "done\n");
}

TEST(a_program_forks_all_the_time) {
    const char *const command[] = {"/usr/bin/perl", "-e",
                                   "for $i (0..149) { $x = `echo $i | sed s/^/a/`;"
                                   "  $wrong = 1 if $x ne \"a$i\\n\" }"
                                   "print $wrong ? \"wrong\\n\" : \"done\\n\"",
                                   NULL};
    check_program(command, "done\n");
}
