/* SPDX-License-Identifier: Apache-2.0
 *
 * Third-party programs whose imports of malloc are patched and restored while they run. Their
 * output is the same as without, and most of the memory they hold is sampled. */
#include "tests/unit/engine/heap/stage.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void switch_on_and_off(struct stage *stage, int rounds) {
    struct engine_heap_request on = {.verb = ENGINE_HEAP_ACTIVATE,
                                     .backend = ENGINE_HEAP_INTERPOSED};
    for (int round = 0; round < rounds; round++) {
        on.sample_bytes = round % 2 ? 4096 : 1 << 19;
        struct asked asked = stage_ask(stage, on);
        CHECK_STR(asked.diag.text, "");
        CHECK_INT(asked.err, ==, SONDE_OK);
        usleep(10000);
        CHECK_INT(stage_ask_verb(stage, ENGINE_HEAP_DEACTIVATE).err, ==, SONDE_OK);
    }
}

static void read_line(int from, char *line, size_t size) {
    size_t len = 0;
    ssize_t got;
    while (!memchr(line, '\n', len) && (got = read(from, line + len, size - 1 - len)) > 0)
        len += (size_t)got;
    line[len] = 0;
}

/* The program works until its stdin ends, however slow the machine is. */
static void check_program(const char *const *command, int rounds) {
    struct stage stage;
    char line[256] = "";
    if (access(command[0], X_OK) != 0)
        check_skip("%s is not installed", command[0]);
    stage_init(&stage, NULL, command);
    switch_on_and_off(&stage, rounds);
    close(stage.to);
    read_line(stage.from, line, sizeof line);
    CHECK_STR(line, "done\n");
    int status = -1;
    CHECK_INT(waitpid(stage.pid, &status, 0), ==, stage.pid);
    CHECK_INT(status, ==, 0);
    stage.to = dup(stage.from);
    stage_finish(&stage);
}

TEST(python_counts_words) {
    const char *const command[] = {"/usr/bin/python3", "-c",
                                   "import json, sys, threading\n"
                                   "over = threading.Event()\n"
                                   "def work():\n"
                                   "    while not over.is_set():\n"
                                   "        d = {str(i): [i] * 50 for i in range(2000)}\n"
                                   "        assert json.loads(json.dumps(d)) == d\n"
                                   "t = [threading.Thread(target=work) for _ in range(3)]\n"
                                   "[x.start() for x in t]\n"
                                   "sys.stdin.read()\n"
                                   "over.set()\n"
                                   "[x.join() for x in t]\n"
                                   "print('done')",
                                   NULL};
    check_program(command, 30);
}

TEST(node_builds_and_drops_buffers) {
    const char *const command[] = {"/usr/bin/node", "-e",
                                   "let over = false, wrong = 0;"
                                   "process.stdin.on('end', () => { over = true; }).resume();"
                                   "function work() {"
                                   "  if (over) { console.log(wrong ? 'wrong' : 'done'); return; }"
                                   "  const b = []; for (let i = 0; i < 200; i++)"
                                   "    b.push(Buffer.alloc(3000 + i, i & 255));"
                                   "  const z = require('zlib').deflateSync(Buffer.concat(b));"
                                   "  if (require('zlib').inflateSync(z).length < 600000) wrong++;"
                                   "  setImmediate(work); }"
                                   "work()",
                                   NULL};
    check_program(command, 30);
}

/* In Perl: whether stdin has not ended. */
#define GOES_ON "sub on { my $r = ''; vec($r, 0, 1) = 1; return !select($r, undef, undef, 0) } "

TEST(perl_sorts) {
    const char *const command[] = {"/usr/bin/perl", "-e",
                                   GOES_ON "while (on()) { my %h = map { rand() => $_ } "
                                           "1..5000; my @s = sort keys %h; $w++ if @s != keys %h }"
                                           "print $w ? \"wrong\\n\" : \"done\\n\"",
                                   NULL};
    check_program(command, 30);
}

TEST(a_program_forks_all_the_time) {
    const char *const command[] = {"/usr/bin/perl", "-e",
                                   GOES_ON "while (on()) { $x = `echo $i | sed s/^/a/`;"
                                           "  $wrong = 1 if $x ne \"a$i\\n\"; $i++ }"
                                           "print $wrong ? \"wrong\\n\" : \"done\\n\"",
                                   NULL};
    check_program(command, 300);
}

static void get_note(const char *program, char note[512]) {
    const char *const command[] = {program, NULL};
    const struct engine_heap_request on = {.verb = ENGINE_HEAP_ACTIVATE,
                                           .backend = ENGINE_HEAP_INTERPOSED};
    struct stage stage;
    stage_init(&stage, NULL, command);
    struct asked asked = stage_ask(&stage, on);
    CHECK_INT(asked.err, ==, SONDE_OK);
    snprintf(note, 512, "%s", asked.state.note);
    stage_finish(&stage);
}

TEST(a_program_that_imports_operator_new_is_not_said_to_import_no_malloc) {
    char note[512];
    get_note("tests/unit/engine/heap/new_only", note);
    CHECK_STR(note, "");
    get_note("tests/unit/engine/heap/holder_plain", note);
    CHECK_STR(note, "");
    get_note("tests/unit/engine/heap/never", note);
    CHECK_STR(note,
              "holder itself imports no malloc, so only allocations of its libraries are seen");
}
