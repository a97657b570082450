# SPDX-License-Identifier: Apache-2.0
"""Reads a file of 100 MB with copied stacks of 8 KiB with `sonde top` and with `perf script`, by turns, and prints the times and their
ratio: bazel run -c opt //tests/bench/perf_data -- [--megabytes 100] [--rounds 3]"""

import argparse
import json
import math
import os
import statistics
import subprocess
import time

from tests.cli import check
from tests.e2e import stack

DEMO = os.path.abspath("clients/demo/demo")
FOLDER = check.short_folder()
SAMPLE_BYTES = 8400


def record(megabytes):
    """At 4 kHz, 100 MB take 3 s of one thread; a second try takes what the first one lacked."""
    path = f"{FOLDER}/perf.data"
    seconds = megabytes * 1e6 / SAMPLE_BYTES / 4000
    for _ in range(5):
        subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", "4000", "-m", "8192", "--call-graph", "dwarf,8192", "-o", path,
                        DEMO, "--seconds", str(math.ceil(seconds))], stdout=subprocess.DEVNULL, check=True, timeout=600)
        if os.path.getsize(path) >= megabytes * 1e6:
            break
        seconds *= 1.1 * megabytes * 1e6 / os.path.getsize(path)
    return path


def seconds_of(words):
    start = time.monotonic()
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=3600, env=stack.environment())
    return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    stack.install()
    path = record(options.megabytes)
    ours, theirs = [], []
    cold = seconds_of([stack.SONDE, "top", path])
    for _ in range(options.rounds):
        ours.append(seconds_of([stack.SONDE, "top", path]))
        theirs.append(seconds_of(["perf", "script", "-i", path, "--no-inline"]))
    print(json.dumps({"bytes": os.path.getsize(path), "sonde, no tables": round(cold, 3), "sonde": round(statistics.median(ours), 3),
                      "perf script --no-inline": round(statistics.median(theirs), 3),
                      "ratio": round(statistics.median(theirs) / statistics.median(ours), 1)}))


main()
