# SPDX-License-Identifier: Apache-2.0
"""Parca's and Grafana Alloy's scrapes, sent byte by byte, and Debian's Prometheus. Parca's and Alloy's HTTP client is that of
Prometheus with compression disabled: it sends the two headers below and nothing else."""

import json
import os
import re
import socket
import subprocess
import sys
import time

from tests.cli import check
from tests.e2e import stack

PARCA, ALLOY = "conprof/0.24.0", "Alloy/v1.11.0 (linux; docker)"
# One MiB every 10 ms, which is sampled 86 times of 100 at the default distance of 512 KiB; and a thread that sleeps.
TARGET = """
import threading, time
threading.Thread(target=lambda: time.sleep(1000), daemon=True).start()
print("ready", flush=True)
while True:
    block = bytearray(1 << 20)
    time.sleep(0.01)
"""

stack.install()
SERVER = stack.Server(sys.executable, "-c", TARGET, flags=("--name", "shop"), ready="ready")


class Answer:
    def __init__(self, head, body):
        lines = head.decode().split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
        self.body = body


def scrape(path, agent=PARCA):
    """Sends the scraper's request and returns the answer, which must not wait for more."""
    host, port = SERVER.host.split(":")
    with socket.create_connection((host, int(port)), timeout=13) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {SERVER.host}\r\nUser-Agent: {agent}\r\n\r\n".encode())
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(1 << 16)
        head, body = data.split(b"\r\n\r\n", 1)
        answer = Answer(head, body)
        while len(answer.body) < int(answer.headers["content-length"]):
            answer.body += connection.recv(1 << 16)
    return answer


