# SPDX-License-Identifier: Apache-2.0
"""`sonde leaks` over a store with eight hours of a service's live memory: leaks_test.py SONDE SONDE_HISTORY. What each site holds is
made up from a seed; a leak begins with version 1.5."""

import hashlib
import json
import math
import os
import random
import struct
import subprocess
import sys
import time

SONDE, SONDE_HISTORY = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
sys.path.insert(0, os.path.abspath("clients/python"))
from sonde_client import Service  # noqa: E402
from tests.cli import check  # noqa: E402

FOLDER = check.short_folder()
NOW = int(time.time()) // 60 * 60
HOUR_S, SPAN_S, PAUSE_S = 3600, 8 * 3600, 60
DEPLOYED = NOW - 5 * HOUR_S
MIB = 1 << 20
SAMPLE = MIB // 2  # bytes for which a sample stands
ALLOCATOR = ("operator new(unsigned long)", "malloc")
# Stacks, outermost first.
SITES = {"steady": ("main", "serve", "read_request"), "leak": ("main", "serve", "shop::Session::open(int)", "std::vector<int>::push_back(int)"),
         "cache": ("main", "serve", "remember"), "load": ("main", "serve", "queue_\x1b[31morders")}


def load(age):
    """Of a day that has its minimum in the middle of the range."""
    return 2 + math.sin(2 * math.pi * age / SPAN_S)


def held(begin):
    """MiB of each site."""
    part = (begin - NOW + SPAN_S) / SPAN_S
    return {"steady": 300, "leak": 40 + max(0, begin - DEPLOYED) / HOUR_S * 30, "cache": 20 + 120 * (1 - math.exp(-8 * part)),
            "load": 60 * load(NOW - begin)}


def hashed(*parts):
    data = b"".join(part.encode() + b"\0" if isinstance(part, str) else struct.pack(">Q", part) for part in parts)
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big")


def frame(name):
    address = 16 * (1 + int(hashlib.sha256(name.encode()).hexdigest()[:6], 16))
    return {"id": hashed("frame", "/usr/bin/shop", address), "module": "/usr/bin/shop", "address": address, "kind": "APPLICATION", "version": 1,
            "lines": [{"function": name}]}


def ids_of(names):
    return [frame(name)["id"] for name in reversed(names)]


def window(number, begin, event, values):
    """values: {stack: amount}."""
    return {"source": 5, "epoch": 1, "seq": number, "event": event, "service": "shop", "host": "a", "instance": "one", "pid": 7,
            "begin_unix_s": begin, "length_s": 10, "period_ns": 1_000_000, "clock": "perf", "samples": 40, "threads": [""],
            "labels": [{"name": "version", "value": "1.5" if begin >= DEPLOYED else "1.4"}],
            "stack": [hashed("stack", "shop", *ids_of(names)) for names in values], "thread": [0] * len(values),
            "value": [int(value) for value in values.values()]}


def windows():
    rng, number, counts = random.Random(7), 0, {}
    for begin in range(NOW - SPAN_S, NOW, PAUSE_S):
        for site, mib in held(begin).items():  # some samples are freed and others taken
            wanted = mib * MIB / SAMPLE
            counts[site] = counts.get(site, wanted) * 0.9 + wanted * 0.1 + rng.gauss(0, 0.2)
        live = {SITES[site] + ALLOCATOR: max(0, round(count)) * SAMPLE for site, count in counts.items()}
        yield window(number, begin, "mem-inuse", live)
        yield window(number + 1, begin, "on-cpu", {("main", "serve"): load(NOW - begin) * 1e9 * (1 + rng.gauss(0, 0.01))})
        number += 2


def write_all():
    names = [*(stack + ALLOCATOR for stack in SITES.values()), ("main", "serve")]
    stacks = [{"service": "shop", "id": hashed("stack", "shop", *ids_of(stack)), "frames": ids_of(stack)} for stack in names]
    frames = {name: frame(name) for stack in names for name in stack}
    service, everything = Service(f"unix:{FOLDER}/grpc"), list(windows())
    deliveries = [{"delivery": at, "windows": everything[at:at + 500], "stacks": stacks, "frames": list(frames.values())}
                  for at in range(0, len(everything), 500)]
    answers = list(service.Write(iter(deliveries), timeout=60))
    service.close()
    check.equal([answer.rejected for answer in answers], [0] * len(deliveries), "the rejected windows")


HISTORY, _ = check.start(SONDE_HISTORY, "--store", f"sqlite:{FOLDER}/store", "--grpc", f"unix:{FOLDER}/grpc")
write_all()


def sonde(*words):
    return subprocess.run([SONDE, *words, "--service", f"unix:{FOLDER}/grpc"], capture_output=True, text=True, timeout=120, check=False)


def leaks(*words):
    begin = () if "--from" in words else ("--from", f"-{SPAN_S // HOUR_S}h")
    done = sonde("leaks", "shop", *begin, *words)
    check.equal(done.returncode, 0, done.stderr)
    return done.stdout


