# SPDX-License-Identifier: Apache-2.0
"""Checks the documents for other viewers by the rules of their formats, and rebuilds the profile from them: Firefox Profiler, Grafana,
Pyroscope, DeepFlow and Markdown. The collapsed format says what must come out. firefox_test also opens files with Firefox Profiler's
own reader. No package reads Grafana's rows outside of its page (@grafana/flamegraph is a React component), so its documented fields
are checked here: level, value, self and label, and of a difference valueRight and selfRight."""

import bisect
import collections
import json
import re
import subprocess
import sys
import unittest
import uuid

DRAW = sys.argv.pop(1)
FIXTURES = ["server", "empty", "hostile", "memory", "heap", "trimmed", "empty_heap"]
OID = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")


def draw(*arguments):
    return subprocess.run([DRAW, *arguments], check=True, capture_output=True).stdout.decode()


def stacks(*arguments):
    """{(frame, ...): value} of the collapsed format, root first."""
    found = {}
    for line in draw("collapsed", *arguments).splitlines():
        path, value = line.rsplit(" ", 1)
        if path not in ("[no samples]", "[no stack]"):
            found[tuple(path.split(";"))] = int(value)
    return found


def colons(path):
    return tuple(name.replace(";", ":") for name in path)


class Firefox(unittest.TestCase):
    TABLES = {
        "frameTable": {"func", "category", "address", "inlineDepth", "subcategory", "nativeSymbol", "innerWindowID",
                       "implementation", "line", "column"},
        "funcTable": {"name", "resource", "isJS", "relevantForJS", "fileName", "lineNumber", "columnNumber"},
        "resourceTable": {"lib", "name", "host", "type"},
        "nativeSymbols": {"address", "functionSize", "libIndex", "name"},
        "stackTable": {"prefix", "frame", "category", "subcategory"},
        "samples": {"stack", "time", "weight", "weightType"},
        "markers": {"category", "data", "endTime", "name", "phase", "startTime"},
    }

    def check_tables(self, thread, meta, libs):
        for name, columns in self.TABLES.items():
            table = dict(thread[name])
            length = table.pop("length")
            self.assertEqual(set(table), columns)
            self.assertTrue(all(len(c) == length for k, c in table.items() if k != "weightType"), name)
        categories = len(meta["categories"])
        func, frame, stack = thread["funcTable"], thread["frameTable"], thread["stackTable"]
        strings, resource = thread["stringArray"], thread["resourceTable"]
        self.assertEqual(len(set(strings)), len(strings))
        self.assertTrue(all(0 <= n < len(strings) for n in func["name"] + resource["name"]))
        self.assertTrue(all(-1 <= r < resource["length"] for r in func["resource"]))
        self.assertTrue(all(f is None or 0 <= f < len(strings) for f in func["fileName"]))
        self.assertTrue(all((line is None) or (line > 0 and f is not None)
                            for f, line in zip(func["fileName"], func["lineNumber"])))
        self.assertTrue(all(0 <= lib < libs for lib in resource["lib"]))
        self.assertTrue(all(0 <= f < func["length"] for f in frame["func"]))
        self.assertTrue(all(0 <= c < categories for c in frame["category"] + stack["category"]))
        self.assertTrue(all(0 <= f < frame["length"] for f in stack["frame"]))
        self.assertTrue(all(p is None or 0 <= p < i for i, p in enumerate(stack["prefix"])))
        self.assertTrue(all(s is None or 0 <= s < stack["length"] for s in thread["samples"]["stack"]))

    def read(self, *arguments):
        """Checks the document and returns it with {stack: weight}, with the thread first."""
        document = json.loads(draw("firefox", *arguments))
        meta, found = document["meta"], collections.Counter()
        self.assertEqual((meta["version"], meta["preprocessedProfileVersion"]), (24, 49))
        self.assertIn("grey", [c["color"] for c in meta["categories"]])
        self.assertTrue(all(c["subcategories"][0] == "Other" for c in meta["categories"]))
        self.assertIn("does not have the times", meta["extra"][0]["entries"][0]["value"])
        self.assertGreaterEqual(len(document["threads"]), 1)
        self.assertEqual(sum(t["isMainThread"] for t in document["threads"]), 1)
        tids = [t["tid"] for t in document["threads"]]
        self.assertEqual(len(set(tids)), len(tids))
        for lib in document["libs"]:
            self.assertEqual(set(lib), {"arch", "name", "path", "debugName", "debugPath", "breakpadId", "codeId"})
            self.assertRegex(lib["breakpadId"], "^[0-9A-F]{32}0$")
        for thread in document["threads"]:
            self.check_tables(thread, meta, len(document["libs"]))
            samples, paths = thread["samples"], []
            for prefix, frame in zip(thread["stackTable"]["prefix"], thread["stackTable"]["frame"]):
                name = thread["stringArray"][thread["funcTable"]["name"][thread["frameTable"]["func"][frame]]]
                paths.append((() if prefix is None else paths[prefix]) + (name,))
            self.assertEqual(len(set(paths)) <= len(paths), True)
            self.assertEqual(samples["time"], sorted(samples["time"]))
            self.assertTrue(all(weight > 0 for weight in samples["weight"]))
            for stack, weight in zip(samples["stack"], samples["weight"]):
                found[(thread["name"],) + (paths[stack] if stack is not None else ())] += weight
        return document, found

    def test_stacks_and_weights_are_those_of_the_profile(self):
        for fixture in FIXTURES:
            document, found = self.read(fixture)
            expected = stacks(fixture, "split")
            kind = document["threads"][0]["samples"]["weightType"]
            factor = 10.10101 if kind == "tracing-ms" else 1  # the fixtures' period
            self.assertEqual(kind, "bytes" if "memory" in fixture or fixture in ("heap", "trimmed", "empty_heap") else "tracing-ms")
            found = collections.Counter({colons(p if p[0] != "all" else p[1:]): w for p, w in found.items()})
            self.assertEqual(set(found), set(expected), fixture)
            for path, weight in found.items():
                self.assertAlmostEqual(weight, expected[path] * factor, delta=0.01 * factor)

    def test_one_thread_each_without_asking(self):
        document, _ = self.read("server")
        self.assertEqual([(t["name"], t["isMainThread"]) for t in document["threads"]],
                         [("io;1", False), ("jobs", False), ("server", True)])
        document, found = self.read("server", "split")
        self.assertEqual(len(document["threads"]), 3)
        self.assertAlmostEqual(sum(found.values()), 972 * 10.10101, delta=0.01)

    def test_a_build_id_becomes_breakpads_id(self):
        document, _ = self.read("server")
        self.assertEqual(document["libs"][0]["breakpadId"], "01EFCDAB4523896700000000000000000")
        self.assertEqual(document["libs"][0]["codeId"], "abcdef0123456789")
        self.assertIsNone(document["libs"][2]["codeId"])

    def test_no_samples_is_one_empty_thread(self):
        document, found = self.read("empty")
        self.assertEqual((len(document["threads"]), found), (1, {}))


