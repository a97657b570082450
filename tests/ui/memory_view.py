# SPDX-License-Identifier: Apache-2.0
"""Memory and threads in a browser: the switch of heap profiling, what is in use, growth, allocations, dumps; the stacks of all threads
in groups, also of ten thousand."""

import json
import os

from tests.cli import check
from tests.e2e import stack
from tests.ui import view

DEMO = os.path.abspath("clients/demo/demo")
stack.install()
SERVER = stack.Server(DEMO, "--guide", flags=("--name", "demo"), ready="demo: pid")
PAGE = view.View(SERVER.page)
HEAP = "/t/demo/#heap"

# Answers requests of a path by itself.
ANSWER = """window.realFetch ??= window.fetch;
const [word, text] = arguments;
window.fetch = (path, options) => (String(path).includes(word) ? Promise.resolve(new Response(text)) : realFetch(path, options));"""

# Ten thousand threads, each with a stack of its own.
TEN_THOUSAND = """const realFetch = window.fetch, numbers = Array.from({ length: 10000 }, (_, n) => n);
const frame = (name, line) => ({ name, file: 'a.c', module: 'demo', line, address: '1', kind: 'APPLICATION' }), callers = Array.from({ length: 20 }, () => frame('main', 1));
const answer = JSON.stringify({
    threads: numbers.map((n) => ({ tid: n + 1, name: `worker-${n}`, state: 'S', waitChannel: 'futex', cpuNs: '5', stack: n + 1, error: '' })),
    stacks: numbers.map((n) => ({ frames: [frame(`<b>function${n}</b>`, n), ...callers] })),
    unixNs: '1700000000000000000', longestStopNs: '0', notWalked: 3, note: 'three threads have no stack' });
window.fetch = (path, options) => (String(path).includes('/v1/threads') ? Promise.resolve(new Response(answer)) : realFetch(path, options));"""


def heap():
    return json.loads(SERVER.get("/t/demo/v1/heap")[2])


def set_field(name, value):
    PAGE.run("document.querySelector(`form [name=${arguments[0]}]`).value = arguments[1]", name, value)


def turn_on(interval=0):
    """Has heap profiling turned on through the page, with small samples."""
    if heap()["active"]:
        SERVER.get("/t/demo/v1/heap?active=false", method="PUT")
    PAGE.go(HEAP)
    PAGE.until_text("Turn on", "form")
    set_field("interval", interval)
    set_field("sample_bytes", 4096)
    PAGE.click("Turn on")
    PAGE.until_text("on since", ".facts")


def unexpected_errors():
    return [text for text in PAGE.browser.errors() if "Failed to load resource" not in text]


# ---- Memory ----


def test_heap_that_is_off_says_what_to_do_in_the_words_of_the_service():
    PAGE.go(HEAP)
    PAGE.until_text("off", ".facts")
    PAGE.until_text("heap profiling is off: turn it on", "#view")
    check.contains(PAGE.text(".message.hint").replace("`", ""), heap()["note"].replace("`", ""))


def test_the_switch_turns_profiling_on_and_the_live_heap_is_shown():
    turn_on()
    check.equal((heap()["active"], heap()["sampleBytes"]), (True, "4096"))
    check.until(lambda: b"store_page" in SERVER.get("/t/demo/debug/pprof/heap?output=collapsed")[2], what="memory of pages")
    PAGE.click("Read again")
    PAGE.until_text("In use at", ".title")
    check.until(lambda: PAGE.search("store_page") > 50, what="the share of pages in memory")
    PAGE.choose("age", "10 s and older")
    check.until(lambda: PAGE.state().get("older") == "10", what="the age in the URL")
    PAGE.choose("age", "of any age")
    PAGE.shoot("memory")
    check.equal(unexpected_errors(), [])
    PAGE.click("Turn off")
    PAGE.until_text("off", ".facts dd")
    check.equal(heap()["active"], False)


def test_growth_between_two_moments_is_a_difference():
    turn_on()
    PAGE.click("Growth")
    PAGE.click("Remember now")
    PAGE.until_text("Growth since", "button")
    PAGE.click(next(text for text in PAGE.text("button").split("\n") if text.startswith("Growth since")))
    PAGE.until_text("Growth from", ".title")
    PAGE.until_text("takes more than in the base", ".legend")


def test_allocations_are_recorded_without_the_switch():
    if heap()["active"]:
        SERVER.get("/t/demo/v1/heap?active=false", method="PUT")
    PAGE.go(f"{HEAP}?show=allocs")
    PAGE.until_text("Record allocations", "form")
    set_field("seconds", 2)
    set_field("interval", 4096)
    PAGE.click("Record allocations")
    PAGE.until_text("s of 2", "[role=status]")
    PAGE.until_text("Allocations in 2 s", ".title", 60)
    assert PAGE.search("store_page") > 40