def test_a_leak_a_cache_and_what_follows_the_load_are_told_apart():
    found = json.loads(leaks("--json"))
    verdicts = {site["site"]: site["verdict"] for site in found["sites"]}
    check.equal({name: word for name, word in verdicts.items() if word == "LEAK"}, {"shop::Session::open(int)": "LEAK"}, "the leaks")
    check.equal(verdicts["remember"], "LEVELS_OFF", "the cache")
    assert "read_request" not in verdicts, verdicts
    check.equal(found["judgedSites"], len(SITES), "the sites")


def test_a_leak_has_its_rate_its_begin_and_the_version_that_brought_it():
    leak = next(site for site in json.loads(leaks("--json"))["sites"] if site["verdict"] == "LEAK")
    check.near(leak["bytesPerHour"], 30 * MIB, 3 * MIB, "bytes an hour")
    assert leak["low"] < leak["bytesPerHour"] < leak["high"], leak
    check.near(leak["sinceUnixS"], DEPLOYED, HOUR_S, "the begin")
    check.equal(leak["version"], "1.5", "the version")
    check.equal(leak["callers"], ["serve", "main"], "the callers")
    check.near(leak["bytes"][-1], 190 * MIB, 15 * MIB, "what it holds")


def test_the_text_says_it_in_words_and_names_cannot_change_the_terminal():
    text = leaks()
    for part in ("LEAK  shop::Session::open(", "called by serve < main", "version 1.5 appeared then", "at the end, in 1 process", "1 of 4 allocation sites grows beyond noise and load"):
        check.contains(text, part)
    assert "\x1b" not in text, text


def test_the_selector_chooses_what_is_judged():
    found = json.loads(leaks("--json", "--selector", "version = '1.4'", "--until", str(DEPLOYED)))
    check.equal((found["judgedSites"], found["processes"][-1]), (len(SITES), 1), "the sites and processes")
    assert not [site for site in found["sites"] if site["verdict"] == "LEAK"], found["sites"]
    found = json.loads(leaks("--json", "--selector", "version = '1.5'"))
    check.equal([site["site"] for site in found["sites"] if site["verdict"] == "LEAK"], ["shop::Session::open(int)"], "the leaks of 1.5")


def test_a_record_that_begins_and_ends_inside_the_range_is_judged_and_said():
    words = ("--from", "-20h", "--until", str(NOW + HOUR_S))
    found = json.loads(leaks(*words, "--json"))
    check.equal([site["site"] for site in found["sites"] if site["verdict"] == "LEAK"], ["shop::Session::open(int)"], "the leaks")
    assert found["recordedBlocks"] < len(found["processes"]), found["processes"]
    check.near(found["firstRecordUnixS"], NOW - SPAN_S, 600, "the first record")
    text = leaks(*words)
    for part in ("memory that was allocated before the heap was sampled is not seen", "blocks are recorded"):
        check.contains(text, part)


def test_more_processes_are_no_growth():
    """A pool that grows from 2 to 25, of which each holds the same."""
    service = Service(f"unix:{FOLDER}/grpc")
    stack, everything = SITES["steady"] + ALLOCATOR, []
    for begin in range(NOW - SPAN_S, NOW, PAUSE_S):
        for process in range(2 + 23 * (begin - NOW + SPAN_S) // SPAN_S):
            one = window(len(everything), begin, "mem-inuse", {stack: 100 * MIB + process % 3 * SAMPLE})
            everything.append({**one, "source": 6, "service": "pool", "instance": f"p{process}", "pid": 100 + process,
                               "stack": [hashed("stack", "pool", *ids_of(stack))]})
    stacks = [{"service": "pool", "id": hashed("stack", "pool", *ids_of(stack)), "frames": ids_of(stack)}]
    deliveries = [{"delivery": at, "windows": everything[at:at + 500], "stacks": stacks, "frames": [frame(name) for name in stack]}
                  for at in range(0, len(everything), 500)]
    answers = list(service.Write(iter(deliveries), timeout=60))
    service.close()
    check.equal([answer.rejected for answer in answers], [0] * len(deliveries), "the rejected windows")
    found = json.loads(sonde("leaks", "pool", "--from", f"-{SPAN_S // HOUR_S}h", "--json").stdout)
    assert found["processes"][0] < 5 and found["processes"][-1] > 20, found["processes"]
    check.equal(found["sites"], [], "verdicts")


def test_a_time_that_is_too_short_or_has_no_live_memory_is_refused_with_what_to_do():
    done = sonde("leaks", "shop", "--from", "-20m")
    check.equal(done.returncode, 2, "the exit status")
    check.contains(done.stderr, "a verdict needs 50 minutes of recorded live memory")
    done = sonde("leaks", "bank")
    check.equal(done.returncode, 1, "the exit status")
    check.contains(done.stderr, "sonde heap on bank")
    check.equal(sonde("leaks").returncode, 2, "the exit status without a service")


try:
    check.main(globals())
finally:
    check.stop(HISTORY)
