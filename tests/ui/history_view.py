# SPDX-License-Identifier: Apache-2.0
"""History and heat maps in a browser, over a store with a week of windows: history_view.py SONDE_HISTORY GATEWAY. Services, label
filters, values over time, ranges and their differences, changes of a label, and heat maps of days."""

import hashlib
import os
import re
import struct
import sys
import time

from selenium.webdriver.common.keys import Keys

SONDE_HISTORY, GATEWAY = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
sys.path.insert(0, os.path.abspath("clients/python"))
from sonde_client import Service  # noqa: E402
from tests.cli import check  # noqa: E402
from tests.ui import view  # noqa: E402

FOLDER = check.short_folder()
NOW = int(time.time()) // 10 * 10
MARKUP = "<img src=x onerror=document.title='gone'>"
STACKS = {"web": {("main", "serve", "parse"): 3, ("main", "serve", "render"): 1}, "db": {("main", "scan"): 1},
          MARKUP: {("main", "<b>bold</b>"): 1}}
WEEK_S, DAY_S, HOUR_S, SPARSE_S = 7 * 86400, 86400, 3600, 600
DEPLOYED = NOW - 1800  # version 1.4 became 1.5
HOUR = f"sv=web&ra=0&hf={NOW - HOUR_S}&hu={NOW}"  # the hour that is recorded in full, however long the tests take


def hashed(*parts):
    data = b"".join(part.encode() + b"\0" if isinstance(part, str) else struct.pack(">Q", part) for part in parts)
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big")


def frame(name):
    address = 16 * (1 + int(hashlib.sha256(name.encode()).hexdigest()[:6], 16))
    return {"id": hashed("frame", "/usr/bin/server", address), "module": "/usr/bin/server", "address": address, "kind": "APPLICATION",
            "version": 1, "lines": [{"function": name}]}


def window(number, service, begin, scale, host="a", event="on-cpu"):
    stacks, columns = STACKS[service], {"stack": [], "thread": [], "value": []}
    for names, value in stacks.items():
        columns["stack"].append(hashed("stack", service, *(frame(name)["id"] for name in reversed(names))))
        columns["thread"].append(0)
        columns["value"].append(int(value * scale))
    version = "1.5" if begin >= DEPLOYED else "1.4"
    return {"source": 5, "epoch": 1, "seq": number, "event": event, "service": service, "host": host,
            "instance": hashlib.md5(f"{service}{host}".encode()).hexdigest(), "pid": 7, "begin_unix_s": begin, "length_s": 10,
            "period_ns": 1_000_000, "clock": "perf", "samples": 40, "labels": [{"name": "version", "value": version}],
            "threads": [""], **columns}


def windows():
    """The last hour in full, and a window every ten minutes of the week. The last half hour of web takes twice the time."""
    recent = [(begin, 2 if begin >= DEPLOYED else 1) for begin in range(NOW - HOUR_S, NOW, 10)]
    for begin, scale in [(begin, 1) for begin in range(NOW - WEEK_S, NOW - HOUR_S, SPARSE_S)] + recent:
        yield "web", begin, scale * 500_000_000, "a", "on-cpu"
        yield "web", begin, 500_000_000, "b", "on-cpu"
    for begin, _ in recent:
        yield "db", begin, 1_000_000_000, "a", "on-cpu"
        yield MARKUP, begin, 1_000_000, "a", "on-cpu"
    for begin, scale in recent[::6]:
        yield "web", begin, scale << 20, "a", "mem-inuse"


def write_all():
    everything = [window(number, service, begin, scale, host, event) for number, (service, begin, scale, host, event)
                  in enumerate(windows())]
    stacks = [{"service": service, "id": hashed("stack", service, *ids), "frames": ids} for service, stacks in STACKS.items()
              for ids in [[frame(name)["id"] for name in reversed(names)] for names in stacks]]
    frames = {name: frame(name) for stacks in STACKS.values() for names in stacks for name in names}
    deliveries = [{"delivery": at, "windows": everything[at:at + 500], "stacks": stacks, "frames": list(frames.values())}
                  for at in range(0, len(everything), 500)]
    service = Service(f"unix:{FOLDER}/grpc")
    answers = list(service.Write(iter(deliveries), timeout=60))
    service.close()
    check.equal([answer.rejected for answer in answers], [0] * len(deliveries), "the rejected windows")


