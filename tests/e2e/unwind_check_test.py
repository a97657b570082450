# SPDX-License-Identifier: Apache-2.0
"""`sonde doctor --unwind` on a running program that nobody prepared: the walks with Sonde's tables equal libunwind's."""

import json
import os
import subprocess

from tests.cli import check
from tests.e2e import stack

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int by_text(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }
static unsigned deep(unsigned depth) {
    char text[64], *words[40], room[40][16];
    snprintf(text, sizeof text, "%u", depth);
    for (int i = 0; i < 40; i++)
        words[i] = room[i], snprintf(room[i], 16, "%u", rand());
    qsort(words, 40, sizeof *words, by_text);
    return depth ? deep(depth - 1) + strlen(text) + words[3][0] : 1;
}
int main(void) {
    unsigned sum = 0;
    puts("ready"), fflush(stdout);
    for (;;)
        sum += deep(sum % 20);
}
"""
# A caller without unwind information, in which rbp is no frame pointer.
LOST = r"""
__asm__(".text\nlost: push %rbp\n mov $1, %ebp\n call spin\n pop %rbp\n ret\n");
void lost(void);
__attribute__((used, noinline)) void spin(void) {
    for (volatile unsigned long i = 0; i < 1ul << 26; i++)
        ;
}
int main(void) {
    for (;;)
        lost();
}
"""
stack.install()


def build(name, source):
    path = os.path.join(stack.WORK, name)
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-x", "c", "-o", path, "-"], input=source, text=True, check=True)
    return path


BUSY = build("busy-walker", SOURCE)


class Process:
    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def __enter__(self):
        return str(self.process.pid)

    def __exit__(self, *ended):
        self.process.kill()
        self.process.wait()


def test_the_walks_of_a_busy_program_equal_libunwinds():
    with Process(BUSY) as pid:
        found = json.loads(stack.sonde("doctor", "--unwind", pid, "-d", "1", "--json")[0])
        stacks, frames = int(found["stacks"]), int(found["frames"])
        assert stacks >= 2 and frames >= 4 * stacks, found
        assert int(found["equalFrames"]) >= 0.99 * frames, found
        assert int(found["reachedRoot"]) >= 0.98 * stacks, found
        text = stack.sonde("doctor", "--unwind", "busy-walker", "-d", "0.3")[0]
        assert "compared with libunwind's" in text and "walked to the root: 100.0 % by Sonde" in text, text


def test_a_check_that_compares_nothing_fails_and_says_why():
    with Process("/bin/sleep", "1000") as pid:
        text = stack.sonde("doctor", "--unwind", pid, "-d", "0.1", status=1)[0]
        assert "no samples: the process used no CPU time" in text, text
    error = stack.sonde("doctor", "--unwind", pid, "-d", "0.1", status=1)[1]
    assert f"pid {pid}" in error, error


def replay(path, status=0):
    done = subprocess.run(["tests/unit/unwind/replay", path], capture_output=True, text=True, timeout=60, check=False)
    check.equal(done.returncode, status, done.stdout + done.stderr)
    return done.stdout


def test_a_stack_whose_walk_ends_early_is_saved_and_walked_elsewhere():
    saved, name = os.path.join(stack.WORK, "lost.stack"), "lost-caller"
    with Process(build(name, LOST)) as pid:
        out, err = stack.sonde("doctor", "--unwind", pid, "-d", "1", "--save-stack", saved)
        check.contains(out, "compared with libunwind's")
        check.contains(err, f"saved {saved}: 2 frames (no row and no plausible frame pointer)")
        check.contains(err, "look for secrets before you pass it on")
        as_json = json.loads(stack.sonde("doctor", "--unwind", pid, "-d", "1", "--save-stack", saved, "--json")[0])
        assert "savedStack" not in as_json, as_json
    check.equal(os.stat(saved).st_mode & 0o777, 0o600, "who may read it")
    os.remove(os.path.join(stack.WORK, name))  # the file has all that the walk needs
    text = replay(saved)
    check.contains(text, f" {name}+0x")
    check.contains(text, "end: no row and no plausible frame pointer\nsaved: 2 frames, no row and no plausible frame pointer\n")
    check.contains(text, "the walks are equal")
    with open(saved, "rb") as file:
        whole = file.read()
    for cut in (whole[:100], b"garbage", b""):
        with open(saved, "wb") as file:
            file.write(cut)
        replay(saved, status=2)


def test_nothing_is_saved_of_walks_that_reach_their_roots_or_where_no_file_can_be_made():
    saved = os.path.join(stack.WORK, "whole.stack")
    with Process(BUSY) as pid:
        found, err = stack.sonde("doctor", "--unwind", pid, "-d", "0.3", "--save-stack", saved, "--json")
        found = json.loads(found)
        if found["reachedRoot"] == found["equalStacks"] == found["stacks"]:
            check.contains(err, "no stack was saved")
            assert not os.path.exists(saved)
        check.contains(stack.sonde("doctor", "--unwind", pid, "--save-stack", "/nowhere/x", status=1)[1], "/nowhere/x")
    check.contains(stack.sonde("doctor", "--save-stack", saved, status=2)[1], "--save-stack needs --unwind TARGET")


check.main(globals())
