# SPDX-License-Identifier: Apache-2.0
"""The SVG in a browser, opened as a file, and served with a policy that only allows its script and its style: zoom, search,
inversion, keys, the state in the URL, hostile names, dark mode, narrow windows, empty profiles."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, Server  # noqa: E402

DRAW = sys.argv.pop(1)
FIXTURES = ["server", "empty", "hostile", "diff", "heap_diff", "memory", "large"]
TOTAL = 972


def draw(*arguments):
    return subprocess.run([DRAW, *arguments], check=True, capture_output=True).stdout


def setUpModule():
    global browser, driver, server, folder
    browser = Browser()
    driver = browser.driver
    script, style = draw("hashes").decode().split()
    headers = {"Content-Type": "image/svg+xml",
               "Content-Security-Policy": f"default-src 'none'; script-src {script}; style-src {style}"}
    pages = {f"/{f}.svg": (headers, draw("flamegraph", f, "split")) for f in FIXTURES}
    pages.update({f"/{f}.callgraph.svg": (headers, draw("callgraph", f)) for f in FIXTURES})
    server = Server(pages)
    folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
    for path, (_, body) in pages.items():
        pathlib.Path(folder.name + path).write_bytes(body)


def tearDownModule():
    browser.close()
    server.close()
    folder.cleanup()


def js(code, *arguments):
    return driver.execute_script(code, *arguments)


class Picture(unittest.TestCase):
    base = None

    def open(self, page, after=""):
        driver.get("about:blank")
        driver.get((self.base or server.url) + page + after)

    def tearDown(self):
        self.assertEqual(browser.errors(), [])
        self.assertIsNone(js("return window.broken ?? null"), "a name ran as a script")

    def frames(self):
        """[name, x, width, y, classes] of each frame, in the order of drawing."""
        return js("""return [...document.querySelectorAll('.frames .f')].map((g) => {
            const box = g.querySelector('path').getBBox();
            return [g.node.name, box.x, box.width, box.y, g.getAttribute('class').split(' ')]; });""")

    def frame(self, name):
        found = [f for f in self.frames() if f[0] == name]
        self.assertTrue(found, f"{name} is not drawn")
        return max(found, key=lambda f: f[2])

    def share(self, name):
        return self.frame(name)[2] / self.frame("all")[2]

    def click(self, name):
        js("""const g = [...document.querySelectorAll('.frames .f')].filter((g) => g.node.name === arguments[0])
            .sort((a, b) => b.node.total - a.node.total)[0];
            g.querySelector('path').dispatchEvent(new MouseEvent('click', { bubbles: true }));""", name)

    def key(self, key, target="svg"):
        js("document.querySelector(arguments[1]).dispatchEvent(new KeyboardEvent('keydown', { key: arguments[0], bubbles: true }))",
           key, target)

    def search(self, term):
        js("""const box = document.querySelector('input');
            box.value = arguments[0];
            box.dispatchEvent(new Event('input', { bubbles: true }));""", term)

    def matched(self):
        return js("return document.querySelector('.count').textContent")


class Everywhere:
    """Tests for both the file and the served page."""

    def test_it_is_drawn_to_the_width_of_the_window(self):
        self.open("/server.svg")
        width = js("return innerWidth")
        self.assertAlmostEqual(self.frame("all")[2], width - 24, delta=2)
        self.assertAlmostEqual(self.share("server"), 833 / TOTAL, delta=0.01)
        self.assertAlmostEqual(self.share("parse_header"), 583 / TOTAL, delta=0.01)

    def test_a_click_zooms_and_the_address_restores_it(self):
        self.open("/server.svg")
        self.assertLess(self.share("read_query"), 0.7)
        self.click("read_query")
        self.assertAlmostEqual(self.share("read_query"), 1, delta=0.01)
        self.assertIn("up", self.frame("main")[4])
        self.assertNotIn("jobs", [f[0] for f in self.frames()])
        self.assertAlmostEqual(self.share("get_key"), 523 / 583, delta=0.01)
        address = js("return location.href")
        self.assertIn("z=", address)
        driver.get("about:blank")
        driver.get(address)
        self.assertAlmostEqual(self.share("read_query"), 1, delta=0.01)
        js("document.querySelector('[data-k=\"0\"]').click()")
        self.assertLess(self.share("read_query"), 0.7)

    def test_search_shows_the_share_that_matches_counted_once(self):
        self.open("/server.svg")
        self.search("^get_key$")
        self.assertEqual(self.matched(), f"{100 * 523 / TOTAL:.2f} % matched")
        self.assertIn("hit", self.frame("get_key")[4])
        self.assertNotIn("hit", self.frame("main")[4])
        self.search("tcp|jobs")
        self.assertEqual(self.matched(), f"{100 * 350 / TOTAL:.2f} % matched")
        self.search("no such thing")
        self.assertEqual(self.matched(), "0.00 % matched")
        self.search("get_key[")  # not a regular expression, so it is searched literally
        self.assertEqual(self.matched(), "0.00 % matched")
        self.key("Escape")
        self.assertEqual(self.matched(), "")

    def test_invert_shows_callers(self):
        self.open("/server.svg")
        self.key("i")
        first, caller = self.frame("copy_bytes"), self.frame("get_key")
        self.assertAlmostEqual(first[2] / self.frame("all")[2], 449 / TOTAL, delta=0.01)
        self.assertGreater(first[3], self.frame("all")[3])  # downwards
        self.assertAlmostEqual(caller[2] / self.frame("all")[2], 400 / TOTAL, delta=0.01)
        self.assertGreater(caller[3], first[3])
        self.search("copy_bytes")
        self.assertEqual(self.matched(), f"{100 * 449 / TOTAL:.2f} % matched")
        address = js("return location.href")
        driver.get("about:blank")
        driver.get(address)
        self.assertAlmostEqual(self.frame("copy_bytes")[2] / self.frame("all")[2], 449 / TOTAL, delta=0.01)
        self.key("i")
        self.assertAlmostEqual(self.share("server"), 833 / TOTAL, delta=0.01)

    def test_a_search_in_the_address_is_applied(self):
        self.open("/server.svg", "?s=get_key")
        self.assertEqual(self.matched(), f"{100 * 523 / TOTAL:.2f} % matched")
        self.open("/server.svg", "#s=tcp&i=1")
        self.assertEqual(self.matched(), f"{100 * 220 / TOTAL:.2f} % matched")
        self.open("/server.svg", "#z=99999999&s=%5B")
        self.assertAlmostEqual(self.share("server"), 833 / TOTAL, delta=0.01)

    def test_the_tooltip_tells_total_and_self(self):
        self.open("/server.svg")
        js("""const g = [...document.querySelectorAll('.f')].find((g) => g.node.name === 'run_command');
            g.querySelector('path').dispatchEvent(new MouseEvent('mousemove', { bubbles: true, clientX: 300, clientY: 200 }));""")
        text = js("return document.querySelector('.over.shown .hint').innerText")
        self.assertIn("run_command", text)
        self.assertIn("total 583 samples, 59.98 %", text)
        self.assertIn("self 60 samples, 6.17 %", text)

    def test_hostile_names_stay_text(self):
        self.open("/hostile.svg")
        names = [f[0] for f in self.frames()]
        self.assertIn("</title><script>window.broken = 1</script>", names)
        self.assertIn("]]></script><img src=x onerror=\"window.broken = 1\">", names)
        self.assertIn("semi;colon (50.00%)", names)
        self.assertEqual(js("return document.querySelectorAll('script').length"), 1)
        self.assertEqual(js("return document.querySelectorAll('img').length"), 0)
        self.assertEqual(js("return document.querySelector('h1').textContent"), "<b>title</b> & \"more\"")
        for name in names:
            self.key("0")
            self.click(name)
            js("""document.querySelectorAll('.f path').forEach((p) =>
                p.dispatchEvent(new MouseEvent('mousemove', { bubbles: true })))""")
        self.key("i")
        self.search("<script>")
        self.assertEqual(js("return document.querySelectorAll('script').length"), 1)

    def test_an_empty_profile_says_so_and_nothing_breaks(self):
        for page in ["/empty.svg", "/empty.callgraph.svg"]:
            self.open(page)
            self.assertEqual(js("return document.querySelector('.empty').textContent"), "no samples")
            for key in ["n", "i", "f", "0", "d", "?", "ArrowUp", "Enter", "Escape"]:
                self.key(key)
            self.search("x")
            self.assertEqual(js("return document.querySelector('.empty').textContent"), "no samples")


class AsFile(Everywhere, Picture):
    def setUp(self):
        self.base = f"file://{folder.name}"


class UnderPolicy(Everywhere, Picture):
    def test_back_undoes_a_zoom(self):
        self.open("/server.svg")
        self.click("read_query")
        driver.back()
        self.assertLess(self.share("read_query"), 0.7)

    def test_case_is_ignored_when_asked(self):
        self.open("/server.svg")
        self.search("GET_KEY")
        self.assertEqual(self.matched(), "0.00 % matched")
        js("document.querySelector('[data-k=c]').click()")
        self.assertEqual(self.matched(), f"{100 * 523 / TOTAL:.2f} % matched")
        self.assertIn("c=1", js("return location.hash"))

    def test_next_and_previous_walk_over_the_matches(self):
        self.open("/server.svg")
        self.search("copy_bytes")
        seen = []
        for _ in range(4):
            self.key("n")
            seen.append(js("return document.querySelector('.cur').node.total"))
        self.assertEqual(seen[0], seen[3])
        self.assertEqual(sorted(seen[:3]), [9, 40, 400])
        self.key("N")
        self.assertEqual(js("return document.querySelector('.cur').node.total"), seen[2])

    def test_flip_turns_the_picture_over(self):
        self.open("/server.svg")
        self.assertLess(self.frame("main")[3], self.frame("all")[3])
        self.key("f")
        self.assertGreater(self.frame("main")[3], self.frame("all")[3])

    def test_the_keyboard_alone_is_enough(self):
        self.open("/server.svg")
        self.key("ArrowUp")
        self.key("ArrowUp")
        self.assertEqual(js("return document.querySelector('.cur').node.depth"), 1)
        self.key("ArrowRight")
        name = js("return document.querySelector('.cur').node.name")
        self.key("Enter")
        self.assertAlmostEqual(self.share(name), 1, delta=0.01)
        self.key("/")
        self.assertEqual(js("return document.activeElement.tagName.toLowerCase()"), "input")
        self.key("?")
        self.assertIn("next, previous match", js("return document.querySelector('.hint').textContent"))
        self.key("0")
        self.assertLess(self.share("server"), 0.9)

    def test_what_is_typed_into_the_box_is_no_command(self):
        self.open("/server.svg")
        self.key("i", "input")
        self.assertNotIn("i=1", js("return location.hash"))

    def test_values_with_units_read_well(self):
        self.open("/memory.svg")
        js("""document.querySelector('.f path').dispatchEvent(new MouseEvent('mousemove', { bubbles: true }))""")
        self.assertIn("5.00 MiB", js("return document.querySelector('.hint').innerText"))

    def test_the_call_graph_searches_and_tells(self):
        self.open("/server.callgraph.svg")
        self.search("get_key|main")
        self.assertEqual(self.matched(), "2 matched")
        self.assertEqual(js("return document.querySelectorAll('.node.hit').length"), 2)
        js("""document.querySelector('.node.hit path').dispatchEvent(new MouseEvent('mousemove', { bubbles: true }))""")
        self.assertIn("total 833 samples", js("return document.querySelector('.hint').innerText"))

    def test_a_large_profile_is_drawn_and_inverted(self):
        self.open("/large.svg")
        self.assertGreater(len(self.frames()), 1000)
        self.search("Class7::")
        self.assertRegex(self.matched(), r"^\d+\.\d\d % matched$")
        self.key("i")
        self.assertGreater(len(self.frames()), 1000)

    def test_dark_and_light_by_key(self):
        self.open("/server.svg")
        paper = "return getComputedStyle(document.querySelector('.paper')).fill"
        before = js(paper)
        self.key("d")
        self.assertNotEqual(js(paper), before)
        self.key("d")
        self.assertEqual(js(paper), before)

    def test_it_fits_a_window_of_400(self):
        self.open("/server.svg")
        driver.set_window_size(500, 800)
        try:
            js("document.documentElement.dispatchEvent(new Event('resize')); window.dispatchEvent(new Event('resize'))")
            width = js("return innerWidth")
            self.assertAlmostEqual(self.frame("all")[2], width - 24, delta=2)
            self.assertLessEqual(js("return document.documentElement.scrollWidth"), width)
            top = js("return document.querySelector('.bar').getBoundingClientRect().bottom")
            self.assertGreater(min(f[3] for f in self.frames()), top)
        finally:
            driver.set_window_size(1200, 800)

    def test_what_is_gone_is_listed_below_the_frames_at_any_width(self):
        self.open("/heap_diff.svg")
        for width in (1200, 500):
            driver.set_window_size(width, 800)
            js("window.dispatchEvent(new Event('resize'))")
            self.assertIn("1.00 MiB (2.0 %) [libfixture.so.1]+0x2000 ← new_node", js("return document.querySelector('.list').innerText"))
            box = js("const b = document.querySelector('.list').getBoundingClientRect(); return [b.top, b.bottom, b.right]")
            lowest = js("return Math.max(...[...document.querySelectorAll('.frames path')].map((p) => p.getBoundingClientRect().bottom))")
            foot = js("return document.querySelector('.foot').getBoundingClientRect().top")
            self.assertGreaterEqual(box[0], lowest)
            self.assertLessEqual(box[1], foot + 10)
            self.assertLessEqual(box[2], js("return innerWidth"))
        driver.set_window_size(1200, 800)
        self.open("/server.svg")
        self.assertIsNone(js("return document.querySelector('.list')"))

    def test_no_other_script_may_run(self):
        self.open("/server.svg")
        js("""const s = document.createElementNS('http://www.w3.org/2000/svg', 'script');
            s.textContent = 'window.broken = 1';
            document.documentElement.append(s);""")
        self.assertIsNone(js("return window.broken ?? null"))
        self.assertEqual(len(browser.errors()), 1)  # the policy reports the refusal

    def test_nothing_else_is_asked_for(self):
        del server.asked[:]
        self.open("/hostile.svg")
        self.assertEqual([path for path in server.asked if path != "/favicon.ico"], ["/hostile.svg"])


class Static(unittest.TestCase):
    def test_without_script_the_picture_is_whole(self):
        """A policy that allows no script at all."""
        style = draw("hashes").decode().split()[1]
        headers = {"Content-Type": "image/svg+xml", "Content-Security-Policy": f"default-src 'none'; style-src {style}"}
        still = Server({"/still.svg": (headers, draw("flamegraph", "server", "split"))})
        try:
            driver.get(still.url + "/still.svg")
            self.assertIn("Content Security Policy", " ".join(browser.errors()))  # the policy refused the script
            self.assertEqual(js("return getComputedStyle(document.querySelector('.head')).display"), "none")
            shown = js("""return [...document.querySelectorAll('.frames text')].map((t) => t.textContent)""")
            self.assertIn("parse_header", shown)
            title = js("return document.querySelector('.title').getBoundingClientRect().width")
            self.assertGreater(title, 50)
            self.assertIn("read_query (59.98%)", js("return [...document.querySelectorAll('title')].map((t) => t.textContent)"))
        finally:
            still.close()


class Dark(unittest.TestCase):
    def test_the_system_chooses_dark(self):
        dark = Browser(dark=True)
        try:
            dark.driver.get(f"file://{folder.name}/server.svg")
            self.assertEqual(dark.driver.execute_script(
                "return getComputedStyle(document.querySelector('.paper')).fill"), "rgb(22, 24, 29)")
            self.screenshot(dark.driver, "dark")
        finally:
            dark.close()

    @staticmethod
    def screenshot(at, name):
        """Writes screenshots to look at; they are not compared."""
        place = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR")
        if place:
            at.save_screenshot(f"{place}/{name}.png")


if __name__ == "__main__":
    unittest.main(argv=["svg"])