HISTORY, _ = check.start(SONDE_HISTORY, "--store", f"sqlite:{FOLDER}/store", "--grpc", f"unix:{FOLDER}/grpc")
SERVER, URL = check.start(GATEWAY, "--service", f"unix:{FOLDER}/none", "--history", f"unix:{FOLDER}/grpc", "--listen", "127.0.0.1:0",
                          "--quiet")
write_all()
PAGE = view.View(URL)


def seconds():
    """The CPU time of the graph, as the legend states it."""
    found = re.match(r"([\d.]+) s of", PAGE.text(".legend"))
    return float(found.group(1)) if found else None


def series_requests():
    return PAGE.run("return performance.getEntriesByType('resource').filter((one) => one.name.includes('/history/series')).length")


def test_services_are_listed_by_cpu_time_and_lead_to_their_timeline():
    PAGE.go("/#history")
    PAGE.until_text("Processes", "table.list")
    names = [line.split("\t")[0] for line in PAGE.text("table.list tr").splitlines() if line.strip()]
    check.equal([name for name in names if name in ("web", "db", MARKUP)], ["web", "db", MARKUP], "the order of the services")
    PAGE.until_text("all services, CPU, ", ".title")
    PAGE.shoot("history-services")
    PAGE.click("web", "button.name")
    PAGE.until_text("web, CPU, ", ".title")
    check.until(lambda: PAGE.text("table.list") == "", what="no list of services")
    share = PAGE.search("parse")
    check.near(share, 75, 1, "the share of parse")
    check.contains(PAGE.text(), "complete: 100 % of the windows")
    check.equal(PAGE.state()["sv"], "web", "the service in the URL")
    PAGE.shoot("history")
    check.equal(PAGE.errors(), [], "console errors")


def test_a_range_that_begins_before_the_recording_says_how_much_of_it_was_recorded():
    PAGE.go(f"/#history?sv=web&ra=0&hf={NOW - WEEK_S - DAY_S}&hu={NOW}")
    PAGE.until_text("8.0 days; recorded: the last 7.0 days")
    PAGE.go(f"/#history?{HOUR}")
    PAGE.until_text("10 s per bar")
    assert "recorded: the last" not in PAGE.text()


def test_a_target_has_its_own_history_or_none():
    PAGE.go("/t/db/#history")
    PAGE.until_text("db, CPU, ", ".title")
    for tab in ("history", "heatmap"):
        PAGE.go(f"/t/gone/#{tab}")
        PAGE.until_text("gone was not recorded in this range")
        check.equal(PAGE.text(".title"), "", "the graph of another service")
        check.equal(PAGE.errors(), [], "console errors")
    PAGE.go("/t/gone/#history")
    PAGE.click("All services")
    PAGE.until_text("all services, CPU, ", ".title")
    check.contains(PAGE.text("table.list"), "web")


def test_names_with_markup_stay_text():
    PAGE.go("/#history")
    PAGE.click(MARKUP, "button.name")
    PAGE.until_text(MARKUP, ".title")
    check.equal(PAGE.search("bold"), 100.0, "the share of the function")
    check.equal(PAGE.run("return document.querySelectorAll('#view img').length"), 0, "elements that the names made")
    assert "gone" not in PAGE.driver.title


def test_a_range_has_its_graph_and_a_second_one_its_difference():
    PAGE.go(f"/#history?{HOUR}")
    PAGE.until_text("web, CPU, ", ".title")
    everything = check.until(seconds, what="the CPU time of the hour")
    PAGE.drag((-300, 40), (-10, 40))
    check.until(lambda: PAGE.state().get("ru") and seconds() not in (None, everything), what="the graph of the range")
    state = PAGE.state()
    length = int(state["ru"]) - int(state["rf"])
    check.near(seconds() / (length * 0.6), 1, 0.05, "the CPU time of the range by what was written")
    PAGE.drag((20, 40), (310, 40), Keys.SHIFT)
    PAGE.until_text(" against ", ".title")
    check.contains(PAGE.until_text("than in the base", ".legend"), "base")
    PAGE.shoot("history-difference")
    PAGE.driver.refresh()
    PAGE.until_text(" against ", ".title")
    PAGE.click("Clear")
    check.until(lambda: seconds() == everything, what="the graph of the hour")
    check.equal(PAGE.errors(), [], "console errors")