def test_dumps_are_listed_opened_and_compared():
    turn_on(interval=1)
    check.until(lambda: heap()["dumps"] >= 3, what="three dumps")
    SERVER.get("/t/demo/v1/heap?active=false", method="PUT")  # keeps the dumps, and writes no further ones
    SERVER.get("/t/demo/v1/heap?active=true&sample_bytes=4096", method="PUT")
    PAGE.go(f"{HEAP}?show=dumps")
    PAGE.until_text(".heap", ".list")
    PAGE.click("Open")
    PAGE.until_text(".heap", ".title")
    link = PAGE.run("return document.querySelector('.list a').getAttribute('href')")
    status, _, snapshot = SERVER.get(link)
    check.equal((status, "snapshot" in json.loads(snapshot)), (200, True))
    PAGE.click("Since the one before")
    PAGE.until_text(".heap against 0", ".title")
    check.equal("from" in PAGE.state(), True)
    PAGE.shoot("dumps")


def test_a_target_that_cannot_be_profiled_shows_the_note_verbatim():
    PAGE.go("/t/demo/#threads")
    PAGE.run(ANSWER, "/v1/heap", json.dumps({"backend": "BACKEND_NONE", "available": False, "active": False, "dumps": 0, "sampleBytes": "0",
                                            "note": "demo <b> was started without prof:true; start it with `MALLOC_CONF=prof:true`"}))
    PAGE.click("Memory", "a")
    text = PAGE.until_text("demo <b> was started without prof:true; start it with MALLOC_CONF=prof:true", ".message.hint")
    check.contains(text, "prof:true")


# ---- Threads ----


def test_threads_with_equal_stacks_are_one_group():
    PAGE.go("/t/demo/#threads")
    text = PAGE.until_text("wait_for_end", "#view")
    for part in ("threads in", "housekeeping", "sleeping", "of CPU time"):
        check.contains(text, part)
    PAGE.run("[...document.querySelectorAll('.group')].find((one) => one.innerText.includes('wait_for_end')).open = true")
    PAGE.until_text("__libc_start_main", ".group ol")
    PAGE.shoot("threads")
    PAGE.run("""const box = document.querySelector('[aria-label="filter threads"]');
        box.value = 'housekeeping';
        box.dispatchEvent(new Event('input'));""")
    check.until(lambda: len(PAGE.driver.find_elements("css selector", ".group")) == 1, what="the filtered group")
    first = PAGE.text("[role=status]")
    PAGE.click("Refresh")
    check.until(lambda: PAGE.text("[role=status]") != first, what="another answer")
    check.equal(unexpected_errors(), [])


def test_threads_are_a_flame_graph_too():
    PAGE.go("/t/demo/#threads?as=graph")
    PAGE.until_text("Threads of demo", ".title")
    PAGE.until_text("threads", ".legend")
    assert PAGE.search("on_housekeeping") > 0


def test_locks_and_deadlocks_are_shown():
    thread = {"tid": 7, "name": "worker-1", "state": "S", "waitChannel": "futex", "cpuNs": "5", "stack": 1, "error": "",
              "lockWait": {"kind": "mutex", "owner": 8, "text": "waits for mutex <b>orders</b> (0x10), held by 8 worker-2"}}
    frame = {"name": "take_order", "file": "a.c", "module": "demo", "line": 1, "address": "1", "kind": "APPLICATION"}
    answer = {"threads": [thread], "stacks": [{"frames": [frame]}], "unixNs": "1700000000000000000", "longestStopNs": "0", "note": "",
              "deadlocks": ["deadlock: 7 worker-1 → 8 worker-2 → 7 worker-1"]}
    PAGE.go("/t/demo/#captures")
    PAGE.until_text("tick two", "#view")
    PAGE.run(ANSWER, "/v1/threads", json.dumps(answer))
    PAGE.click("Threads", "a")
    text = PAGE.until_text("deadlock: 7 worker-1 → 8 worker-2 → 7 worker-1", "#view .message.error")
    check.contains(PAGE.text("#view .group"), "waits for mutex <b>orders</b> (0x10), held by 8 worker-2")
    check.equal(text.count("deadlock"), 1)
    PAGE.click("Flame graph")
    PAGE.until_text("Threads of demo", ".title")
    PAGE.until_text("deadlock: 7 worker-1 → 8 worker-2 → 7 worker-1", "#view .message.error")
    check.equal(unexpected_errors(), [])


def test_ten_thousand_threads_do_no_harm():
    PAGE.go("/t/demo/#captures")
    PAGE.until_text("tick two", "#view")
    PAGE.run(TEN_THOUSAND)
    PAGE.click("Threads", "a")
    text = PAGE.until_text("10,000 threads in 10,000 groups", "#view", 60)
    check.contains(text, "3 without a stack")
    check.contains(text, "three threads have no stack")
    assert len(PAGE.driver.find_elements("css selector", ".group")) <= 100
    check.equal(PAGE.run("return document.querySelectorAll('.group summary i, .group ol b').length"), 0)
    PAGE.click("Show more")
    check.until(lambda: 100 < PAGE.run("return document.querySelectorAll('.group').length") <= 1000, what="more groups")
    PAGE.click("Flame graph")
    PAGE.until_text("10,000 threads", ".legend", 60)
    check.equal(unexpected_errors(), [])


try:
    check.main(globals())
finally:
    PAGE.close()
    SERVER.stop()
