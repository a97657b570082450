# SPDX-License-Identifier: Apache-2.0
"""Exports of the page: views as one HTML file that works without the gateway, and profiles in every format."""

import base64
import gzip
import json
import os

from tests.cli import check
from tests.e2e import stack
from tests.ui import view

DEMO = os.path.abspath("clients/demo/demo")
stack.install()
SERVER = stack.Server(DEMO, "--guide", flags=("--name", "demo", "--history"), ready="demo: pid")
PAGE = view.View(SERVER.page)
COPY = view.View("file://")

# Keeps what the page saves instead of downloading it.
CATCH = """window.saved = [];
const create = URL.createObjectURL;
URL.createObjectURL = (blob) => { window.saved.push({ blob }); return create(blob); };
HTMLAnchorElement.prototype.click = function () { window.saved.at(-1).name = this.download; };"""

READ = """const done = arguments[arguments.length - 1], one = window.saved.at(-1), reader = new FileReader();
reader.onload = () => done([one.name, reader.result.split(',')[1]]);
reader.readAsDataURL(one.blob);"""

# Drops a profile whose names are hostile, made by the page's own code.
HOSTILE = """const done = arguments[arguments.length - 1];
Promise.all([import('/ui/profile.js'), import('/ui/pprof.js')]).then(([{ Profile, KIND }, { encode }]) => {
    const profile = new Profile([{ type: 'cpu', unit: 'nanoseconds' }]);
    for (const name of ['</script><script>window.broken = 1</script>', '<!-- <script>', '<img src=x onerror="window.broken = 1">']) {
        profile.frame.push(profile.addFunction(name, 'a', '', KIND.APPLICATION));
        profile.line.push(0);
        profile.endStack([100]);
    }
    const data = new DataTransfer();
    data.items.add(new File([encode(profile)], 'hostile.pb'));
    document.querySelector('main').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
    done();
});"""


def take(**query):
    words = "&".join(f"{key}={value}" for key, value in {"seconds": 1, "frequency": 499, **query}.items())
    return json.loads(SERVER.get(f"/t/demo/v1/captures?{words}", method="POST")[2])["id"]


CAPTURES = [take(), take()]


def export(item):
    """Chooses an item of the menu Export and returns the name and the bytes of the file."""
    PAGE.run(CATCH)
    PAGE.click("Export ▾")
    PAGE.click(item, ".menu button")
    check.until(lambda: PAGE.run("return window.saved.at(-1)?.name") or PAGE.text(".toast"), 60, "the file")
    check.equal(PAGE.text(".toast"), "")
    name, content = PAGE.driver.execute_async_script(READ)
    return name, base64.b64decode(content)


def open_copy():
    """Exports the open view as a page and opens that file."""
    name, content = export("This page as one HTML file")
    assert name.endswith(".html"), name
    path = os.path.join(stack.WORK, "copy.html")
    with open(path, "wb") as file:
        file.write(content)
    COPY.go(path)
    COPY.until_text(PAGE.text(".title"), ".title")
    return content.decode()


def is_the_same_view():
    """The copy shows the same profile, its search works, and it asks for nothing."""
    check.equal(COPY.text(".legend"), PAGE.text(".legend"))
    check.near(COPY.search("match_rules|store_page|wait"), PAGE.search("match_rules|store_page|wait"), 0.1, "the share that matches")
    check.equal(COPY.run("return performance.getEntriesByType('resource').length"), 0)
    check.equal(COPY.browser.errors(), [])


# ---- Pages ----


def test_a_capture_is_a_page_that_works_offline_with_its_settings():
    PAGE.go(f"/#captures?id={CAPTURES[0]}&q=match_rules&i=1")
    PAGE.until_text("% matched", ".count")
    text = open_copy()
    check.equal(COPY.state(), PAGE.state())
    check.contains(COPY.text(".count"), "% matched")
    is_the_same_view()
    assert "http-equiv" in text and "src=" not in text.split("</style>")[0].split("<style>")[0], "a page that loads something"
    COPY.shoot("exported")