def test_a_preset_moves_with_time_until_a_range_is_chosen():
    PAGE.go("/#history?sv=web")
    PAGE.until_text("web, CPU, ", ".title")
    assert not {"hf", "hu"} & set(PAGE.state()), PAGE.state()
    PAGE.click("6 h")
    PAGE.until_text("(6.0 h)", ".title")
    check.equal({key: PAGE.state().get(key) for key in ("ra", "hf", "hu")}, {"ra": "21600", "hf": None, "hu": None})
    PAGE.drag((-300, 40), (-100, 40))
    check.until(lambda: PAGE.state().get("ru"), what="a range")
    state, title = PAGE.state(), PAGE.text(".title")
    assert state["ra"] == "0" and int(state["hu"]) - int(state["hf"]) == 21600, state
    check.equal(PAGE.run("return document.querySelectorAll('[aria-label=range] [aria-pressed=true]').length"), 0, "pressed presets")
    PAGE.driver.refresh()
    PAGE.until_text(title, ".title")
    check.equal(PAGE.state(), state, "the state after a reload")


def test_before_and_after_a_new_version_are_compared_by_a_click():
    PAGE.go(f"/#history?{HOUR}")
    text = PAGE.until_text("Compare before and after version 1.4 → 1.5", "button").splitlines()
    PAGE.click(next(line for line in text if line.startswith("Compare before")))
    PAGE.until_text(" against ", ".title")
    state = {key: int(value) for key, value in PAGE.state().items() if key in ("rf", "ru", "bf", "bu")}
    check.equal((state["bu"], state["rf"]), (DEPLOYED, DEPLOYED))
    check.equal(state["bu"] - state["bf"], state["ru"] - state["rf"], "the lengths")


def test_a_base_of_another_length_is_stated_as_it_was():
    PAGE.go(f"/#history?{HOUR}&rf={NOW - 600}&ru={NOW}&bf={NOW - 3600}&bu={NOW - 2400}")
    PAGE.until_text("in 20 min, which is", ".legend")
    PAGE.until_text("per 10 min, new", ".legend")


def test_changes_of_a_label_are_marked():
    PAGE.go(f"/#history?{HOUR}")
    PAGE.until_text("web, CPU, ", ".title")
    position = PAGE.run("return document.querySelector('.strip canvas').clientWidth") // 2
    PAGE.drag((position - 30, 40), (position, 40))
    check.until(lambda: "version 1.4 → 1.5" in PAGE.text(".strip-line") + PAGE.spoken(), what="the mark of the new version")
    PAGE.choose("label whose changes are marked", "host")
    check.until(lambda: PAGE.state().get("mk") == "host", what="another label")


def test_labels_filter_what_is_shown():
    PAGE.go(f"/#history?{HOUR}")
    everything = check.until(seconds, what="the CPU time of both hosts")
    PAGE.choose("filter by a label", "host")
    PAGE.choose("value of the label", "b")
    check.until(lambda: PAGE.state().get("sr") == "host = 'b'", what="a condition")
    check.until(lambda: seconds() not in (None, everything), what="the CPU time of one host")
    check.near(seconds() / everything, 0.4, 0.01, "the share of the host")
    PAGE.choose("filter by a label", "version")
    PAGE.choose("value of the label", "1.5")
    check.until(lambda: PAGE.state().get("sr") == "host = 'b' AND version = '1.5'", what="two conditions")
    PAGE.until_text("web, CPU, ", ".title")
    PAGE.write("conditions on labels", "host =")
    PAGE.until_text("selector: byte")
    check.equal(PAGE.errors(), [], "console errors")


