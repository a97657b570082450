# SPDX-License-Identifier: Apache-2.0
"""What profiling costs the application: the CPU time of a fixed amount of work at 99, 999 and 9,999 Hz, in rounds that
begin and end without a profiler. with_profiler adds the CPU time of the profiler's own processes. Also prints the delivered samples,
because a profiler that drops samples is cheap.

    bazel run //tests/bench/overhead -- [--rounds N] [--requests N] [--out FILE.jsonl]"""

import argparse
import time

from tests.bench import peers
from tests.e2e import stack

RATES = (99, 999, 9999)


def rounds_of(tools, hz, words, rounds):
    """Profiles with each tool in turn, and without any before and after each round. Returns, for each tool, one row per round: the
    overhead of the demo in %, the same with the profiler's own CPU time, and samples per second of CPU time."""
    nothing = peers.Nothing()
    rows = {tool.name: [] for tool in tools}
    before = nothing.profile(hz, words).process_cpu_s
    for number in range(rounds):
        runs = {tool.name: tool.profile(hz, words) for tool in (tools if number % 2 == 0 else reversed(tools))}
        after = nothing.profile(hz, words).process_cpu_s
        base = (before + after) / 2
        before = after
        for name, run in runs.items():
            rows[name].append((100 * (run.process_cpu_s / base - 1),
                               100 * ((run.process_cpu_s + run.profiler_cpu_s) / base - 1),
                               run.count() / run.process_cpu_s))
    return rows


def measure(table, tools, hz, words, rounds):
    started = time.monotonic()
    rows = rounds_of(tools, hz, words, rounds)
    medians = {name: [peers.median(column) for column in zip(*row)] for name, row in rows.items()}
    perf = medians.get(peers.PerfRecord.name, [0.0])[0]
    for name, (cost, total, rate) in medians.items():
        table.row(tool=name, asked_hz=hz, overhead_percent=cost, lowest=min(row[0] for row in rows[name]),
                  highest=max(row[0] for row in rows[name]), with_profiler=total, delivered_hz=rate,
                  us_per_sample=1e4 * cost / max(rate, 1e-9), times_perf_g=cost / perf if perf else 0.0,
                  took_s=time.monotonic() - started)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=100000, help="100,000 take about 6 s of CPU time")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rates", type=int, nargs="+", default=RATES)
    parser.add_argument("--depth", type=int, default=40)
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    stack.install()
    words = ("--threads", str(options.threads), "--requests", str(options.requests), "--depth", str(options.depth))
    table = peers.Table("overhead", options.out)
    tools = peers.contenders()
    try:
        for hz in options.rates:
            measure(table, [each for each in tools if hz <= getattr(each, "most_hz", hz)], hz, words, options.rounds)
    finally:
        peers.close(tools)


main()