def test_a_comparison_is_a_page_too():
    PAGE.go(f"/#compare?base=capture/{CAPTURES[0]}&new=capture/{CAPTURES[1]}")
    PAGE.until_text("larger share than in the base", ".legend")
    open_copy()
    is_the_same_view()


def test_memory_is_a_page_too():
    SERVER.get("/t/demo/v1/heap?active=true&sample_bytes=4096", method="PUT")
    check.until(lambda: b"store_page" in SERVER.get("/t/demo/debug/pprof/heap?output=collapsed")[2], what="memory of pages")
    PAGE.go("/t/demo/#heap")
    PAGE.until_text("In use at", ".title")
    open_copy()
    is_the_same_view()


def test_threads_are_a_page_too():
    PAGE.go("/t/demo/#threads?as=graph")
    PAGE.until_text("Threads of demo", ".title")
    open_copy()
    is_the_same_view()


def test_what_was_live_is_a_page_too():
    PAGE.go("/t/demo/#live")
    PAGE.until_text("of CPU time", ".legend")
    check.until(lambda: PAGE.search("match_rules") > 0, what="samples of the function that uses most time")
    PAGE.click("Pause")
    open_copy()
    assert COPY.search("match_rules") > 0


def test_a_dropped_file_with_hostile_names_stays_text():
    PAGE.go("/#captures")
    PAGE.until_text("tick two", "#view")
    PAGE.driver.execute_async_script(HOSTILE)
    PAGE.until_text("hostile.pb", ".title")
    open_copy()
    assert COPY.search("window.broken") > 60
    for page in (PAGE, COPY):
        check.equal(page.run("return window.broken ?? null"), None)
    check.equal(COPY.browser.errors(), [])


# ---- Formats ----


def test_every_format_is_saved():
    PAGE.go(f"/#captures?id={CAPTURES[0]}")
    PAGE.until_text("Capture", ".title")
    files = {item: export(item) for item in ("pprof", "SVG", "speedscope", "Firefox Profiler", "Markdown", "collapsed stacks", "table")}
    check.contains(gzip.decompress(files["pprof"][1]).decode("utf-8", "replace"), "match_rules")
    check.contains(files["SVG"][1].decode(), "<svg")
    check.contains(json.loads(files["speedscope"][1])["$schema"], "speedscope")
    check.equal("threads" in json.loads(files["Firefox Profiler"][1]), True)
    for item in ("SVG", "Markdown", "collapsed stacks", "table"):
        check.contains(files[item][1].decode(), "match_rules")
    extensions = sorted(name.split(".", 1)[1] for name, _ in files.values())
    check.equal(extensions, sorted(["pb.gz", "svg", "speedscope.json", "firefox.json", "md", "collapsed", "txt"]))


def test_the_saved_profile_is_the_one_of_the_service():
    PAGE.go(f"/#captures?id={CAPTURES[0]}")
    PAGE.until_text("Capture", ".title")
    path = os.path.join(stack.WORK, "saved.pb.gz")
    with open(path, "wb") as file:
        file.write(export("pprof")[1])
    stack.sonde("draw", path, "-o", os.path.join(stack.WORK, "saved.collapsed"))
    with open(os.path.join(stack.WORK, "saved.collapsed"), encoding="utf-8") as file:
        saved = sorted(file.read().splitlines())
    check.equal(saved, sorted(SERVER.get(f"/v1/captures/{CAPTURES[0]}.collapsed")[2].decode().splitlines()))


def test_a_difference_is_saved_with_both_sides():
    PAGE.go(f"/#compare?base=capture/{CAPTURES[0]}&new=capture/{CAPTURES[1]}")
    PAGE.until_text("larger share than in the base", ".legend")
    check.contains(export("SVG")[1].decode(), "larger share than in the base")
    check.contains(gzip.decompress(export("pprof")[1]).decode("utf-8", "replace"), "pprof::base")


try:
    check.main(globals())
finally:
    PAGE.close()
    COPY.close()
    SERVER.stop()