def test_the_timeline_is_by_day_hour_and_minute():
    PAGE.go("/#history?sv=web")
    PAGE.until_text("10 s per bar")
    PAGE.click("7 d")
    PAGE.until_text("min per bar")
    PAGE.until_text("Choose a range in the strip for its graph")
    for text, shown in (("Day", "24.0 h per bar"), ("Hour", "60 min per bar"), ("Minute", "60 s per bar")):
        PAGE.click(text)
        PAGE.until_text(shown)
    PAGE.click("Show all 7.0 days")
    PAGE.until_text("web, CPU, ", ".title")
    PAGE.drag((-200, 40), (-2, 40))
    check.until(lambda: PAGE.state().get("ru"), what="a range")
    PAGE.click("Zoom in")
    check.until(lambda: PAGE.state().get("ra") == "0", what="the range as the new one")
    before = PAGE.state()
    PAGE.click("Zoom out")
    check.until(lambda: int(PAGE.state()["hf"]) < int(before["hf"]), what="a longer range")


def test_memory_has_its_own_line():
    PAGE.go("/#history?sv=web")
    PAGE.click("Live memory")
    PAGE.until_text("web, Live memory, ", ".title")
    PAGE.until_text("mean 6.", ".muted")
    PAGE.until_text("MiB of", ".legend")


def test_a_range_without_windows_says_so():
    PAGE.go(f"/#history?sv=web&ra=0&hf={NOW - 3 * WEEK_S}&hu={NOW - 2 * WEEK_S}")
    PAGE.until_text("nothing was recorded in this range")


def test_a_heat_map_of_history_has_graphs_of_its_cells():
    PAGE.go(f"/#heatmap?{HOUR}")
    PAGE.until_text("a cell: 10 s, a column: 2 min")
    marks = [float(one.split()[0]) for one in PAGE.run("return [...document.querySelectorAll('.heat-key span span')].map((one) => one.innerText)")]
    check.equal(marks, sorted(marks), "the quantiles of the scale")
    check.equal(len(marks), 5)
    sizes = PAGE.run("return ['.strip canvas', '.strip'].map((css) => document.querySelector(css).clientWidth)")
    assert sizes[1] - sizes[0] < 8, sizes
    PAGE.drag((300, 20), (400, 100))
    check.until(lambda: seconds() and PAGE.state().get("ru"), what="the graph of the cells")
    PAGE.drag((100, 20), (200, 100), Keys.CONTROL)
    PAGE.until_text(" against ", ".title")
    state = {key: int(value) for key, value in PAGE.state().items() if key in ("rf", "ru", "bf", "bu")}
    assert NOW - HOUR_S - 120 <= state["bf"] < state["bu"] <= state["rf"] < state["ru"] <= NOW + 10, state
    PAGE.shoot("heat-map")
    PAGE.press(Keys.ESCAPE)
    PAGE.until_text("Choose cells for their graph")
    PAGE.press(Keys.HOME, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    check.until(lambda: "0.60 cores" in PAGE.spoken() or "0.40 cores" in PAGE.spoken(), what="the value of a cell")
    check.equal(PAGE.errors(), [], "console errors")


def test_a_heat_map_of_a_week_takes_several_requests_of_bounded_length():
    PAGE.go("/#heatmap?sv=web&ra=604800")
    PAGE.until_text("a cell: 10 s, a column: 30 min", seconds=60)
    check.equal(series_requests(), 6, "the requests")
    PAGE.shoot("heat-map-of-a-week")


def test_a_search_marks_cells_or_says_why_not():
    PAGE.go("/#heatmap?sv=web&q=render")
    PAGE.until_text("cells have stacks with *render*")
    PAGE.shoot("heat-map-with-marks")
    PAGE.go("/#heatmap?sv=web&q=" + "re(nder|parse)")
    PAGE.until_text("not for other regular expressions")


try:
    check.main(globals())
finally:
    PAGE.close()
    for process in (SERVER, HISTORY):
        process.terminate()
        process.wait(60)
