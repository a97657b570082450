#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The service alone: bazel run -c opt //tests/bench/rpc -- [--rounds N] [--seconds S] [--out FILE].

Measures small calls over a unix socket with the C client at three concurrencies, and a large result as a stream of chunks. Prints
medians and goals; --out appends one JSON line. Needs an idle machine."""

import argparse
import atexit
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

RUNFILES = os.getcwd()
FOLDER = tempfile.mkdtemp(prefix="x.")
CONCURRENCIES = (1, 16, 64)
GOALS = {"p50_us_1": ("<=", 91), "rps_16": (">=", 99000), "rps_64": (">=", 98000), "stream_gb_s": (">=", 1.4)}
processes = []


def clean_up():
    for process in processes:
        process.kill()
        process.wait()
    shutil.rmtree(FOLDER, ignore_errors=True)


def start(name, *more):
    process = subprocess.Popen([f"{RUNFILES}/tests/rpc/clients/fake_server", "--grpc", f"unix:{FOLDER}/{name}", *more],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    processes.append(process)
    return process.stdout.readline().split(": ", 1)[1].strip()


def load(address, method, concurrency, seconds):
    done = subprocess.run([f"{RUNFILES}/tests/bench/rpc/rpc_load", address, method, str(concurrency), str(seconds)],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--out")
    options = parser.parse_args()
    out = os.path.join(os.environ.get("BUILD_WORKING_DIRECTORY", "."), options.out) if options.out else None
    small, large = start("small"), start("large", "--stacks", "20000", "--name-len", "4000")
    rows = {}
    for _ in range(options.rounds):
        for concurrency in CONCURRENCIES:
            rows.setdefault(concurrency, []).append(load(small, "ListTargets", concurrency, options.seconds))
        rows.setdefault("stream", []).append(load(large, "CaptureCpu", 1, options.seconds))
    median = {what: {name: statistics.median(row[name] for row in found) for name in found[0] if name != "method"}
              for what, found in rows.items()}
    for concurrency in CONCURRENCIES:
        row = median[concurrency]
        print(f"c={concurrency:<3} {row['calls_per_s']:9.0f} calls/s   p50 {row['p50_us']:7.0f} us   p99 {row['p99_us']:7.0f} us")
    found = {"p50_us_1": median[1]["p50_us"], "rps_16": median[16]["calls_per_s"], "rps_64": median[64]["calls_per_s"],
             "stream_gb_s": median["stream"]["chunk_bytes_per_s"] / 1e9}
    for name, (sign, goal) in GOALS.items():
        met = found[name] <= goal if sign == "<=" else found[name] >= goal
        print(f"{name:12} {found[name]:10.2f}  goal {sign} {goal}  {'met' if met else 'NOT met'}")
    if out:
        with open(out, "a", encoding="utf-8") as file:
            file.write(json.dumps({"bench": "rpc", "unix_s": int(time.time()), "load": os.getloadavg()[0], "found": found}) + "\n")


atexit.register(clean_up)
main()
