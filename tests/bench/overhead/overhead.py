# SPDX-License-Identifier: Apache-2.0
"""What profiling costs the application: the CPU time of a fixed amount of work at 99, 999 and 9,999 Hz, each run followed by one
without a profiler. Also prints the delivered samples, because a profiler that drops samples is cheap.

    bazel run //tests/bench/overhead -- [--rounds N] [--requests N] [--out FILE.jsonl]"""

import argparse
import time

from tests.bench import peers
from tests.e2e import stack

RATES = (99, 999, 9999)


def measure(tool, hz, words, rounds):
    """Adds a row with the medians of all rounds: the overhead in % and the samples per second of CPU time."""
    overheads, rates = [], []
    nothing = peers.Nothing()
    for number in range(rounds):
        pair = [nothing, tool] if number % 2 == 0 else [tool, nothing]
        runs = {each.name: each.profile(hz, words) for each in pair}
        mine, base = runs[tool.name], runs[nothing.name]
        overheads.append(100 * (mine.process_cpu_s / base.process_cpu_s - 1))
        rates.append(mine.count() / mine.process_cpu_s)
    return overheads, rates


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=100000, help="100,000 take about 6 s of CPU time")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--depth", type=int, default=40)
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    stack.install()
    words = ("--threads", str(options.threads), "--requests", str(options.requests), "--depth", str(options.depth))
    table = peers.Table("overhead", options.out)
    tools = peers.contenders()
    try:
        for hz in RATES:
            ours = None
            for tool in (each for each in tools if hz <= getattr(each, "most_hz", hz)):
                started = time.monotonic()
                overheads, rates = measure(tool, hz, words, options.rounds)
                cost = peers.median(overheads)
                ours = cost if ours is None else ours
                table.row(tool=tool.name, asked_hz=hz, overhead_percent=cost, lowest=min(overheads),
                          highest=max(overheads), delivered_hz=peers.median(rates),
                          us_per_sample=1e4 * cost / max(peers.median(rates), 1e-9),
                          times_ours=cost / ours if ours else 0.0, took_s=time.monotonic() - started)
    finally:
        tools[0].close()


main()
