# SPDX-License-Identifier: Apache-2.0
"""The viewer of profiles in a browser: the page's own files, and saved captures that the test makes up, so that every value is
known. Needs no service."""

import json
import os
import random

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.cli import check
from tests.ui import browser, view
from tests.ui.profile_file import ProfileFile

UI = "gateway/ui"
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html; charset=utf-8", ".svg": "image/svg+xml"}
POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
MARKUP = ["<img src=x onerror=alert(1)>", "]]><script>alert(2)</script>", "\"quoted\" & 'single'", "{{7*7}}", b"bad \xff\xfe utf-8"]
MS = 1000000


def numbered(**options):
    """Two threads; parse is 10 %, match 70 % (of which 10 % in a recursive call), write 20 %."""
    profile = ProfileFile(**options)
    for stack, ms, thread in ((["main", "serve", ("parse", "", "/src/parse.c", 12)], 10, "one"), (["main", "serve", ("match", "", "/src/match.c", 7)], 60, "one"),
                              (["main", "serve", ("match", "", "/src/match.c", 7), ("match", "", "/src/match.c", 9)], 10, "two"),
                              (["main", "serve", ("write", "/lib/libc.so.6")], 20, "two")):
        profile.add(stack, [ms, ms * MS], [("thread", thread)])
    return profile.bytes()


def hostile():
    profile = ProfileFile()
    for number, name in enumerate(MARKUP):
        profile.add(["main", (name, b"/lib/<b>\xff.so", "<i>file</i>.c", 1)], [1, (number + 1) * MS], [("thread", "<u>thread</u>")])
    return profile.bytes()


def blocked():
    """A worker waits at two places, another thread only for work."""
    profile = ProfileFile((("samples", "count"), ("off_cpu", "nanoseconds")))
    for stack, ms, thread in ((["main", "lock"], 50, "worker"), (["main", "read"], 40, "worker"), (["main", "poll"], 100, "idle")):
        profile.add(stack, [ms, ms * MS], [("thread", thread)])
    return profile.bytes()


def deep():
    return ProfileFile().add([f"level_{number % 7}" for number in range(4000)], [1, MS]).bytes()


CAPTURES = {1: numbered(), 2: hostile(), 3: ProfileFile().bytes(), 4: b"\x1f\x8bnot gzip", 5: b"<html>no profile</html>", 6: deep(),
            7: ProfileFile((("alloc_space", "bytes"), ("inuse_space", "bytes"))).add(["main", "keep"], [4096, 1024]).bytes(), 8: blocked(), 9: numbered(build_id="abcd")}
# Of match, whose locations are the fourth and the fifth of the file.
CODE = {"path": "/srv/program", "buildId": "abcd", "strings": ["", "match", "/src/match.c", "memcmp"], "withoutCode": "", "withoutLines": "",
        "functions": [{"start": "4096", "end": "4200", "name": 1}], "places": [{"parent": 0, "function": 1, "file": 2, "line": 7}],
        "addresses": [{"address": str(0x1004), "function": 1, "place": 1}],
        "instructions": [{"address": str(0x1004), "size": 1, "text": "imul %rax", "kind": "PLAIN", "target": "0", "targetName": 0, "place": 1},
                         {"address": str(0x1005), "size": 1, "text": "call 0x2000", "kind": "CALL", "target": "8192", "targetName": 3, "place": 1},
                         {"address": str(0x1006), "size": 2, "text": "jne 0x1004", "kind": "BRANCH", "target": str(0x1004), "targetName": 0, "place": 1}]}


