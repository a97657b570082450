# SPDX-License-Identifier: Apache-2.0
"""The live view in a browser: a graph that grows, ranges of the last minutes, and what the page says when something breaks. A
real target first, and then a stream that the test writes itself."""

import json
import os
import re
import signal
import subprocess

from selenium.webdriver.common.keys import Keys

from tests.cli import check
from tests.e2e import stack
from tests.ui import view

DEMO = os.path.abspath("clients/demo/demo")
stack.install()
SERVER = stack.Server(DEMO, "-t", "1", "--tick", flags=("--name", "demo"), ready="demo: pid")
PAGE = view.View(SERVER.page)
LIVE = "/t/demo/#live?rate=499"

# Replaces the stream by one that the test feeds.
OWN_STREAM = """const real = window.fetch;
window.streams = 0;
window.fetch = (path, options) => {
    if (!String(path).includes('/v1/cpu/live')) return real(path, options);
    window.streams++;
    return Promise.resolve(new Response(new ReadableStream({ start(stream) {
        window.feed = (line) => stream.enqueue(new TextEncoder().encode(`${JSON.stringify(line)}\\n`));
        window.cut = () => stream.error(new Error('cut'));
        window.finish = () => stream.close();
    } })));
};"""


def samples():
    """The number of samples that the corner of the view states."""
    found = re.search(r"([\d,]+) samples", PAGE.text(".live-foot"))
    return int(found.group(1).replace(",", "")) if found else 0


def watch(at_least=50):
    PAGE.go(LIVE)
    return check.until(lambda: samples() >= at_least and samples(), what=f"{at_least} samples")


def captures_running():
    return SERVER.targets()[0]["capturesRunning"]


def test_the_graph_grows_while_one_watches():
    before = watch()
    PAGE.until_text("demo, CPU, ", ".title")
    first = PAGE.text(".legend")
    check.until(lambda: samples() > before and PAGE.text(".legend") != first, what="more samples in the graph")
    check.until(lambda: samples() > 300, what="300 samples")
    share = PAGE.search("match_rules")
    assert 50 < share < 90, share
    foot = PAGE.text(".live-foot")
    for part in (" dropped", "cost ", "clock "):
        check.contains(foot, part)
    PAGE.shoot("live")
    check.equal(PAGE.errors(), [], "console errors")


def test_pause_stops_the_picture_but_not_the_stream():
    watch()
    PAGE.click("Pause")
    before, shown = samples(), PAGE.text(".title")
    check.equal(captures_running(), 1, "the streams while the picture is paused")
    PAGE.run("return new Promise((done) => setTimeout(done, 1500))")
    check.equal((samples(), PAGE.text(".title")), (before, shown), "the picture")
    PAGE.click("Continue")
    check.until(lambda: samples() > before, what="samples that were taken in the pause")


def test_the_stream_ends_with_the_view():
    watch()
    check.until(lambda: captures_running() == 1, what="a stream")
    PAGE.driver.get("about:blank")
    check.until(lambda: captures_running() == 0, what="no stream")


def test_a_range_of_the_strip_has_its_own_graph():
    watch(1500)  # takes longer than the range, even if the target has both processors
    PAGE.click("Pause")
    everything = PAGE.text(".legend")
    PAGE.drag((-14, 40), (-4, 40))
    check.until(lambda: PAGE.text(".legend") != everything, what="the graph of the range")
    title = PAGE.text(".title")
    PAGE.drag((-30, 40), (-16, 40), Keys.SHIFT)
    PAGE.until_text(" against ", ".title")
    PAGE.until_text("than in the base", ".legend")
    PAGE.shoot("live-difference")
    PAGE.click("Clear")
    check.until(lambda: PAGE.text(".title") not in ("", title) and "against" not in PAGE.text(".title"), what="everything again")
    check.equal(PAGE.errors(), [], "console errors")


def test_ranges_are_chosen_from_the_keyboard():
    watch(300)
    PAGE.click("Pause")
    PAGE.press(Keys.ARROW_LEFT)
    PAGE.press(Keys.ARROW_LEFT, Keys.ARROW_LEFT, held=Keys.SHIFT)
    PAGE.press(Keys.ENTER)
    check.until(lambda: "Chosen: " in PAGE.spoken(), what="a range that is spoken")
    PAGE.press(Keys.ENTER, held=Keys.CONTROL)
    PAGE.until_text(" against ", ".title")
    PAGE.press(Keys.ESCAPE)
    check.until(lambda: "against" not in PAGE.text(".title"), what="everything again")


def test_the_mode_and_the_rate_are_in_the_url():
    watch()
    PAGE.click("Off-CPU")
    PAGE.until_text("demo, Off-CPU, ", ".title")
    PAGE.until_text("of off-CPU time", ".legend")
    PAGE.click("999 Hz")
    check.equal(PAGE.state(), {"mode": "off-cpu", "rate": "999"}, "the state")
    check.until(lambda: captures_running() == 1, what="one stream")


