# SPDX-License-Identifier: Apache-2.0
"""Checks documents with independent parsers: the SVG with an XML parser, speedscope's JSON by the rules of its schema, the CSP
hashes with hashlib."""

import base64
import hashlib
import json
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ElementTree

DRAW = sys.argv.pop(1)
SVG = "{http://www.w3.org/2000/svg}"
FIXTURES = ["server", "empty", "hostile", "diff", "memory", "large"]
HEAPS = ["memory", "heap", "trimmed", "heap_diff", "empty_heap"]


def draw(*arguments):
    return subprocess.run([DRAW, *arguments], check=True, capture_output=True).stdout


def classes(root, tag, name):
    return [e for e in root.iter(SVG + tag) if name in e.get("class", "").split()]


class Pictures(unittest.TestCase):
    def test_every_svg_is_one_well_formed_document(self):
        for output in ["flamegraph", "callgraph"]:
            for fixture in FIXTURES:
                text = draw(output, fixture)
                self.assertTrue(text.startswith(b"<?xml"), (output, fixture))
                root = ElementTree.fromstring(text)
                self.assertEqual(root.tag, SVG + "svg")
                self.assertEqual(len(list(root.iter(SVG + "script"))), 1, (output, fixture))
                self.assertEqual(len(list(root.iter(SVG + "style"))), 1, (output, fixture))

    def test_an_svg_has_no_inline_handlers_or_styles(self):
        for output in ["flamegraph", "callgraph"]:
            for element in ElementTree.fromstring(draw(output, "hostile")).iter():
                for name in element.attrib:
                    self.assertFalse(name.startswith("on") or name == "style" or "href" in name, name)

    def test_hostile_names_are_text(self):
        root = ElementTree.fromstring(draw("flamegraph", "hostile"))
        titles = [t.text for t in root.iter(SVG + "title")]
        self.assertEqual(titles[0], "<b>title</b> & \"more\"")
        self.assertTrue(any(t.startswith("</title><script>window.broken = 1</script> (") for t in titles))
        self.assertTrue(any(t.startswith("]]></script><img src=x onerror=\"window.broken = 1\"> (") for t in titles))
        self.assertTrue(any("broken \\xff\\xc0\\x80 bytes" in t for t in titles))
        text = draw("flamegraph", "hostile").decode()
        self.assertFalse(any(ord(c) < 32 and c != "\n" for c in text))
        self.assertFalse(set(text) & set("\u202e\u2066\ufffe\uffff\x7f"))

    def test_hashes_are_those_of_the_embedded_script_and_style(self):
        expected = draw("hashes").decode().split("\n")
        for output in ["flamegraph", "callgraph"]:
            root = ElementTree.fromstring(draw(output, "server"))
            for tag, source in [("script", expected[0]), ("style", expected[1])]:
                data = next(root.iter(SVG + tag)).text.encode()
                digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
                self.assertEqual(f"'sha256-{digest}'", source)

    def test_the_script_is_at_most_200_lines_and_the_same_in_all_svgs(self):
        scripts = {next(ElementTree.fromstring(draw(o, f)).iter(SVG + "script")).text
                   for o in ["flamegraph", "callgraph"] for f in FIXTURES}
        self.assertEqual(len(scripts), 1)
        self.assertLessEqual(len(scripts.pop().splitlines()), 200)

    def test_a_frame_is_as_wide_as_its_share_and_is_drawn_above_its_caller(self):
        root = ElementTree.fromstring(draw("flamegraph", "server", "split"))
        frames = [p for g in classes(root, "g", "frames") for p in g.iter(SVG + "path")]
        place = {p.find(SVG + "title").text.rsplit(" (", 1)[0]: p for p in frames}

        def box(name):
            move, rest = place[name].get("d")[1:].split("h")
            x, y = map(float, move.split())
            return x, y, float(rest.split("v")[0])

        self.assertEqual(frames[0].find(SVG + "title").text, "all (100.00%)")
        self.assertAlmostEqual(box("server")[2] / box("all")[2], 833 / 972, delta=0.002)
        self.assertAlmostEqual(box("read_query")[2] / box("all")[2], 583 / 972, delta=0.002)
        self.assertEqual(box("all")[1] - box("server")[1], 18)
        self.assertEqual(box("read_query")[1] - box("parse_header")[1], 18)
        self.assertEqual(box("read_query")[0], box("parse_header")[0])
        self.assertEqual(place["all"].get("data-v"), "972")
        self.assertEqual(place["tcp_sendmsg"].get("data-v"), "220 220")

    def test_narrow_frames_are_folded_with_a_count_and_no_weight_is_lost(self):
        root = ElementTree.fromstring(draw("flamegraph", "large"))
        frames = [p for g in classes(root, "g", "frames") for p in g.iter(SVG + "path")]
        folded = [p for p in frames if p.find(SVG + "title").text.startswith("(")]
        self.assertGreater(len(folded), 10)
        self.assertTrue(all(int(p.get("data-n")) > 0 for p in folded))
        total = int(root.get("data-total"))
        self.assertTrue(all(int(p.get("data-v").split()[0]) >= total * 0.0001 for p in frames))
        lost = total - sum(int((p.get("data-v") + " 0").split()[1]) for p in frames)
        self.assertGreaterEqual(lost, 0)
        # Frames too small even for a "(n more)" are counted by their parent.
        self.assertTrue(lost == 0 or any(p.get("data-n") for p in frames if p not in folded))

    def test_svgs_without_samples_say_so_and_why(self):
        for output in ["flamegraph", "callgraph"]:
            root = ElementTree.fromstring(draw(output, "empty"))
            self.assertEqual([t.text for t in classes(root, "text", "empty")], ["no samples"])
            self.assertIn("CPU time", classes(root, "text", "why")[0].text)

    def test_a_difference_is_red_where_it_grew_and_blue_where_it_shrank(self):
        root = ElementTree.fromstring(draw("flamegraph", "diff"))
        colour = {p.find(SVG + "title").text.split()[0]: p.get("class")
                  for g in classes(root, "g", "frames") for p in g.iter(SVG + "path")}
        self.assertEqual(colour["grew"][0], "R")
        self.assertEqual(colour["shrank"][0], "B")
        self.assertEqual(colour["same"], "W0")
        self.assertEqual(colour["main"], "W0")

    def test_a_module_has_one_hue(self):
        root = ElementTree.fromstring(draw("flamegraph", "server"))
        hue = {p.find(SVG + "title").text.split()[0]: p.get("class")[0]
               for g in classes(root, "g", "frames") for p in g.iter(SVG + "path")}
        self.assertEqual(hue["main"], hue["get_key"])
        self.assertEqual(hue["copy_bytes"], hue["thread_start"])
        self.assertEqual(len({hue["main"], hue["copy_bytes"], hue["tcp_sendmsg"], hue["all"]}), 4)

    def test_the_call_graph_weighs_boxes_and_arrows(self):
        root = ElementTree.fromstring(draw("callgraph", "server"))
        nodes = {n.find(SVG + "title").text.split(" (")[0]: n for n in classes(root, "g", "node")}
        self.assertEqual(nodes["copy_bytes"].get("data-v"), "449 449")
        self.assertEqual(nodes["get_key"].get("data-v"), "523 123")
        size = {name: float(n.find(SVG + "text").get("font-size")) for name, n in nodes.items()}
        self.assertGreater(size["copy_bytes"], size["get_key"])
        self.assertGreater(size["get_key"], size["main"])
        widths = [float(e.get("stroke-width")) for e in classes(root, "path", "edge")]
        self.assertGreater(max(widths), 5)
        self.assertGreaterEqual(len(widths), 11)

    def test_a_large_call_graph_keeps_its_boxes_apart(self):
        root = ElementTree.fromstring(draw("callgraph", "large"))
        boxes = []
        for node in classes(root, "g", "node"):
            parts = node.find(SVG + "path").get("d")[1:].replace("h", " ").replace("q", " ").replace("v", " ").split()
            boxes.append((float(parts[0]) - 4, float(parts[1]), float(parts[2]) + 8))
        self.assertGreater(len(boxes), 20)
        for i, (x, y, width) in enumerate(boxes):
            for x2, y2, width2 in boxes[i + 1:]:
                self.assertTrue(abs(y - y2) > 20 or x + width <= x2 or x2 + width2 <= x, (x, y, x2, y2))