def pages():
    found = {}
    for name in os.listdir(UI):
        extension = os.path.splitext(name)[1]
        if extension in TYPES:
            with open(os.path.join(UI, name), "rb") as file:
                found["/ui/" + name] = ({"Content-Type": TYPES[extension], "Content-Security-Policy": POLICY}, file.read())
    found["/"] = ({"Content-Type": "text/html", "Content-Security-Policy": POLICY}, found["/ui/index.html"][1])
    rows = [{"id": str(number), "target": "made", "pid": 1, "kind": "cpu", "startUnixNs": "0", "durationMs": 1000, "samples": "1", "note": ""} for number in CAPTURES]
    found["/v1/captures"] = ({"Content-Type": "application/json"}, json.dumps({"captures": rows}).encode())
    for number, content in CAPTURES.items():
        found[f"/v1/captures/{number}.pb.gz"] = ({"Content-Type": "application/octet-stream"}, content)
    found["/v1/code"] = ({"Content-Type": "application/json"}, json.dumps(CODE).encode())
    return found


PAGES = pages()
SERVER = browser.Server(PAGES)
PAGE = view.View(SERVER.url)


def show(number, state=""):
    PAGE.go(f"/#captures?id={number}{state}")
    PAGE.until_text("About this profile")


def keys(*pressed):
    PAGE.run("document.querySelector('.flame canvas').focus()")
    ActionChains(PAGE.driver).send_keys(*pressed).perform()


def detail():
    return " ".join(PAGE.text(".viewer > .detail").split())


def describes(part):
    """Waits until the line that describes a frame has a part of it, or "NAME 1.00 ms, 10 %": the numbers come first, because names may be long."""
    name, _, numbers = part.partition(" ")
    ends = (f" {name}", f" {name} ·")

    def is_there():
        line = detail()
        if numbers[:1].isdigit():
            return line if line.startswith(numbers) and (line.endswith(ends[0]) or ends[1] in line) else None
        return line if part in line else None

    return check.until(is_there, what=f"{part} in the line that describes a frame")


def table():
    """Cells of the table of functions by name, in the order of the rows: [self, total]."""
    return dict(PAGE.run("""return [...document.querySelectorAll('table.functions tbody tr')].map((row) =>
        [row.querySelector('.name').textContent, [...row.querySelectorAll('.number')].map((cell) => cell.textContent)])"""))


# ---- The page ----

def test_the_page_asks_no_other_host_and_prints_no_errors():
    show(1)
    hosts = PAGE.run("return [...new Set(performance.getEntriesByType('resource').map((one) => new URL(one.name).host))]")
    check.equal(hosts, [SERVER.url.split("//")[1]])
    check.equal(PAGE.browser.errors(), [])


def test_the_theme_can_be_chosen_and_stays():
    show(1)
    paper = "return getComputedStyle(document.body).backgroundColor"
    PAGE.run("document.getElementById('theme').click(); document.getElementById('theme').click()")
    dark = PAGE.run(paper)
    PAGE.run("location.reload()")
    PAGE.until_text("About this profile")
    check.equal(PAGE.run("return document.documentElement.dataset.theme"), "dark")
    check.equal(PAGE.run(paper), dark)
    PAGE.run("document.getElementById('theme').click()")
    assert PAGE.run(paper) != dark


# ---- The graph ----

def test_a_zoom_is_in_the_url_and_survives_a_reload():
    show(1)
    keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    describes("match")
    check.until(lambda: "z" in PAGE.state(), what="the zoomed frame in the URL")
    PAGE.run("location.reload()")
    PAGE.until_text("About this profile")
    keys(Keys.ARROW_DOWN)  # from the root: the whole path is above the zoomed frame
    describes("of the zoomed frame")
    PAGE.shoot("graph")


def test_a_click_zooms_and_a_double_click_shows_everything():
    show(1)
    ActionChains(PAGE.driver).move_to_element_with_offset(PAGE.driver.find_element("css selector", ".flame canvas"), -200, 0).click().perform()
    check.until(lambda: "z" in PAGE.state(), what="the zoomed frame in the URL")
    PAGE.run("document.querySelector('.flame canvas').dispatchEvent(new MouseEvent('dblclick'))")
    check.until(lambda: "z" not in PAGE.state(), what="no zoomed frame in the URL")


