# SPDX-License-Identifier: Apache-2.0
"""Opens the .heapsnapshot of a known profile in the DevTools of a headless Chromium."""

import subprocess
import sys
import unittest

import devtools_page

DRAW = sys.argv.pop(1)


class DevTools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = devtools_page.DevTools()

    @classmethod
    def tearDownClass(cls):
        cls.page.close()

    def load(self, *arguments):
        text = subprocess.run([DRAW, "heapsnapshot", *arguments], check=True, capture_output=True).stdout.decode()
        return self.page.load(text, "new_node")

    def test_sizes_by_site_are_those_of_the_profile(self):
        result = self.load("trimmed")
        expected = {"grow_table": (10, 31097609), "new_node": (40, 20972800), "[libfixture.so.1]+0x2000": (2, 1049276),
                    "[allocator]": (1, 526338)}
        self.assertEqual(result["total"], sum(size for _, size in expected.values()))
        classes = {c["name"]: (c["count"], c["self"]) for c in result["classes"] if c["self"]}
        self.assertEqual(classes, expected)
        retained = {c["name"]: c["maxRet"] for c in result["classes"] if c["self"]}
        self.assertEqual(retained, {name: size for name, (_, size) in expected.items()})

    def test_allocations_are_shown_with_their_stacks(self):
        result = self.load("trimmed")
        tops = {top["name"]: (top["count"], top["size"], top["liveCount"], top["liveSize"]) for top in result["tops"]}
        self.assertEqual(tops["new_node"], (40, 20972800, 40, 20972800))
        self.assertEqual([frame["functionName"] for frame in result["stack"]][:3], ["new_node", "insert<Key>", "main"])
        self.assertEqual(result["stack"][0]["scriptName"], "server")

    def test_all_one_counts(self):
        self.assertEqual(self.load("trimmed", "all_one")["total"], 53)

    def test_an_empty_heap_opens(self):
        self.assertEqual(self.load("empty_heap")["total"], 0)


unittest.main(argv=["devtools"])
