# SPDX-License-Identifier: Apache-2.0
"""How fast the page opens and moves a profile whose graph has 100,000 frames, and how fast speedscope opens the same file.
Options: --rounds N (5), --stacks N (4200)."""

import argparse
import gzip
import json
import os
import random
import statistics
import sys
import time

from tests.ui import browser
from tests.ui.profile_file import ProfileFile

UI = "gateway/ui"
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html; charset=utf-8", ".svg": "image/svg+xml", ".wasm": "application/wasm"}
SPEEDSCOPE = os.path.join(os.environ.get("SONDE_NODE_MODULES", os.path.expanduser("~/.cache/sonde/node/node_modules")), "speedscope/dist/release")

# Moves the graph to and fro for two seconds after it was widened. Returns the intervals between frames, and what drawing took.
PAN = """const done = arguments[0], canvas = document.querySelector('.flame canvas'), intervals = [], drawing = [];
const wheel = (options) => canvas.dispatchEvent(new WheelEvent('wheel', { bubbles: true, cancelable: true, ...options }));
wheel({ ctrlKey: true, deltaY: -400 });
let last = 0, frame = 0;
const step = (now) => {
    if (last) intervals.push(now - last);
    last = now;
    drawing.push(Number(canvas.dataset.frameMs));
    wheel({ shiftKey: true, deltaX: frame % 60 < 30 ? 15 : -15 });
    if (frame++ < 120) requestAnimationFrame(step);
    else done([intervals, drawing.slice(1)]);
};
requestAnimationFrame(step);"""


def make(stacks):
    """Random stacks of 20 to 50 frames that share their first frames, as in a server."""
    chance, profile = random.Random(3), ProfileFile()
    for _ in range(stacks):
        stack, at = [], 0
        for level in range(chance.randint(20, 50)):
            at = chance.randrange(2) + level * 4 if level < 6 else (at * 31 + chance.randrange(3) + level * 7) % 20000
            stack.append((f"namespace::Class{at % 977}<int, std::string>::method_{at}", f"/lib/lib{at % 40}.so", f"/src/file{at % 999}.cc", at % 400))
        profile.add(stack, [1, chance.randint(10 ** 7, 2 * 10 ** 7)])
    return gzip.compress(profile.bytes())


def folder(path, prefix):
    return {prefix + name: ({"Content-Type": TYPES.get(os.path.splitext(name)[1], "application/octet-stream")}, open(os.path.join(path, name), "rb").read())
            for name in os.listdir(path) if os.path.isfile(os.path.join(path, name))}


def pages(content):
    found = folder(UI, "/ui/")
    found["/"] = ({"Content-Type": "text/html"}, found["/ui/index.html"][1])
    found["/v1/captures"] = ({"Content-Type": "application/json"}, json.dumps({"captures": [{"id": "1", "target": "made", "kind": "cpu"}]}).encode())
    found["/v1/captures/1.pb.gz"] = ({"Content-Type": "application/octet-stream"}, content)
    if os.path.isdir(SPEEDSCOPE):
        found.update(folder(SPEEDSCOPE, "/speedscope/"))
    return found


def opened(driver, url, ready):
    """Seconds of the page's own clock, from the start of the navigation until a script returns true."""
    driver.get("about:blank")
    started = time.monotonic()
    driver.get(url)
    while not driver.execute_script(ready):
        time.sleep(0.01)
        if time.monotonic() - started > 60:
            sys.exit(f"{url} did not open within 60 s")
    return driver.execute_script("return performance.now()") / 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stacks", type=int, default=4200)
    options = parser.parse_args()
    content = make(options.stacks)
    server, window = browser.Server(pages(content)), browser.Browser(width=1600, height=1000)
    window.driver.set_script_timeout(120)
    driver, page, other, intervals, drawing = window.driver, [], [], [], []
    for _ in range(options.rounds):
        page.append(opened(driver, server.url + "/#captures?id=1", "return Number(document.querySelector('.flame canvas')?.dataset.frameMs) > 0"))
        one, two = driver.execute_async_script(PAN)
        intervals += one
        drawing += two
        if os.path.isdir(SPEEDSCOPE):
            other.append(opened(driver, f"{server.url}/speedscope/index.html#profileURL={server.url}/v1/captures/1.pb.gz",
                                "return document.querySelectorAll('canvas').length > 1 && !document.body.innerText.includes('Loading')"))
    driver.get(server.url + "/#captures?id=1")
    frames = driver.execute_async_script("""const done = arguments[0];
        Promise.all([import('/ui/pprof.js'), import('/ui/tree.js'), fetch('/v1/captures/1.pb.gz')]).then(async ([{ decode }, { buildTree }, answer]) =>
            done(buildTree(await decode(new Uint8Array(await answer.arrayBuffer())), 1).count));""")
    print(f"{frames:,} frames, {len(content):,} bytes of pprof, {options.rounds} rounds")
    print(f"page: opened          {statistics.median(page):6.2f} s  ({min(page):.2f} to {max(page):.2f})  goal 1: {'ok' if statistics.median(page) < 1 else 'NO'}")
    if other:
        print(f"speedscope: opened    {statistics.median(other):6.2f} s  ({min(other):.2f} to {max(other):.2f})  page / speedscope {statistics.median(page) / statistics.median(other):.2f}")
    else:
        print("speedscope: not installed (npm package speedscope)")
    rate = 1000 / statistics.median(intervals)
    print(f"page: panning         {rate:6.1f} frames/s  goal 60: {'ok' if rate > 59 else 'NO'}; 95 % of the intervals below {sorted(intervals)[int(len(intervals) * 0.95)]:.1f} ms")
    print(f"page: drawing         {statistics.median(drawing):6.2f} ms a frame, 95 % below {sorted(drawing)[int(len(drawing) * 0.95)]:.2f} ms")
    window.close()
    server.close()


main()