def test_the_arrow_keys_walk_through_callers_callees_and_neighbours():
    show(1)
    keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    describes("serve 100.00 ms, 100 %")
    keys(Keys.ARROW_DOWN)
    describes("match 70.00 ms, 70.0 %")
    keys(Keys.ARROW_RIGHT)
    describes("write 20.00 ms, 20.0 %")
    keys(Keys.ARROW_RIGHT)
    describes("parse 10.00 ms, 10.0 %")
    check.contains(detail(), "/src/parse.c:12")
    keys(Keys.ARROW_LEFT)
    describes("write 20.00 ms")
    keys(Keys.ARROW_UP)
    describes("serve 100.00 ms")


def test_a_search_states_the_share_of_the_stacks_that_match():
    show(1)
    check.near(PAGE.search("^ma(tch)$"), 70, 0.05, "a regular expression")
    check.near(PAGE.search("match"), 70, 0.05, "a recursive function, counted once")
    check.near(PAGE.search("PARSE|write"), 30, 0.05, "two functions, whatever their case")
    check.near(PAGE.search("match("), 0, 0.05, "a text that is not a regular expression")
    PAGE.search("write")
    keys("n")
    describes("write 20.00 ms")
    check.equal(PAGE.state()["q"], "write")


def test_an_inverted_graph_begins_with_the_leaves():
    show(1)
    keys("i", Keys.ARROW_DOWN)
    describes("match 70.00 ms, 70.0 %")
    keys(Keys.ARROW_DOWN)
    describes("serve 60.00 ms")
    PAGE.click("Table")
    check.equal(table()["serve"], ["0 ns  0.00 %", "100.00 ms  100 %"])


def test_threads_are_merged_unless_they_are_split():
    show(1)
    keys(Keys.ARROW_DOWN)
    describes("main 100.00 ms")
    PAGE.click("Threads")
    keys(Keys.ARROW_DOWN)
    describes("one 70.00 ms")
    keys(Keys.ARROW_RIGHT)
    describes("two 30.00 ms")


def test_the_menu_focuses_and_hides_and_a_chip_takes_it_back():
    show(1)
    keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, ".")
    PAGE.click("Focus on stacks through it", ".menu button")
    describes("20.00 ms, 100 %")
    check.equal(PAGE.state()["f"], "^write$")
    PAGE.click("×")
    describes("write 20.00 ms, 20.0 %")
    keys(Keys.ARROW_UP, ".")
    PAGE.click("Hide this function", ".menu button")
    PAGE.click("Table")
    assert "serve" not in table() and "write" in table(), table()


def test_the_menu_shows_the_code_of_a_function():
    show(9)
    keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN, ".")
    describes("match 70.00 ms")
    PAGE.click("Code", ".menu button")
    PAGE.until_text("imul", "dialog")
    rows = PAGE.run("return [...document.querySelectorAll('dialog tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))")
    check.equal(rows, [["", "match.c:7"], ["60.0 %", "70.0 %", "1004", "↻ imul %rax"], ["10.0 %", "10.0 %", "1005", "call 0x2000 memcmp"],
                       ["", "", "1006", "↑ jne 0x1004"]])
    asked = PAGE.run("return performance.getEntriesByType('resource').map((one) => one.name).find((name) => name.includes('/v1/code'))")
    check.contains(asked, "/v1/code?build_id=abcd&start=0x1000000&offset=0x0&address=0x1000004,0x1000005")
    PAGE.click("Close")


def test_a_function_without_code_is_chosen_once():
    headers, whole = PAGES["/v1/code"]
    several = {**CODE, "functions": [CODE["functions"][0], {"start": "8192", "end": "8200", "name": 1}], "instructions": [], "places": []}
    PAGES["/v1/code"] = (headers, json.dumps(several).encode())
    try:
        show(9)
        keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN, ".")
        PAGE.click("Code", ".menu button")
        PAGE.until_text("several functions have this name", "dialog")
        PAGES["/v1/code"] = (headers, json.dumps({**several, "withoutCode": "only tables are here"}).encode())
        PAGE.click("match at 0x2000", "dialog button")
        PAGE.until_text("only tables are here", "dialog")
        assert "several functions" not in PAGE.text("dialog"), PAGE.text("dialog")
        PAGE.click("Close")
    finally:
        PAGES["/v1/code"] = (headers, whole)


