# SPDX-License-Identifier: Apache-2.0
"""sonde-history --watch over SQLite: a release that is slower is found in what was recorded, stored, listed and posted once."""

import http.server
import json
import random
import signal
import subprocess
import threading
import time

from tests.cli import check
from tests.rpc.history.deliveries import ENVIRONMENT, SONDE_HISTORY, History, _id

SLOT = 300
SLOTS, AFTER = 50, 12  # before and after the release
COSTS = {"parse": 30, "sort": 20, "copy": 15, "hash": 10, "find": 10, "free": 5}  # CPU seconds per slot and host
SEED = 20261128


class Receiver:
    """Answers 503 once, then 200."""

    def __init__(self):
        self.bodies, self.statuses = [], [503]
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802
                status = receiver.statuses.pop() if receiver.statuses else 200
                body = self.rfile.read(int(self.headers["content-length"]))
                if status == 200:
                    receiver.bodies.append(json.loads(body))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook/secret"


def deliveries(release):
    """A window for each slot and host, until now. The function "sort" costs 40 % more since the release."""
    print("seed", SEED)
    noise, names = random.Random(SEED), [*COSTS, "main"]
    frames = {name: _id("frame", "/bin/shop", 16 * (index + 1)) for index, name in enumerate(names)}
    stacks = {name: _id("stack", "shop", frames[name], frames["main"]) for name in COSTS}
    for slot in range(SLOTS + AFTER):
        windows = []
        for host in range(4):
            is_new = slot >= SLOTS
            values = [int(cost * 1e9 * (1.4 if is_new and name == "sort" else 1) * noise.gauss(1, 0.02)) for name, cost in COSTS.items()]
            windows.append({"source": 5 + host, "epoch": 1, "seq": slot + 1, "event": "on-cpu", "service": "shop", "host": f"web-{host}",
                            "instance": f"{host:032x}", "pid": 7, "begin_unix_s": release + (slot - SLOTS) * SLOT, "length_s": SLOT,
                            "period_ns": 52_631_579, "clock": "perf", "samples": 1700, "threads": [""],
                            "labels": [{"name": "version", "value": "1.5" if is_new else "1.4"}],
                            "stack": list(stacks.values()), "thread": [0] * len(stacks), "value": values})
        yield {"delivery": slot, "windows": windows,
               "stacks": [{"service": "shop", "id": stacks[name], "frames": [frames[name], frames["main"]]} for name in COSTS],
               "frames": [{"id": frames[name], "module": "/bin/shop", "address": 16 * (index + 1), "kind": "APPLICATION", "version": 1,
                           "lines": [{"function": name, "file": "shop.c", "line": 3}]} for index, name in enumerate(names)]}


def test_a_slower_release_is_found_and_posted_once():
    receiver, history = Receiver(), History()
    release = int(time.time()) // SLOT * SLOT - AFTER * SLOT
    history.start()
    answers = list(history.service.Write(deliveries(release), timeout=60))
    check.equal((sum(answer.stored for answer in answers), sum(answer.rejected for answer in answers)), (4 * (SLOTS + AFTER), 0))
    assert not history.service.GetHistoryInfo(timeout=10).HasField("watch"), "nothing looks for changes without --watch"
    history.stop(signal.SIGTERM)
    history.flags = ("--watch", "--watch-webhook", receiver.url)
    history.start()
    check.until(lambda: receiver.bodies, what="the webhook")
    (change,) = history.service.ListChanges(service="shop", timeout=10).changes
    (function,) = change.functions
    check.equal((function.function, list(function.callers)), ("sort", ["main"]))
    assert 1.37 < function.factor < 1.43, function
    assert function.low < function.after - function.before < function.high, function
    check.equal(change.until_unix_ns, release * 10**9, "the time")
    check.equal([(label.name, label.before, label.after) for label in change.labels], [("version", "1.4", "1.5")])
    check.equal(change.host, "")
    (body,) = receiver.bodies
    check.equal((body["service"], body["functions"][0]["function"], body["functions"][0]["kind"]), ("shop", "sort", "CHANGE_KIND_MORE"))
    check.equal(body["untilUnixNs"], str(change.until_unix_ns))

    def watch():
        return history.service.GetHistoryInfo(timeout=10).watch

    check.until(lambda: watch().webhook.sent == 1 and watch().until_unix_ns > 0, what="the counters")
    state = watch()
    check.equal((state.services, state.changes, state.failed, state.trouble), (1, 1, 0, ""))
    check.equal((state.webhook.retries, state.webhook.receiver), (1, receiver.url.removesuffix("/hook/secret")))
    check.equal(sum(loss.changes for loss in state.webhook.lost), 0)
    history.stop(signal.SIGTERM)
    history.start()
    check.until(lambda: watch().repeated, what="a look after the restart")
    check.equal((watch().changes, len(history.service.ListChanges(timeout=10).changes), len(receiver.bodies)), (0, 1, 1))
    check.equal(history.stop(signal.SIGTERM), 0)
    with open(f"{history.folder}/log", encoding="utf-8") as file:
        log = file.read()
    check.contains(log, "change of shop: sort +")
    check.contains(log, "version 1.4 -> 1.5")
    assert "secret" not in log, log


def test_options_that_do_not_fit_are_refused():
    def refused(*flags):
        done = subprocess.run([SONDE_HISTORY, "--store", "sqlite:/nowhere", *flags], capture_output=True, text=True, timeout=60, check=False,
                              env=ENVIRONMENT)
        assert done.returncode != 0, flags
        return done.stderr

    check.contains(refused("--watch-webhook", "http://127.0.0.1:1"), "--watch-webhook needs --watch")


check.main(globals())
