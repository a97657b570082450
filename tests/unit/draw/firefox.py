# SPDX-License-Identifier: Apache-2.0
"""Firefox Profiler's reader shows the functions of our files with their values and their source. It keeps a profile in a
daemon, which it expects to start within half a second; if the daemon is slower, it is asked again."""

import os
import subprocess
import sys
import tempfile
import time
import unittest

DRAW, READER = sys.argv.pop(1), sys.argv.pop(1)


class Reader(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory(dir="/tmp")  # it holds a socket, whose path must be short
        self.file = os.path.join(self.home.name, "x.firefox.json")

    def tearDown(self):
        self.ask("stop", "--all")
        self.home.cleanup()

    def ask(self, *words):
        done = subprocess.run(["node", READER, *words], env=dict(os.environ, HOME=self.home.name), capture_output=True,
                              text=True, timeout=60, check=False)
        return done.stdout + done.stderr

    def load(self, *arguments):
        with open(self.file, "wb") as out:
            subprocess.run([DRAW, "firefox", *arguments], stdout=out, check=True)
        text = self.ask("load", self.file)
        self.assertNotRegex(text, "(?i)(unrecognized|could not be parsed|invalid)")
        for _ in range(100):
            text = self.ask("thread", "functions")
            if "Functions in thread" in text:
                return text
            time.sleep(0.2)
        return self.fail(text)

    def test_functions_have_their_values_and_their_source(self):
        text = self.load("server")
        self.assertIn("t-2 (server)", text)
        self.assertRegex(text, r"libfixture\.so\.1!copy_bytes - self: 4\.04\ds \(48\.0%\), total: 4\.04\ds \(48\.0%\)")
        self.assertRegex(text, r"server!get_key - self: 1\.242s \(14\.8%\), total: 5\.283s \(62\.8%\)")
        self.assertRegex(text, r"\[kernel\.kallsyms\]!tcp_sendmsg - self: 2\.222s")
        handle = next(line.split(".")[0].strip() for line in text.splitlines() if "!get_key" in line)
        self.assertIn("Source file: src/server.c", self.ask("function", "annotate", handle))


unittest.main(argv=["firefox"])
