# SPDX-License-Identifier: Apache-2.0
"""Prints which share of the stacks of real servers reach their root, sampled from outside, beside `perf record --call-graph
dwarf,8192` in the same run. Nothing is prepared: the servers are started as usual, without the guest. Run it as root.

    bazel run //tests/bench/roots -- [--seconds S] [NAME]...

A stack of Sonde has reached its root if the walk says so: stacks that end early begin with a note, for example [no unwind table].
A stack of perf has if its last frame is a function that nobody calls."""

import argparse
import collections
import contextlib
import os
import re
import shutil
import subprocess
import time

from tests.bench.roots import servers
from tests.cli import check
from tests.e2e import stack

GOAL = 98.0
# Notes at the place of a root. Time in the kernel that has no stack is not a walk.
CUT = ("[truncated]", "[no unwind table]", "[complex unwind rule]", "[bad stack]", "[no stack]", "[stack copy too short]",
       "[unwind table not loaded yet]", "[32-bit program]", "[process ended]")
ROOTS = re.compile(r"^(_start|__libc_start_main.*|__libc_start_call_main|_start_c|clone3?|__clone3?|__GI___clone.*|thread_start|"
                   r"runtime\.(goexit|mstart|rt0_go|morestack|mcall|systemstack).*|_rt0_amd64_linux|gogo|ret_from_fork.*)$")


def sonde_stacks(pid, seconds):
    """stack -> samples of a capture from outside."""
    path = os.path.join(stack.WORK, "roots.collapsed")
    stack.sonde("record", str(pid), "--source", "host", "-F", "499", "-d", str(seconds), "-o", path, "--split-threads")
    found = collections.Counter()
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            frames, count = line.rsplit(" ", 1)
            found[tuple(frames.split(";")[1:])] += int(count)
    return found


def perf_stacks(pid, seconds):
    """The last symbol of each of perf's stacks -> samples."""
    path = os.path.join(stack.WORK, "roots.perf")
    subprocess.run(["perf", "record", "-q", "-F", "499", "-e", "cpu-clock:u", "--call-graph", "dwarf,8192", "-p", str(pid), "-o",
                    path, "--", "sleep", str(seconds)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    text = subprocess.run(["perf", "script", "-i", path, "--no-inline", "-F", "ip,sym"], capture_output=True, text=True,
                          errors="replace", check=False, timeout=600).stdout
    found = collections.Counter()
    for block in text.split("\n\n"):
        lines = [line.split(None, 1) for line in block.splitlines() if line.strip()]
        if lines:
            found[lines[-1][1] if len(lines[-1]) > 1 else "[unknown]"] += 1
    return found


def share(good, total):
    return f"{100 * good / total:6.1f} %" if total else "      - "


def measure(name, seconds, has_perf):
    with contextlib.ExitStack() as until_end:
        pid = getattr(servers, name)(until_end)
        time.sleep(0.5)
        ours = sonde_stacks(pid, seconds)
        ends = perf_stacks(pid, seconds) if has_perf and shutil.which("perf") else {}
    cut = {note: sum(count for frames, count in ours.items() if note in frames[:2]) for note in CUT}
    whole = {note: count for note, count in cut.items() if count}
    total, lost = sum(ours.values()), sum(whole.values())
    good = sum(count for end, count in ends.items() if ROOTS.match(end))
    missed = ", ".join(f"{end} {count}" for end, count in collections.Counter(
        {end: count for end, count in ends.items() if not ROOTS.match(end)}).most_common(3))
    print(f"{name:12}{total:8}  {share(total - lost, total)}   {sum(ends.values()):8}  {share(good, sum(ends.values()))}   "
          f"{', '.join(f'{note} {count}' for note, count in whole.items())}{'; perf: ' + missed if missed else ''}", flush=True)
    return total > 0 and 100 * (total - lost) >= GOAL * total


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--no-perf", action="store_true", help="only Sonde")
    options.add_argument("names", nargs="*", default=servers.ALL)
    options = options.parse_args()
    stack.install()
    print(f"{'':12}{'samples':>8}  {'to root':>8}   {'perf':>8}  {'to root':>8}   ends (goal {GOAL} %)")
    below = []
    for name in options.names:
        try:
            if not measure(name, options.seconds, not options.no_perf):
                below.append(name)
        except check.Skip as reason:
            print(f"{name:12} SKIP: {reason}", flush=True)
    print(f"below the goal: {', '.join(below)}" if below else "all reach the goal")


main()