def test_code_without_a_build_id_is_explained():
    show(1)
    keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN, ".")
    PAGE.click("Code", ".menu button")
    check.contains(PAGE.until_text("build-id", "dialog"), "program has no build-id")
    PAGE.click("Close")


def test_the_keys_are_listed():
    show(1)
    keys("?")
    check.contains(PAGE.text("dialog"), "callers and callees of the selected frame")
    PAGE.click("Close")


# ---- The table, callers and callees ----

def test_the_table_counts_recursion_once_and_sorts_by_a_click():
    show(1, "&tb=table")
    check.equal(table()["match"], ["70.00 ms  70.0 %", "70.00 ms  70.0 %"])
    check.equal(table()["write"], ["20.00 ms  20.0 %", "20.00 ms  20.0 %"])
    check.equal(list(table())[0], "match")
    PAGE.click("Total")
    check.equal(PAGE.state()["so"], "total")
    assert list(table())[0] in ("main", "serve"), table()
    PAGE.search("par")
    check.equal(list(table()), ["parse"])
    PAGE.shoot("table")


def test_callers_and_callees_begin_with_the_hottest_function():
    show(1, "&tb=callers")
    check.contains(PAGE.until_text("Callees of match"), "Callers of match")
    heights = PAGE.run("return [...document.querySelectorAll('.panel .flame canvas')].map((one) => one.clientHeight)")
    check.equal(heights, [61, 42], "three callers and a recursive call, without blank rows")


def test_modules_are_listed_with_their_shares_and_filter_what_is_shown():
    show(1)
    modules = lambda: " ".join(PAGE.text(".modules").split())
    check.until(lambda: modules() == "program 80.0 % libc.so.6 20.0 %", what="modules with their shares")
    PAGE.run("[...document.querySelectorAll('.modules button')].find((one) => one.innerText.includes('libc')).click()")
    PAGE.until_text("20.00 ms of", ".legend")
    check.equal(PAGE.state()["mo"], "libc.so.6")
    check.contains(" ".join(PAGE.text(".chips").split()), "only what is spent in libc.so.6")
    PAGE.driver.refresh()
    PAGE.until_text("20.00 ms of", ".legend")
    check.contains(modules(), "program 80.0 %")
    keys("0")
    PAGE.until_text("100.00 ms of", ".legend")


def test_the_table_stands_beside_the_graph_and_marks_what_is_clicked():
    show(1, "&tb=both")
    PAGE.click("write")
    PAGE.until_text("20.0 % matched", ".count")
    boxes = PAGE.run("return ['.tablebox', '.flame'].map((css) => document.querySelector(css).getBoundingClientRect()).map(({ left, right, top }) => [left, right, top])")
    assert boxes[0][1] <= boxes[1][0] and abs(boxes[0][2] - boxes[1][2]) < 5, boxes
    PAGE.shoot("both")


def test_tables_are_as_wide_as_their_content_and_names_take_one_line():
    show(2, "&tb=table")
    PAGE.until_text("onerror", "table.functions")
    check.equal(PAGE.run("return getComputedStyle(document.querySelector('table.functions th')).textAlign"), "right")
    assert PAGE.run("return document.querySelector('table.functions').clientWidth < 900")
    check.equal(PAGE.run("return [...document.querySelectorAll('.functions button.name')].every((one) => one.title === one.textContent && one.clientHeight < 30)"), True)


def test_idle_threads_of_an_off_cpu_profile_can_be_hidden():
    show(8)
    PAGE.until_text("190.00 ms of", ".legend")
    PAGE.click("Hide idle")
    PAGE.until_text("90.00 ms of", ".legend")
    check.equal(PAGE.state()["ni"], "1")
    PAGE.search("poll")
    check.equal(PAGE.text(".count"), "0.00 % matched")


