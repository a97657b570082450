# SPDX-License-Identifier: Apache-2.0
"""The first page, captures and comparisons in a browser: what can be profiled, one click to a flame graph, a capture with its
progress, the difference of two, and files that are dropped on the page."""

import base64
import json
import os
import re
import shutil
import subprocess

from selenium.webdriver.common.keys import Keys

from tests.cli import check
from tests.e2e import stack
from tests.ui import view

DEMO = os.path.abspath("clients/demo/demo")
stack.install()
SLEEPER = os.path.join(stack.WORK, "fold-me")
shutil.copy("/bin/sleep", SLEEPER)
SERVER = stack.Server(DEMO, "-t", "1", "--tick", flags=("--name", "demo", "--history"), ready="demo: pid")
PAGE = view.View(SERVER.page)

# Answers the requests whose path contains a word by itself: with a status and a text, or not at all if the status is 0.
ANSWER = """window.realFetch ??= window.fetch;
const [word, status, text] = arguments;
window.fetch = (path, options) => {
    if (!String(path).includes(word)) return realFetch(path, options);
    return status ? Promise.resolve(new Response(text, { status })) : Promise.reject(new TypeError('refused'));
};"""

DROP = """const [name, text, css] = arguments, data = new DataTransfer();
data.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name));
document.querySelector(css).dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));"""


def ask(path, method="GET"):
    status, _, body = SERVER.get(path, method=method)
    assert status in (200, 201), f"{path}: {status} {body}"
    return json.loads(body)


def drop(name, content, css="main"):
    PAGE.run(DROP, name, base64.b64encode(content).decode(), css)


def answer(word, status, text=""):
    PAGE.run(ANSWER, word, status, text)


def filter_targets(text):
    PAGE.run("""const box = document.querySelector('.start input');
        box.value = arguments[0];
        box.dispatchEvent(new Event('input'));""", text)


def captures():
    """Takes two captures unless they exist, and returns their numbers, the older first."""
    known = [one["id"] for one in ask("/v1/captures")["captures"] if one["kind"] == "cpu"]
    for _ in range(2 - len(known)):
        known.insert(0, ask("/t/demo/v1/captures?seconds=1&frequency=499", "POST")["id"])
    return sorted(known[:2], key=int)


def unexpected_errors():
    """Messages of the console without those about answers that are not 200, which the page shows as sentences."""
    return [text for text in PAGE.browser.errors() if "Failed to load resource" not in text]


# ---- The first page ----


def test_one_click_leads_from_the_first_page_to_a_flame_graph():
    PAGE.go("/")
    PAGE.until_text("attached", ".start .tag")
    PAGE.click("demo", ".target a.name")
    PAGE.until_text("of CPU time", ".legend")
    check.contains(PAGE.driver.current_url, "/t/demo/#live")
    check.equal(unexpected_errors(), [])


def test_every_process_is_listed_with_its_cpu_use():
    PAGE.go("/")
    filter_targets(str(os.getpid()))
    text = PAGE.until_text(f"pid {os.getpid()}", ".start table")
    check.contains(text, "python")
    PAGE.until_text("%", ".start .target .number")
    filter_targets("")
    PAGE.until_text("every process of this machine", ".start table")
    PAGE.click("@all", "a.name")
    check.until(lambda: "/t/@all/#live" in PAGE.driver.current_url, what="the page of all processes")


def test_a_recorded_target_shows_its_last_minutes_from_history():
    check.until(lambda: ask("/v1/history/series?from=-5m&step=10&group_by=service")["series"], 60, "a window in the history")
    PAGE.go("/")
    PAGE.until_text("recorded", ".start .target")
    PAGE.until_text("recorded processes: 1;", ".features")
    PAGE.until_text("match_rules", ".overview tr.service")
    check.contains(PAGE.text(".overview th"), "CPU over the day")
    PAGE.choose("group by", "by executable")
    PAGE.until_text("executable", ".overview th")
    check.equal(PAGE.state()["by"], "executable")
    PAGE.shoot("start")
    PAGE.click("demo", ".overview a.name")
    PAGE.until_text("all services, CPU", ".title")
    check.equal(PAGE.state()["sr"], "executable = 'demo'")


