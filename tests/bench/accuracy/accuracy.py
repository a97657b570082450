# SPDX-License-Identifier: Apache-2.0
"""How accurate profiles are: the error of known shares, the callers of leaves, threads that live for a millisecond, and work in
step with the kernel's tick. Measured for Sonde and other profilers.

    bazel run //tests/bench/accuracy -- [--rounds N] [--out FILE.jsonl]"""

import argparse

from tests.bench import peers
from tests.e2e import stack

SHARES = {"parse_header": 0.10, "compress_block": 0.20, "match_rules": 0.70}

# name of the case, arguments of the demo, rates in Hz
CASES = (
    ("steady", ("--threads", "4", "--requests", "80000"), (99, 999)),
    ("1 ms threads", ("--threads", "2", "--requests", "2400", "--short"), (99, 999)),
    ("in step with the tick", ("--threads", "1", "--requests", "1000", "--tick"), (99, 249)),
)


def share_error(run):
    """The largest error of the three functions, in percentage points of their sum, because creating threads takes time, too."""
    known = sum(run.of(name) for name in SHARES)
    return 100 * max(abs(run.of(name) / max(known, 1) - share) for name, share in SHARES.items())


def measure(table, case, words, hz, tools, rounds):
    runs = {tool.name: [] for tool in tools}
    for number in range(rounds):
        for tool in tools if number % 2 == 0 else reversed(tools):  # interleaved
            runs[tool.name].append(tool.profile(hz, words))
    for name, taken in runs.items():
        table.row(case=case, tool=name, asked_hz=hz,
                  share_error_pp=peers.median(share_error(run) for run in taken),
                  leaf_callers=peers.median(run.caller_share("match_rules", "apply_policy") for run in taken),
                  delivered=peers.median(run.count() / (hz * run.process_cpu_s) for run in taken),
                  samples=int(peers.median(run.count() for run in taken)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", default="", help="run only the cases whose names contain this")
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    stack.install()
    table = peers.Table("accuracy", options.out)
    tools = peers.contenders()
    try:
        for case, words, rates in CASES:
            for hz in rates if options.case in case else ():
                measure(table, case, words, hz, tools, options.rounds)
    finally:
        peers.close(tools)


main()