class Grafana(unittest.TestCase):
    def rows(self, fixture, value, own):
        """Checks the order and the sums of one side and returns {path: self}."""
        path, children, found = [], [], {}
        rows = json.loads(draw("grafana", fixture))
        self.assertEqual((rows[0]["level"], rows[0]["label"]), (0, "total"))
        for row in rows:
            self.assertLessEqual(row["level"], len(path))
            self.assertTrue(row["level"] > 0 or row is rows[0])
            del path[row["level"]:], children[row["level"]:]
            path.append(row["label"])
            children.append(row)
            if row["level"]:
                children[row["level"] - 1].setdefault("sum" + value, 0)
                children[row["level"] - 1]["sum" + value] += row[value]
            if row[own]:
                key = colons(path[1:])
                found[key] = found.get(key, 0) + row[own]
        for row in rows:
            self.assertEqual(row[value], row[own] + row.get("sum" + value, 0))
        return found

    def test_rows_rebuild_the_profile(self):
        for fixture in FIXTURES:
            self.assertEqual(self.rows(fixture, "value", "self"), {k: v for k, v in stacks(fixture).items() if v}, fixture)

    def test_a_difference_has_both_sides(self):
        self.assertEqual(self.rows("diff", "value", "self"),
                         {("main", "grew"): 20, ("main", "same"): 40, ("main", "shrank"): 40})
        self.assertEqual(self.rows("diff", "valueRight", "selfRight"), stacks("diff"))