class Speedscope(unittest.TestCase):
    def check(self, *arguments):
        document = json.loads(draw("speedscope", *arguments))
        self.assertEqual(document["$schema"], "https://www.speedscope.app/file-format-schema.json")
        frames = document["shared"]["frames"]
        self.assertTrue(all(frame["name"] for frame in frames))
        for profile in document["profiles"]:
            self.assertEqual(profile["type"], "sampled")
            self.assertIn(profile["unit"], ["none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"])
            self.assertEqual(len(profile["samples"]), len(profile["weights"]))
            self.assertEqual(profile["startValue"] + sum(profile["weights"]), profile["endValue"])
            self.assertTrue(all(0 <= f < len(frames) for stack in profile["samples"] for f in stack))
        return document

    def test_split_is_one_profile_a_thread(self):
        document = self.check("server", "split")
        self.assertEqual({p["name"]: p["endValue"] for p in document["profiles"]}, {"server": 833, "jobs": 130, "io;1": 9})

    def test_without_split_it_is_one_profile_root_first(self):
        document = self.check("server")
        self.assertEqual([(p["name"], p["endValue"]) for p in document["profiles"]], [("all", 972)])
        names = [frame["name"] for frame in document["shared"]["frames"]]
        stacks = [[names[f] for f in stack] for stack in document["profiles"][0]["samples"]]
        self.assertIn(["main", "event_loop", "process_events", "read_query", "parse_header", "run_command"], stacks)

    def test_the_others(self):
        for fixture in FIXTURES:
            self.check(fixture)
        self.assertEqual(self.check("empty")["profiles"][0]["name"], "no samples")
        self.assertEqual(self.check("memory")["profiles"][0]["unit"], "bytes")