def raw(answer):
    """What go tool pprof reads in an answer."""
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/octet-stream", answer.headers
    assert "content-encoding" not in answer.headers, answer.headers
    path = os.path.join(stack.WORK, "scraped.pb")
    with open(path, "wb") as file:
        file.write(answer.body)
    done = subprocess.run(["go", "tool", "pprof", "-symbolize=none", "-raw", path], env=stack.environment(),
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def values(text, column):
    """The sum of a column of the samples of `pprof -raw`."""
    samples = text.split("\nSamples:\n")[1].split("\nLocations\n")[0]
    return sum(int(row.split(":")[0].split()[column]) for row in samples.splitlines()[1:] if re.match(r" +[0-9].*: ", row))


def bytes_since(path, agent, at_least):
    """Asks until the answers add up to that many bytes of alloc_space."""
    total = 0

    def ask():
        nonlocal total
        total += values(raw(scrape(path, agent)), 1)
        return total >= at_least
    check.until(ask, what=f"{at_least} bytes")


def test_a_cpu_profile_has_the_asked_length():
    for agent in (PARCA, ALLOY):
        text = raw(scrape("/t/shop/debug/pprof/profile?seconds=1", agent))
        check.contains(text, "cpu/nanoseconds")
        check.contains(text, "Duration: ")


def test_allocations_are_those_since_the_last_scrape():
    first = time.monotonic()
    text = raw(scrape("/t/shop/debug/pprof/allocs"))
    assert time.monotonic() - first < 10, "the scrape's timeout"
    check.contains(text, "alloc_objects/count alloc_space/bytes")
    assert values(text, 1) == 0, text
    bytes_since("/t/shop/debug/pprof/allocs", PARCA, 4 << 20)
    # A window has a duration, which Parca takes for a delta.
    check.contains(raw(scrape("/t/shop/debug/pprof/allocs")), "Duration: ")


def test_alloy_gets_a_total_that_grows_because_it_subtracts():
    path, totals = "/t/shop/debug/pprof/allocs", []

    def grows():
        text = raw(scrape(path, ALLOY))
        assert "Duration" not in text, "a total is a snapshot"
        totals.append(values(text, 1))
        return totals[-1] > 4 << 20
    check.until(grows, what="4 MiB in all")
    totals.append(values(raw(scrape(path, ALLOY)), 1))
    assert totals[0] == 0 and totals == sorted(totals), totals


def test_delta_heap_is_another_count():
    assert values(raw(scrape("/t/shop/debug/pprof/delta_heap", ALLOY)), 1) == 0
    bytes_since("/t/shop/debug/pprof/delta_heap", ALLOY, 2 << 20)


def test_the_ninth_poller_is_refused_and_the_others_go_on():
    answers = [scrape("/t/shop/debug/pprof/delta_heap", f"poller/{number}").status for number in range(9)]
    assert answers[0] == 200 and answers[-1] == 429, answers
    check.contains(scrape("/t/shop/debug/pprof/delta_heap", "poller/9").body.decode(), "the limit is 8")
    assert scrape("/t/shop/debug/pprof/delta_heap", "poller/0").status == 200


def test_a_running_heap_profile_has_the_total():
    status, _, body = SERVER.get("/debug/pprof/heap_activate?backend=interposed")
    assert status == 200, body
    try:
        check.until(lambda: values(raw(scrape("/t/shop/debug/pprof/allocs", ALLOY)), 1) > 2 << 20, what="2 MiB")
        text = raw(scrape("/t/shop/debug/pprof/allocs"))
        assert "Duration" not in text, text[:500]
        check.contains(text, "inuse_space")
    finally:
        SERVER.get("/debug/pprof/heap_deactivate")


def test_goroutines_are_threads():
    text = raw(scrape("/t/shop/debug/pprof/goroutine"))
    check.contains(text, "goroutine/count")
    assert "Duration" not in text
    threads = len(os.listdir(f"/proc/{SERVER.pid}/task"))
    assert values(text, 0) == threads, (threads, text)
    assert re.search(r"nanosleep|select|futex|sem_|lock_", text), text


def test_goroutines_as_text_are_readable_by_go():
    answer = scrape("/t/shop/debug/pprof/goroutine?debug=1")
    check.contains(answer.body.decode(), "goroutine profile: total ")
    answer.headers["content-type"] = "application/octet-stream"
    check.contains(raw(answer), "goroutine/count")
    check.contains(scrape("/t/shop/debug/pprof/goroutine?debug=2").body.decode(), f"(pid {SERVER.pid})")


def test_threads_are_counted_by_their_start_function():
    text = raw(scrape("/t/shop/debug/pprof/threadcreate"))
    check.contains(text, "threadcreate/count")
    assert values(text, 0) == len(os.listdir(f"/proc/{SERVER.pid}/task")), text
    for line in text.split("\nLocations\n")[1].splitlines():
        assert not re.search(r" (clone3?|start_thread|_start|__libc_start\w*) ", line), text


def test_waits_are_measured_during_seconds_and_never_before():
    text = raw(scrape("/t/shop/debug/pprof/mutex"))
    check.contains(text, "seconds=10")
    check.contains(text, "contentions/count delay/nanoseconds")
    assert "Duration" not in text
    text = raw(scrape("/t/shop/debug/pprof/block?seconds=1"))
    check.contains(text, "contentions/count delay/nanoseconds")
    assert values(text, 1) > 100_000_000, text
    # The main thread sleeps 100 times at most; the other one is in its only sleep.
    assert 10 < values(text, 0) < 200 or "needs BPF" in text, text


def test_a_mutex_profile_has_no_sleep():
    text = raw(scrape("/t/shop/debug/pprof/mutex?seconds=1"))
    check.contains(text, "only for mutexes")
    assert "sleep" not in text.split("\nLocations\n")[1], text


def test_discovery_lists_the_target_at_the_gateways_address():
    answer = scrape("/v1/sd")
    assert answer.headers["content-type"] == "application/json", answer.headers
    entries = json.loads(answer.body)
    assert [entry["targets"] for entry in entries] == [[SERVER.host]], entries
    labels = entries[0]["labels"]
    assert labels["__profile_path_prefix__"] == "/t/shop" and labels["pid"] == str(SERVER.pid), labels
    assert all(isinstance(value, str) for value in labels.values()), labels


try:
    check.main(globals())
finally:
    SERVER.stop()