def test_processes_of_one_name_fold_into_a_row_that_opens():
    processes = [subprocess.Popen([SLEEPER, "300"]) for _ in range(2)]
    try:
        PAGE.go("/#?filter=fold-me")
        PAGE.until_text("2 processes", ".start .target")
        PAGE.click("fold-me", "button.name")
        for process in processes:
            PAGE.until_text(f"pid {process.pid}", ".start .target.inner")
        check.equal(PAGE.state()["open"], "fold-me")
        processes[1].kill()
        processes[1].wait()
        PAGE.until_text(f"pid {processes[0].pid}", ".start .target:not(.inner)")
        PAGE.run("document.querySelector('[aria-label=\"filter processes\"]').focus()")
        PAGE.keys(Keys.ENTER)
        check.until(lambda: f"/t/{processes[0].pid}/#live" in PAGE.driver.current_url, what="the page of the only process that fits")
        PAGE.until_text(f"fold-me, pid {processes[0].pid}", "header .chip")
        PAGE.until_text(f"fold-me, pid {processes[0].pid}, CPU", ".title")
        check.contains(PAGE.driver.title, "fold-me")
        PAGE.click("Memory", "nav a")
        advice = PAGE.until_text("need Sonde inside", ".message.hint")
        check.contains(advice, f"or with LD_PRELOAD={stack.PREFIX}/lib/libsonde.so SONDE_SOCKET={stack.WORK}/")
        check.equal(PAGE.run("return document.querySelector('#view .choice').checkVisibility()"), False, "controls of a heap that cannot be read")
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_what_is_off_is_shown_with_the_line_that_turns_it_on():
    PAGE.go("/")
    PAGE.until_text("attached", ".start")
    answer("/v1/history/info", 501, '{"code":501,"message":"there is no history store"}')
    PAGE.click("Compare", "#views a")  # and back, because an open page asks only twice a minute
    PAGE.until_text("Choose a base", "main")
    PAGE.run("location.hash = ''")
    PAGE.until_text("no history store", ".features .off")
    check.contains(PAGE.text(".features .off"), "sonded --history")
    check.contains(PAGE.text(".features"), "Heap of demo")


def test_the_page_says_when_the_gateway_does_not_answer_and_recovers():
    PAGE.go("/")
    PAGE.until_text("attached", ".start")
    answer("/v1/", 0)
    PAGE.until_text("the gateway does not answer", ".message.error")
    check.contains(PAGE.text(".start table"), "demo")  # what was known stays
    answer("nothing like this", 0)
    check.until(lambda: not PAGE.text(".message.error"), what="the end of the message")


def test_a_missing_token_is_asked_for():
    PAGE.go("/")
    PAGE.until_text("attached", ".start")
    answer("/v1/targets", 401, '{"code":401,"message":"a token is needed"}')
    PAGE.until_text("Reading profiles here needs a token", "#token")
    check.equal(PAGE.text(".message.error"), "", "the same sentence again")


def test_names_of_processes_stay_text():
    name = os.path.join(stack.WORK, "<b>bold")
    shutil.copy("/bin/sleep", name)
    with subprocess.Popen([name, "60"]) as process:
        PAGE.go("/")
        filter_targets("bold")
        PAGE.until_text("<b>bold", "a.name")
        check.equal(PAGE.run("return document.querySelectorAll('.start table b').length"), 0)
        process.kill()


# ---- Captures ----


def take(seconds, rate=499):
    PAGE.go("/t/demo/#captures")
    PAGE.until_text("Note", "form")
    PAGE.run("""const set = (name, value) => { document.querySelector(`[name=${name}]`).value = value; };
        set('seconds', arguments[0]); set('frequency', arguments[1]); set('note', 'a <i>note</i>');""", seconds, rate)
    PAGE.click("Capture")


def test_a_capture_shows_its_progress_and_opens():
    take(3)
    PAGE.until_text("s of 3, ", ".panel .bar")
    PAGE.until_text("a <i>note</i>", ".title", 60)
    share = PAGE.search("match_rules")
    assert share > 50, share
    PAGE.click("Heat map", "#view a")
    check.until(lambda: "#heatmap?capture=" in PAGE.driver.current_url, what="the heat map of the capture")
    check.equal(unexpected_errors(), [])


def test_a_capture_can_be_cancelled():
    before = len(ask("/v1/captures")["captures"])
    take(600)
    PAGE.until_text("s of 600, ", ".panel .bar")
    PAGE.click("Cancel")
    check.until(lambda: SERVER.targets()[0]["capturesRunning"] == 0 or len(ask("/v1/captures")["captures"]) == before, what="the end of the capture")
    check.until(lambda: "s of 600" not in PAGE.text(".panel"), what="the end of the progress")


def test_a_refused_capture_is_a_sentence():
    PAGE.go("/t/demo/#captures")
    PAGE.until_text("Note", "form")
    answer("/v1/captures?", 429, '{"code":429,"message":"64 captures of demo are running: wait for one"}')
    PAGE.click("Capture")
    PAGE.until_text("64 captures of demo are running", ".message.error")


def test_two_captures_are_ticked_and_compared():
    captures()
    PAGE.go("/#captures")
    check.until(lambda: len(PAGE.driver.find_elements("css selector", "[type=checkbox]")) >= 2, what="two captures")
    PAGE.shoot("captures")
    for box in PAGE.driver.find_elements("css selector", "[type=checkbox]")[:2]:
        box.click()
    PAGE.click("Compare the two")
    PAGE.until_text("against capture", ".title")
    PAGE.until_text("larger share than in the base", ".legend")
    PAGE.until_text("within noise", ".legend")