def test_a_heat_map_of_a_capture_has_graphs_of_its_cells():
    status, _, body = SERVER.get("/v1/captures?seconds=3&frequency=499", method="POST")
    check.equal(status, 201, body)
    PAGE.go(f"/#heatmap?capture={json.loads(body)['id']}")
    PAGE.until_text("a cell: 20 ms, a column: 1 s")
    PAGE.until_text("of CPU time", ".legend")
    everything = PAGE.text(".title")
    PAGE.drag((10, 20), (50, 200))
    check.until(lambda: PAGE.text(".title") != everything and PAGE.state().get("ru"), what="the graph of the cells")
    PAGE.drag((50, 210), (80, 240), Keys.CONTROL)
    PAGE.until_text(" against ", ".title")
    state = PAGE.state()
    assert 0 <= float(state["rf"]) < float(state["ru"]) <= float(state["bu"]) <= 4, state
    PAGE.shoot("heat-map-of-a-capture")
    PAGE.driver.refresh()
    PAGE.until_text(" against ", ".title")
    PAGE.press(Keys.ESCAPE)
    check.until(lambda: "against" not in PAGE.text(".title"), what="the whole capture")
    PAGE.press(Keys.HOME, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    check.until(lambda: "1.02 s – 1.04 s" in PAGE.spoken(), what="the cell under the cursor")
    PAGE.press(Keys.ENTER)
    check.until(lambda: PAGE.state().get("rf") == "1.02", what="one cell")
    check.equal(PAGE.errors(), [], "console errors")


def test_history_that_is_off_names_the_line_that_turns_it_on():
    PAGE.go("/#history")
    text = PAGE.until_text("History is off")
    check.contains(text, "sonded --history")
    check.contains(text, "sonde run --history -- COMMAND")


# ---- A stream of our own ----

def window(number, **fields):
    return {"sequence": str(number), "startUnixNs": str((1_700_000_000_000 + 250 * number) * 1_000_000),
            "endUnixNs": str((1_700_000_000_250 + 250 * number) * 1_000_000), "strings": [], "frames": [], "stacks": [], "counts": [],
            "drops": [], "merged": 0, "guestCpuNs": "1000000", "targetCpuNs": "100000000", "clock": "perf-cpu", "last": False,
            "endReason": "", "more": False, **fields}


def frame(function, module):
    return {"function": function, "file": 0, "line": 0, "module": module, "address": "4096", "kind": "APPLICATION", "inlined": False}


def feed(*lines):
    for line in lines:
        PAGE.run("window.feed(arguments[0])", line)


class OwnStream:
    def __enter__(self):
        self.script = PAGE.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": OWN_STREAM})["identifier"]
        PAGE.go("/t/demo/#live")
        check.until(lambda: PAGE.run("return window.streams === 1 && !!window.feed"), what="the stream")
        return self

    def __exit__(self, *_):
        PAGE.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": self.script})


def test_names_with_markup_stay_text_and_numbers_refer_to_the_whole_stream():
    names = ["<img src=x onerror=document.title='gone'>", "<b>&amp;]]>", "\u0001'\""]
    with OwnStream():
        feed(window(0, strings=names, frames=[frame(0, 3), frame(1, 3)], stacks=[{"frames": [0, 1], "thread": 2, "tid": 7}],
                    counts=[{"stack": 0, "count": "3", "cpuNs": "30000000"}]),
             window(1, counts=[{"stack": 0, "count": "1", "cpuNs": "10000000"}], more=True),
             window(1, counts=[{"stack": 0, "count": "2", "cpuNs": "20000000"}], merged=4, drops=[{"cause": "ring full", "count": "5"}]))
        PAGE.until_text("6 samples")
        PAGE.until_text("60.00 ms of", ".legend")
        foot = PAGE.text(".live-foot")
        for part in ("5 dropped (ring full)", "4 windows merged: this browser reads slowly", "cost 1.00 %"):
            check.contains(foot, part)
        check.equal(PAGE.search("onerror"), 100.0, "the share of the name with markup")
        check.equal(PAGE.run("return document.querySelectorAll('#view img, #view b').length - document.querySelectorAll('.detail b').length"),
                    0, "elements that the names made")
        assert "gone" not in PAGE.driver.title


def test_a_connection_that_breaks_is_opened_again_and_leaves_a_gap():
    with OwnStream():
        one = {"strings": ["f"], "frames": [frame(0, 0)], "stacks": [{"frames": [0], "thread": 0, "tid": 0}],
               "counts": [{"stack": 0, "count": "1", "cpuNs": "10000000"}]}
        feed(*(window(number, **(one if number == 0 else {"counts": one["counts"]})) for number in range(4)))
        PAGE.until_text("4 samples")
        PAGE.run("window.cut()")
        text = PAGE.until_text("the connection to the gateway broke off")
        check.contains(text, "What was received stays")
        check.until(lambda: PAGE.run("return window.streams") == 2, what="a second stream")
        feed(window(80, **one))
        PAGE.until_text("5 samples")
        check.until(lambda: "broke off" not in PAGE.text(), what="no message any more")
        PAGE.press(Keys.END, *[Keys.ARROW_LEFT] * 8)
        check.until(lambda: "no data" in PAGE.spoken(), what="a gap in the strip")
        PAGE.run("window.feed(arguments[0]); window.finish()", window(81, last=True, endReason="target gone"))
        PAGE.until_text("The target has exited.")
        check.until(lambda: PAGE.run("return window.streams") == 3, what="a third stream")
        feed({"code": 410, "status": "TARGET_GONE", "message": "the target has exited"})
        PAGE.until_text("the target has exited.")


def test_older_windows_are_forgotten_and_the_view_says_so():
    with OwnStream():
        PAGE.run("""const line = arguments[0];
            for (let i = 0; i < 2500; i++) window.feed({ ...line, startUnixNs: `${1700000000000 + 250 * i}000000`, endUnixNs: `${1700000000250 + 250 * i}000000`,
                ...(i ? { strings: [], frames: [], stacks: [] } : {}) });""",
                 window(0, strings=["f"], frames=[frame(0, 0)], stacks=[{"frames": [0], "thread": 0, "tid": 0}],
                        counts=[{"stack": 0, "count": "1", "cpuNs": "10000000"}]))
        text = PAGE.until_text("older ones are gone")
        check.contains(text, "2,400 windows")
        PAGE.until_text("2,400 samples")


def test_ten_thousand_threads_do_no_harm():
    with OwnStream():
        PAGE.run("""const line = arguments[0], count = 10000, stacks = Array.from({ length: count }, (_, i) => ({ frames: [0, 1], thread: 2 + i, tid: i }));
            window.feed({ ...line, strings: ['f', ...stacks.map((_, i) => `thread ${i}`)], stacks, counts: stacks.map((_, i) => ({ stack: i, count: '1', cpuNs: '1000000' })) });
            for (let i = 1; i < 20; i++) window.feed({ ...line, startUnixNs: `${1700000000000 + 250 * i}000000`, endUnixNs: `${1700000000250 + 250 * i}000000`,
                counts: stacks.map((_, i) => ({ stack: i, count: '1', cpuNs: '1000000' })) });""",
                 {**window(0), "frames": [frame(0, 0), frame(0, 0)]})
        PAGE.until_text("200,000 samples", seconds=60)
        PAGE.until_text("200.00 s of", ".legend", seconds=60)
        PAGE.click("Threads")
        check.equal(PAGE.search("thread 9999"), 0.01, "the share of one thread")
        check.equal(PAGE.errors(), [], "console errors")


# ---- Parts that are killed ----

def start(*command):
    return check.start(*command, env=stack.environment(), stderr=subprocess.DEVNULL)[0]


def test_a_target_service_or_gateway_that_dies_gives_a_message_and_the_page_recovers():
    sonded = os.path.join(stack.PREFIX, "bin/sonded")
    guest, grpc = (os.path.join(stack.WORK, name) for name in ("kill.guest", "kill.grpc"))
    service_command = (sonded, "--socket", guest, "--grpc", f"unix:{grpc}", "--data-dir", os.path.join(stack.WORK, "kill"))
    listen = f"127.0.0.1:{check.free_port()}"
    gateway_command = (os.path.join(stack.PREFIX, "bin/sonde-gateway"), "--service", f"unix:{grpc}", "--listen", listen)
    env = {**stack.environment(), "LD_PRELOAD": os.path.join(stack.PREFIX, "lib/libsonde.so"), "SONDE_SOCKET": guest, "SONDE_NAME": "mortal"}

    def start_target():
        return subprocess.Popen([DEMO], env=env, stdout=subprocess.DEVNULL)
    parts = {"service": start(*service_command), "gateway": start(*gateway_command), "target": start_target()}
    again = {"target": start_target, "service": lambda: start(*service_command), "gateway": lambda: start(*gateway_command)}
    here = view.View(f"http://{listen}")
    try:
        for part, message in (("target", "exited"), ("service", "service"), ("gateway", "gateway")):
            here.go("/t/mortal/#live?rate=499")
            here.until_text("mortal, CPU, ", ".title", seconds=60)
            parts[part].send_signal(signal.SIGKILL)
            parts[part].wait(30)
            here.until_text("Connecting again", seconds=60)
            check.contains(here.text(".message.error").lower(), message)
            parts[part] = again[part]()
            check.until(lambda: not here.text(".message.error"), seconds=60, what=f"the stream after the restart of the {part}")
    finally:
        here.close()
        for process in parts.values():
            check.stop(process)


try:
    check.main(globals())
finally:
    PAGE.close()
    SERVER.stop()