def total(fixture):
    """Live bytes according to the collapsed format (heap and trimmed are drawn by inuse_space)."""
    lines = draw("collapsed", fixture).decode().splitlines()
    return sum(int(line.rsplit(" ", 1)[1]) for line in lines)


class HeapSnapshot(unittest.TestCase):
    """Chrome's format: what V8's loader and memlab rely on."""

    def read(self, *arguments):
        document = json.loads(draw("heapsnapshot", *arguments))
        meta = document["snapshot"]["meta"]
        self.assertEqual(len(document["nodes"]), 7 * document["snapshot"]["node_count"])
        self.assertEqual(len(document["edges"]), 3 * document["snapshot"]["edge_count"])
        self.assertEqual(len(document["trace_function_infos"]), 6 * document["snapshot"]["trace_function_count"])
        strings = document["strings"]
        nodes = [dict(zip(meta["node_fields"], document["nodes"][i:i + 7])) for i in range(0, len(document["nodes"]), 7)]
        for node in nodes:
            node["type"] = meta["node_types"][0][node["type"]]
            node["name"] = strings[node["name"]]
        edges = [document["edges"][i:i + 3] for i in range(0, len(document["edges"]), 3)]
        infos = [document["trace_function_infos"][i:i + 6] for i in range(0, len(document["trace_function_infos"]), 6)]
        return document, nodes, edges, [(strings[info[1]], strings[info[2]]) for info in infos]

    def traces(self, document):
        """{id: (function, count, size, parent id)}"""
        found, waiting = {}, [(document["trace_tree"], 0)]
        while waiting:
            children, parent = waiting.pop()
            self.assertEqual(len(children) % 5, 0)
            for i in range(0, len(children), 5):
                number, function, count, size, below = children[i:i + 5]
                self.assertNotIn(number, found)
                found[number] = (function, count, size, parent)
                waiting.append((below, number))
        return found

    def check(self, *arguments):
        document, nodes, edges, functions = self.read(*arguments)
        self.assertEqual(nodes[0]["type"], "synthetic")
        self.assertEqual(len({node["id"] for node in nodes}), len(nodes))
        self.assertTrue(all(node["id"] % 2 for node in nodes))
        self.assertEqual(sum(node["edge_count"] for node in nodes), len(edges))
        targets = [edge[2] for edge in edges]
        self.assertTrue(all(t % 7 == 0 and 0 < t < 7 * len(nodes) for t in targets))
        self.assertEqual(sorted(targets), list(range(7, 7 * len(nodes), 7)))  # a tree: each node but the root once
        traces = self.traces(document)
        self.assertIn(1, traces)
        self.assertTrue(all(trace[0] < len(functions) for trace in traces.values()))
        live = {}
        for node in nodes:
            if node["type"] == "native":
                function, _, _, _ = traces[node["trace_node_id"]]
                self.assertEqual(functions[function][0], node["name"])
                count, size = live.get(node["trace_node_id"], (0, 0))
                live[node["trace_node_id"]] = (count + 1, size + node["self_size"])
            else:
                self.assertEqual((node["self_size"], node["trace_node_id"]), (0, 0))
        self.assertEqual({number: (t[1], t[2]) for number, t in traces.items() if t[2]}, live)
        self.assertEqual(document["samples"][1], nodes[-1]["id"])
        return nodes, edges, traces, functions

    def test_objects_are_below_their_site_and_add_up_to_the_profile(self):
        for fixture in HEAPS:
            nodes, edges, _, _ = self.check(fixture)
            self.assertEqual(sum(node["self_size"] for node in nodes), total(fixture) if fixture != "memory" else 5 * 2**20 + 1536)
            at = 0
            for node in nodes:
                for edge in edges[at:at + node["edge_count"]]:
                    if node is not nodes[0]:
                        self.assertEqual(nodes[edge[2] // 7]["name"], node["name"])
                at += node["edge_count"]

    def test_an_object_has_the_size_that_one_sample_represents(self):
        nodes, _, _, _ = self.check("trimmed")
        objects = {}
        for node in nodes:
            if node["type"] == "native":
                objects.setdefault(node["name"], []).append(node["self_size"])
        self.assertEqual({name: len(sizes) for name, sizes in objects.items()},
                         {"grow_table": 10, "new_node": 40, "[libfixture.so.1]+0x2000": 2, "[allocator]": 1})
        self.assertEqual(sum(objects["new_node"]), 20972800)
        self.assertLessEqual(max(objects["new_node"]) - min(objects["new_node"]), 1)

    def test_stacks_lead_from_the_object_to_the_root(self):
        nodes, _, traces, functions = self.check("trimmed")
        number = next(n["trace_node_id"] for n in nodes if n["type"] == "native" and n["name"] == "new_node")
        stack = []
        while number:
            stack.append(functions[traces[number][0]])
            number = traces[number][3]
        self.assertEqual(stack, [("new_node", "server"), ("insert<Key>", "server"), ("main", "server"), ("all", "")])

    def test_the_root_says_that_there_are_no_references(self):
        nodes, _, _, _ = self.check("trimmed")
        self.assertIn("53 sampled objects", nodes[0]["name"])
        self.assertIn("no references", nodes[0]["name"])
        self.assertEqual(self.check("empty_heap")[0][0]["name"], "(Sonde: no samples)")

    def test_all_one_counts_objects(self):
        nodes, _, _, _ = self.check("trimmed", "all_one")
        self.assertEqual({node["self_size"] for node in nodes if node["type"] == "native"}, {1})
        self.assertEqual(len(nodes), 1 + 4 + 53)


class HeapProfile(unittest.TestCase):
    def test_the_tree_and_the_samples_have_the_values_of_the_profile(self):
        for fixture in HEAPS:
            document = json.loads(draw("heapprofile", fixture))
            sizes, waiting = {}, [document["head"]]
            while waiting:
                node = waiting.pop()
                self.assertEqual(set(node["callFrame"]), {"functionName", "scriptId", "url", "lineNumber", "columnNumber"})
                self.assertNotIn(node["id"], sizes)
                sizes[node["id"]] = node["selfSize"]
                waiting += node["children"]
            self.assertEqual(sum(sizes.values()), total(fixture) if fixture != "memory" else 5 * 2**20 + 1536)
            self.assertEqual({s["nodeId"]: s["size"] for s in document["samples"]}, {n: s for n, s in sizes.items() if s})
            self.assertEqual([s["ordinal"] for s in document["samples"]], list(range(1, len(document["samples"]) + 1)))

    def test_names_and_modules(self):
        document = json.loads(draw("heapprofile", "trimmed"))
        main = next(c for c in document["head"]["children"] if c["callFrame"]["functionName"] == "main")
        self.assertEqual(main["callFrame"]["url"], "server")
        self.assertEqual(document["head"]["callFrame"]["functionName"], "(root)")


unittest.main(argv=["documents"])
