# SPDX-License-Identifier: Apache-2.0
"""How much a program's rhythm bends its profile. Programs that work in a rhythm tell the truth by their own clocks; the error of the
worst share is given in the standard deviations that independent samples would have, as the root mean square over the runs.
1.0 is perfect; the goal is 1.3.

    bazel run -c opt //tests/bench/accuracy:rhythm -- [--runs N] [--seconds S] [--hz HZ]... [--case TEXT] [--out FILE.jsonl]"""

import argparse
import os
import shutil
import subprocess
import time

from tests.bench import peers
from tests.cli import check
from tests.e2e import stack

PROGRAM = os.path.abspath("tests/bench/accuracy/rhythm_program")
FUNCTIONS = ("work_ten", "work_twenty", "work_seventy")
RATES = (19, 99, 250, 499, 997, 999, 1000, 4999)
CASES = (("slices", 500), ("fixed", 100), ("fixed", 1000), ("fixed", 10000), ("fixed", 100000), ("timer", 100), ("timer", 250),
         ("timer", 1000), ("reacts", 20))
START_S = 0.4


class Outside:
    """`sonde record PID` by root: clocks of all CPUs."""
    name = "perf-cpu"
    source = "host"

    def __init__(self):
        self.folder = check.short_folder()
        self.address = f"unix:{self.folder}/grpc.sock"
        self.sonded = subprocess.Popen([f"{stack.PREFIX}/bin/sonded", "--socket", f"{self.folder}/guest.sock", "--grpc", self.address,
                                        "--data-dir", f"{self.folder}/data"], env=stack.environment(), stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True)
        assert self.sonded.stdout.readline().startswith("grpc: ")

    def environment(self):
        return stack.environment()

    def shares(self, pid, hz, seconds):
        path = f"{self.folder}/out.collapsed"
        stack.sonde("record", str(pid), "-d", str(seconds), "-F", str(hz), "--source", self.source, "-o", path, "--service", self.address)
        counts = [0] * len(FUNCTIONS)
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                frames, count = line.rsplit(" ", 1)
                for i, function in enumerate(FUNCTIONS):
                    counts[i] += int(count) * (function in frames.split(";"))
        return counts

    def close(self):
        check.stop(self.sonded)
        shutil.rmtree(self.folder, ignore_errors=True)


class Guest(Outside):
    """The clocks of the target's threads, by the guest."""
    name = "guest"
    source = "guest"

    def environment(self):
        return {**stack.environment(), "LD_PRELOAD": f"{stack.PREFIX}/lib/libsonde.so", "SONDE_SOCKET": f"{self.folder}/guest.sock"}


class Perf:
    """perf record -e cpu-clock: one clock with a fixed period."""
    name = "perf record"

    def environment(self):
        return stack.environment()

    def shares(self, pid, hz, seconds):
        path = os.path.join(stack.WORK, "perf.data")
        subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", str(hz), "-p", str(pid), "-o", path, "--", "sleep", str(seconds)],
                       capture_output=True, check=True)
        script = subprocess.run(["perf", "script", "-i", path, "-F", "ip,sym"], capture_output=True, text=True, check=True).stdout
        return [script.count(function) for function in FUNCTIONS]

    def close(self):
        pass


def sigmas(tool, case, hz, seconds):
    """The error of one run."""
    kind, amount = case
    cpu_s = (seconds + 2 * START_S) * (0.4 if kind == "timer" else 1)
    program = subprocess.Popen([PROGRAM, kind, str(amount), str(cpu_s)], env=tool.environment(), stdout=subprocess.PIPE, text=True)
    time.sleep(START_S)
    counts = tool.shares(program.pid, hz, seconds)
    spent = [float(word) for word in program.communicate()[0].split()[1:]]
    if sum(counts) == 0:
        return None
    truth = [part / sum(spent) for part in spent]
    error = max(abs(count / sum(counts) - part) for count, part in zip(counts, truth))
    samples = hz * seconds * (0.4 if kind == "timer" else 1)
    return error / max(part * (1 - part) / samples for part in truth) ** 0.5


def measure(table, tools, case, hz, options):
    taken = {tool.name: [] for tool in tools}
    for number in range(options.runs):
        for tool in tools if number % 2 == 0 else reversed(tools):  # interleaved
            taken[tool.name].append(sigmas(tool, case, hz, options.seconds))
    for name, errors in taken.items():
        known = [error for error in errors if error is not None]
        table.row(case=f"{case[0]} {case[1]}", tool=name, asked_hz=hz, runs=len(known), without_samples=len(errors) - len(known),
                  rms_sigma=(sum(error ** 2 for error in known) / max(len(known), 1)) ** 0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--hz", type=int, action="append", default=[])
    parser.add_argument("--case", default="", help="run only the cases whose names contain this")
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    stack.install()
    table = peers.Table("rhythm", options.out)
    tools = [Outside(), Guest()] + ([Perf()] if shutil.which("perf") else [])
    try:
        for case in CASES:
            for hz in options.hz or RATES if options.case in f"{case[0]} {case[1]}" else ():
                measure(table, tools, case, hz, options)
    finally:
        peers.close(tools)


main()
