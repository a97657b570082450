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
BUSY = os.path.join(stack.WORK, "busy-walker")
stack.install()
subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-x", "c", "-o", BUSY, "-"], input=SOURCE, text=True, check=True)


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


check.main(globals())