class Flamebearer(unittest.TestCase):
    def read(self, fixture, size, first):
        """Places the nodes of one side by their x and returns the document with {path: self}."""
        document = json.loads(draw("flamebearer", fixture))
        bearer, above, found = document["flamebearer"], None, {}
        for level in bearer["levels"]:
            self.assertEqual(len(level) % size, 0)
            at, row = 0, []
            for i in range(0, len(level), size):
                delta, total, own = level[i + first:i + first + 3]
                self.assertGreaterEqual(delta, 0)
                name, x, path = bearer["names"][level[i + size - 1]], at + delta, ()
                at = x + total
                if above is not None:  # below the last node that begins, with its own value, at or before x
                    start, end, own_above, path = above[bisect.bisect(above, x, key=lambda node: node[0] + node[2]) - 1]
                    self.assertTrue(start + own_above <= x and at <= end, (fixture, name))
                    path += (name,)
                row.append((x, at, own, path))
                if own:
                    found[colons(path)] = found.get(colons(path), 0) + own
            above = row
        return document, found

    def test_levels_rebuild_the_profile(self):
        for fixture in FIXTURES + ["large"]:
            document, found = self.read(fixture, 4, 0)
            expected = {k: v for k, v in stacks(fixture).items() if v}
            self.assertEqual(found, expected, fixture)
            self.assertEqual(document["metadata"]["format"], "single")
            self.assertEqual(document["flamebearer"]["names"][document["flamebearer"]["levels"][0][3]], "total")
            self.assertEqual(document["flamebearer"]["numTicks"], sum(expected.values()))
            self.assertEqual(document["flamebearer"]["levels"][0][1], sum(expected.values()))
            if fixture != "large":  # several frames may have one name
                self.assertEqual(document["flamebearer"]["maxSelf"], max(expected.values(), default=0))

    def test_a_difference_is_double(self):
        document, left = self.read("diff", 7, 0)
        self.assertEqual(sum(left.values()), 100)
        self.assertEqual(self.read("diff", 7, 3)[1], stacks("diff"))
        self.assertEqual((document["leftTicks"], document["rightTicks"], document["flamebearer"]["numTicks"]), (100, 200, 300))
        self.assertEqual((document["metadata"]["format"], document["flamebearer"]["maxSelf"]), ("double", 100))

    def test_units_are_pyroscopes(self):
        def units(fixture):
            metadata = json.loads(draw("flamebearer", fixture))["metadata"]
            return metadata["units"], metadata["sampleRate"]
        self.assertEqual(units("server"), ("samples", 99))
        self.assertEqual(units("trimmed"), ("bytes", 100))
        self.assertEqual(units("heap"), ("bytes", 100))


