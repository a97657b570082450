# SPDX-License-Identifier: Apache-2.0
"""What continuous recording costs: the CPU time of sonded for some busy targets, that of the targets for a fixed amount of work
with and without it, and of a scan of all processes' CPU clocks.

    bazel run -c opt //tests/bench/recording -- [--targets N] [--seconds S] [--rounds N] [--requests N] [--out FILE.jsonl]"""

import argparse
import os
import re
import statistics
import subprocess
import time

from tests.bench import peers
from tests.e2e import stack

DEMO = os.path.abspath("clients/demo/demo")
SOCKET = os.path.join(stack.WORK, "guest.sock")
GRPC = "unix:" + os.path.join(stack.WORK, "grpc.sock")


def start_service(*words):
    process = subprocess.Popen([os.path.join(stack.PREFIX, "bin/sonded"), "--socket", SOCKET, "--grpc", GRPC, "--data-dir",
                                os.path.join(stack.WORK, "data"), *words], env=stack.environment(), stdout=subprocess.PIPE,
                               text=True)
    assert "grpc: " in process.stdout.readline()
    return process


def start_demo(*words):
    env = {**stack.environment(), "LD_PRELOAD": os.path.join(stack.PREFIX, "lib/libsonde.so"), "SONDE_SOCKET": SOCKET}
    return subprocess.Popen([DEMO, *words], env=env, stdout=subprocess.PIPE, text=True)


def work_s(*words):
    out, _ = start_demo(*words).communicate()
    return int(re.search(r"process_cpu_ns (\d+)", out).group(1)) / 1e9


def cpu_s(pid):
    """From the scheduler's clock of each thread: exact, unlike stat."""
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="utf-8") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def service_cost(table, targets, seconds, *words):
    service = start_service(*words)
    demos = [start_demo("--threads", "2", "--tick") for _ in range(targets)]
    time.sleep(15)  # tables and names are prepared once
    before, started, used = cpu_s(service.pid), time.monotonic(), sum(map(cpu_s, (demo.pid for demo in demos)))
    time.sleep(seconds)
    took = time.monotonic() - started
    used = sum(map(cpu_s, (demo.pid for demo in demos))) - used
    table.row(what=f"sonded {' '.join(words) or 'idle'}", targets=targets, percent_of_a_core=100 * (cpu_s(service.pid) - before) / took,
              targets_use_cores=used / took)
    for process in (*demos, service):
        process.terminate()
        process.wait()


def target_cost(table, rounds, requests):
    words = ("--threads", "2", "--requests", str(requests), "--depth", "40")
    costs = []
    for number in range(rounds):
        runs = {}
        for history in ((), ("--history",)) if number % 2 else (("--history",), ()):
            service = start_service(*history)
            runs[bool(history)] = work_s(*words)
            service.terminate()
            service.wait()
        costs.append(100 * (runs[True] / runs[False] - 1))
    table.row(what="target, 19 Hz", overhead_percent=statistics.median(costs), lowest=min(costs), highest=max(costs))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=30, help="for which sonded is measured; 0 = not at all")
    parser.add_argument("--rounds", type=int, default=5, help="for which a target is measured; 0 = not at all")
    parser.add_argument("--requests", type=int, default=100000, help="100,000 take about 6 s of CPU time")
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    stack.install()
    table = peers.Table("recording", options.out)
    for words in (("--history",), ("--history", "--history-off-cpu-ms", "50"), ()) if options.seconds else ():
        service_cost(table, options.targets, options.seconds, *words)
    if options.rounds:
        target_cost(peers.Table("recording", options.out), options.rounds, options.requests)
    for words in ((), ("1500", "100"), ("5000", "100")):
        subprocess.run(["tests/bench/recording/totals_bench", *words], check=True)


main()