def test_a_row_of_the_table_leads_to_callers_and_callees():
    show(1, "&tb=table")
    PAGE.click("serve")
    text = PAGE.until_text("Callees of serve")
    check.contains(text, "Callers of serve")
    check.equal(PAGE.state()["sel"], "serve")
    check.equal(PAGE.run("return document.querySelectorAll('.tablebox canvas').length"), 2)
    PAGE.shoot("callers")


def test_another_measure_can_be_chosen():
    show(7)
    describes("1.00 KiB")
    PAGE.choose("what is measured", "allocated bytes")
    describes("4.00 KiB")
    check.equal(PAGE.state()["ty"], "alloc_space")


# ---- What is hostile, empty or damaged ----

def test_names_with_markup_stay_text_everywhere():
    show(2)
    for state in ("", "&tb=table", "&th=1", f"&tb=callers&sel={'%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E'}"):
        show(2, state)
        keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN) if "tb" not in state else None
        check.equal(PAGE.run("return document.querySelectorAll('#view img, #view script, #view b > *, #view i:not(.swatch), #view u').length"), 0, state)
    show(2, "&tb=table")
    names = set(table())
    assert all(name in names for name in MARKUP if isinstance(name, str)), names
    assert any("utf-8" in name and "�" in name for name in names), names
    check.equal(PAGE.browser.errors(), [])


def test_an_empty_profile_says_that_it_has_no_samples():
    show(3)
    PAGE.until_text("no samples")
    check.equal(PAGE.browser.errors(), [])


def test_damaged_files_are_refused_with_a_sentence():
    for number, part in ((4, "gzip file is damaged"), (5, "not a pprof profile")):
        PAGE.go(f"/#captures?id={number}")
        PAGE.until_text(part)


def test_any_change_of_a_file_is_read_or_refused():
    """Every cut, and two thousand random changes: the reader ends with a profile or with an Error, and never with anything else."""
    show(1)
    whole, chance = numbered(), random.Random(17)
    changed = [whole[:end] for end in range(0, len(whole), 3)]
    for _ in range(2000):
        other = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            other[chance.randrange(len(other))] = chance.randrange(256)
        changed.append(bytes(other))
    result = PAGE.driver.execute_async_script("""const [files, done] = arguments;
        import('/ui/pprof.js').then(async ({ decode }) => {
            const count = { read: 0, refused: 0, bad: [] };
            for (const file of files) {
                try {
                    const profile = await decode(Uint8Array.from(file));
                    count[profile.values.every((column) => column.length === profile.stackCount) ? 'read' : 'bad'] += 1;
                } catch (error) {
                    if (error.constructor === Error && error.message.length > 10) count.refused++;
                    else count.bad.push(`${error.constructor.name}: ${error.message}`);
                }
            }
            done(count);
        }, (error) => done({ read: 0, refused: 0, bad: [error.stack] }));""", [list(one) for one in changed])
    check.equal(result["bad"], [])
    assert result["read"] > 100 and result["refused"] > 100, result


def test_a_written_file_reads_as_the_same_profile():
    show(1)
    same = PAGE.driver.execute_async_script("""const [path, done] = arguments;
        Promise.all([import('/ui/pprof.js'), fetch(path)]).then(async ([{ decode, encode, compress }, response]) => {
            const first = await decode(new Uint8Array(await response.arrayBuffer())), second = await decode(await compress(encode(first)));
            const facts = (one) => JSON.stringify([one.types, one.functions, one.start, one.frame, one.line, one.values, one.threads, one.thread, one.defaultType]);
            done(facts(first) === facts(second) ? '' : facts(first) + facts(second));
        }, (error) => done(error.stack));""", "/v1/captures/1.pb.gz")
    check.equal(same, "")


def test_deep_stacks_can_be_scrolled():
    show(6)
    check.equal(PAGE.run("return document.querySelector('.flame canvas').height < 4000"), True)
    keys(*[Keys.ARROW_DOWN] * 60)
    describes("level_3")
    check.equal(PAGE.browser.errors(), [])


try:
    check.main(globals())
finally:
    PAGE.close()
    SERVER.close()