class DeepFlow(unittest.TestCase):
    def read(self, fixture):
        """Checks ids and sums and returns the nodes as {path: (self, total)}, without the root."""
        nodes = json.loads(draw("deepflow", fixture))
        paths = {"": ()}
        self.assertEqual(nodes[0]["node_id"], "")
        self.assertEqual((nodes[0]["parent_node_id"], nodes[0]["self_value"]), ("-1", 0))
        sums = collections.Counter()
        for node in nodes:
            self.assertEqual(set(node), {"profile_location_str", "node_id", "parent_node_id", "self_value", "total_value"})
            sums[node["parent_node_id"]] += node["total_value"]
            if node is not nodes[0]:
                paths[node["node_id"]] = paths[node["parent_node_id"]] + (node["profile_location_str"],)
        self.assertEqual(len(paths), len(nodes))
        for node in nodes:
            self.assertEqual(node["total_value"], node["self_value"] + sums[node["node_id"]])
            if node is not nodes[0]:
                self.assertEqual(node["node_id"], str(uuid.uuid5(OID, ";".join(paths[node["node_id"]]))))
        return {paths[n["node_id"]]: (n["self_value"], n["total_value"]) for n in nodes}

    def test_ids_and_sums_hold_for_every_profile(self):
        for fixture in FIXTURES:
            if fixture.startswith("empty"):
                self.assertEqual(draw("deepflow", fixture), "[]")
                continue
            nodes = self.read(fixture)
            factor = 1 if fixture in ("memory", "heap", "trimmed") else 10101.010
            self.assertAlmostEqual(nodes[()][1], sum(stacks(fixture).values()) * factor, delta=1, msg=fixture)
            self.assertTrue(all(path[0][:4] in ("[p] ", "[t] ") for path in nodes if path))

    def test_columns_are_the_same_tree(self):
        for fixture in FIXTURES:
            document = json.loads(draw("deepflow-columnar", fixture))
            functions, types = document["functions"], document["function_types"]
            self.assertEqual(document["node_values"]["columns"], ["function_id", "parent_node_id", "self_value", "total_value"])
            self.assertEqual(document["function_values"]["columns"], ["self_value", "total_value"])
            paths, found, own = [], {}, collections.Counter()
            for function, parent, self_value, total in document["node_values"]["values"]:
                self.assertEqual(parent < 0, not paths)
                paths.append(paths[parent] + (functions[function],) if paths else ())
                found[paths[-1]] = (self_value, total)
                own[function] += self_value
            self.assertEqual(len(types), len(functions))
            self.assertTrue(set(types) <= set("HPTKLCA?O"))
            self.assertEqual([v[0] for v in document["function_values"]["values"]], [own[i] for i in range(len(functions))])
            self.assertEqual(found, {} if fixture.startswith("empty") else self.read(fixture))


class Markdown(unittest.TestCase):
    def test_tables_have_their_cells_and_are_bounded(self):
        for fixture in FIXTURES + ["diff", "heap_diff", "large"]:
            text = draw("md", fixture)
            for section, cells, most in (("Functions", 4, 25), ("Threads", 2, 10)):
                rows = [line for line in text.partition(f"## {section}\n")[2].partition("\n## ")[0].splitlines() if line[:1] == "|"]
                self.assertTrue(all(len(re.split(r"(?<!\\)\|", row)) == cells + 2 for row in rows), rows)
                self.assertLessEqual(len(rows), 2 + most)
            self.assertLessEqual(len(re.findall(r"^\d+\. ", text, re.M)), 10)
            self.assertLess(len(text.splitlines()), 70)
            self.assertEqual("\nno samples\n" in text, fixture.startswith("empty"))

    def test_names_are_code_whatever_they_contain(self):
        text = draw("md", "hostile")
        self.assertFalse(any(ord(c) < 32 and c != "\n" for c in text))
        self.assertFalse(set(text) & set("\u202e\u2066\ufffe\uffff\x7f"))
        for line in text.splitlines():
            self.assertEqual(line.count("`") % 2, 0, line)
            outside = "".join(line.split("`")[::2])
            self.assertFalse("<" in outside or "[" in outside, line)

    def test_a_large_profile_says_what_is_left_out(self):
        text = draw("md", "large")
        self.assertRegex(text, r"\n\d+ more functions are left out\.\n")
        self.assertRegex(text, r"\n\d+ more stacks are left out\.\n")

    def test_threads_are_listed_and_have_their_stacks_together(self):
        text = draw("md", "server")
        self.assertIn("## Threads\n\n| total | thread |\n|---:|---|\n| 8.41 s (85.7 %) | `server` |\n| 1.31 s (13.4 %) | `jobs` |\n", text)
        self.assertIn("1. 4.04 s (41.2 %): `main` → ", text)
        self.assertNotIn("## Threads", draw("md", "trimmed"))

    def test_times_not_samples(self):
        self.assertIn("- total: 9.82 s of `cpu` in 10 s\n", draw("md", "server"))
        self.assertIn("| 4.54 s (46.2 %) | 4.54 s (46.2 %) | `copy_bytes` | `libfixture.so.1` |\n", draw("md", "server"))


unittest.main(argv=["viewers"])