def test_captures_are_sorted_and_searched():
    captures()
    PAGE.go("/#captures")
    numbers = lambda: [int(one) for one in PAGE.run("return [...document.querySelectorAll('.list [type=checkbox]')].map((one) => one.value)")]
    newest_first = check.until(numbers, what="the list")
    check.equal(newest_first, sorted(newest_first, reverse=True))
    PAGE.click("Capture ↓", "th button")
    check.until(lambda: numbers() == sorted(newest_first), what="the oldest first")
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d", PAGE.text(".list")), PAGE.text(".list")
    PAGE.run("""const box = document.querySelector('[aria-label="filter captures"]');
        box.value = 'no such capture';
        box.dispatchEvent(new Event('input'));""")
    PAGE.until_text("no capture matches")
    check.equal({key: PAGE.state().get(key) for key in ("filter", "so", "back")}, {"filter": "no such capture", "so": "id", "back": "1"})


def test_saved_captures_are_linked_in_every_format():
    captures()
    PAGE.go("/#captures")
    PAGE.until_text("Download", ".list")
    links = PAGE.run("return [...document.querySelector('.list details').querySelectorAll('a')].map((link) => link.getAttribute('href'))")
    assert len(links) >= 6, links
    for link in links:
        check.equal(SERVER.get(link)[0], 200, link)


# ---- Comparisons ----


def test_captures_and_history_are_compared_and_swapped():
    base, new = captures()
    PAGE.go(f"/#compare?base=capture/{base}&new=capture/{new}")
    PAGE.until_text(f"capture {new} against capture {base}", ".title")
    PAGE.click("⇄ Swap")
    PAGE.until_text(f"capture {base} against capture {new}", ".title")
    check.equal(PAGE.state()["base"], f"capture/{new}")
    for side in ("Base", "New"):
        PAGE.choose(side, "history of demo")
    PAGE.until_text("demo from -1h until now against demo from -1h until now", ".title", 60)
    PAGE.write("New: conditions", "pid > 0")
    PAGE.until_text("demo (pid > 0) from -1h", ".title")
    PAGE.choose("Base: range", "from … until …")
    check.until(lambda: re.fullmatch(r"history/demo/\d+/\d+/on-cpu/", PAGE.state()["base"]), what="times in the address")
    PAGE.shoot("compare")
    check.equal(unexpected_errors(), [])


def test_what_cannot_be_compared_is_a_sentence():
    """As the command line refuses it, although both captures count samples."""
    base, seconds = captures()[0], "/t/demo/v1/captures?seconds=1"
    for query, why in (("&mode=off-cpu", "they were sampled by different events"), ("&kind=allocs", "samples (count), cpu (nanoseconds); and alloc_objects")):
        number = ask(f"{seconds}{query}", "POST")["id"]
        PAGE.go(f"/#compare?base=capture/{base}&new=capture/{number}")
        text = PAGE.until_text(why, ".message.error")
        status, _, body = SERVER.get(f"/v1/diff?base={base}&new={number}")
        check.equal(status, 400)
        check.contains(body.decode().replace("\\", ""), text)
        check.equal(PAGE.text(".title"), "", "the graph of what cannot be compared")
    number = ask(f"{seconds}&frequency=49", "POST")["id"]
    PAGE.go(f"/#compare?base=capture/{base}&new=capture/{number}&ty=samples")
    text = PAGE.until_text("the profiles were sampled at different rates", ".message.error")
    check.contains(text, json.loads(SERVER.get(f"/v1/diff?base={base}&new={number}&output=top")[2])["message"])
    options = PAGE.text("select[aria-label=Base]")
    check.contains(options, "cpu of demo")
    assert "off-cpu" not in options, options  # a base is of the kind of the new capture


def test_dropped_files_are_shown_and_compared():
    status, _, profile = SERVER.get("/t/demo/debug/pprof/profile?seconds=1&frequency=499&output=proto")
    check.equal(status, 200)
    PAGE.go("/")
    PAGE.until_text("attached", ".start")
    drop("old <b>.pb.gz", profile)
    PAGE.until_text("old <b>.pb.gz", ".title")
    assert PAGE.search("match_rules") > 20
    PAGE.go(f"/#compare?base=file&new=capture/{captures()[0]}")
    PAGE.until_text("links do not contain files", ".panel")
    drop("base.pb.gz", profile, ".panel")
    PAGE.until_text("against base.pb.gz", ".title")
    PAGE.driver.refresh()
    PAGE.until_text("base.pb.gz is not in this page any more: choose it again", ".message.error")


def test_a_file_that_is_not_a_profile_is_a_sentence():
    PAGE.go("/")
    PAGE.until_text("attached", ".start")
    for content, text in ((b"GIF89a, a picture", "not a pprof profile"), (b"\x1f\x8b\x08\0cut", "the gzip file is damaged or cut off"), (b"", "not a pprof profile")):
        drop("picture.gif", content)
        PAGE.until_text(text, ".message.error")


try:
    check.main(globals())
finally:
    PAGE.close()
    SERVER.stop()
