# SPDX-License-Identifier: Apache-2.0
"""Runs all benchmarks. Each program measures Sonde and other tools ("peers"); the programs take turns, round after round. At the
end every figure is shown with its goal and with the peers' figures of the same run.

    bazel run //tests/bench -- [--quick] [--only NAME]... [--rounds N] [--out FILE.json]

The file describes the machine and has every measurement, with the load average at that time."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

from tests.bench import peers

QUICK, FULL = 0, 1


class Figures:
    """The figures measured so far: name -> unit and values."""

    def __init__(self):
        self.rows, self.texts = {}, {}

    def add(self, name, value, unit):
        row = self.rows.setdefault(name, {"unit": unit, "values": []})
        row["values"].append({"value": value, "load": round(os.getloadavg()[0], 2), "unix_s": round(time.time(), 1)})

    def median(self, name):
        row = self.rows.get(name)
        return peers.median(each["value"] for each in row["values"]) if row else None

    def bounds(self, name):
        values = [each["value"] for each in self.rows[name]["values"]]
        return min(values), max(values)


def run(words, timeout=3600):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} returned {done.returncode}: {done.stdout[-2000:]}")
    return done.stdout


# --- the programs: each function adds figures and returns what its program printed ---

def take_metric_lines(text, figures):
    """Reads lines of the form "metric", name, value, unit, separated by tabs."""
    for line in text.splitlines():
        words = line.split("\t")
        if words[0] == "metric" and len(words) == 4:
            figures.add(words[1], float(words[2]), words[3])


def walk(figures, length):
    text = run(["tests/bench/walk/walk_bench"])
    for line in text.splitlines():
        row = re.match(r"(\S.*?)\s{2,}(\d+) +(\d+) +(\d+) +(-?[\d.]+) +(-?[\d.]+) +(-?[\d.]+)x$", line)
        if row:
            figures.add(f"walk: {row.group(1)}, a frame", float(row.group(5)), "ns")
            figures.add(f"walk: {row.group(1)}, depth 40", float(row.group(3)), "ns")
        row = re.match(r"(\S+) +(\d+) +(\d+) +([\d.]+) +([\d.]+) +(\d+) +(\d+) +([\d.]+)$", line)
        if row:
            figures.add(f"tables: {row.group(1)}, an FDE", float(row.group(6)), "ns")
            figures.add(f"tables: {row.group(1)}, a row", float(row.group(4)), "bytes")
    return text


def handler(figures, length):
    text = run(["tests/bench/handler/handler_bench"])
    figures.add("handler: a tick at depth 40", float(re.search(r"ticks: (\d+) ns each", text).group(1)), "ns")
    return text


def ticks(figures, length):
    text = run(["tests/bench/ticks/ticks_bench", *(("200", "3") if length == QUICK else ("1000", "9"))])
    take_metric_lines(text, figures)
    return text


def rows_of(program, words):
    """Runs a program in Python with --out and returns its output and its JSON lines."""
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as out:
        text = run(["/usr/bin/python3", program, *words, "--out", out.name], timeout=7200)
        return text, [json.loads(line) for line in out]


def overhead(figures, length):
    text, rows = rows_of("tests/bench/overhead/overhead.py",
                         ("--rounds", "1", "--requests", "20000" if length == QUICK else "100000"))
    for row in rows:
        name = f"overhead: {row['tool']}, {row['asked_hz']} Hz"
        figures.add(name, row["overhead_percent"], "%")
        figures.add(f"{name}, delivered", row["delivered_hz"], "per CPU second")
        figures.add(f"{name}, a sample", row["us_per_sample"], "us")
    return text


def accuracy(figures, length):
    words = ("--rounds", "1") + (("--case", "1 ms") if length == QUICK else ())
    text, rows = rows_of("tests/bench/accuracy/accuracy.py", words)
    for row in rows:
        name = f"accuracy: {row['tool']}, {row['case']}, {row['asked_hz']} Hz"
        figures.add(f"{name}, delivered of expected", row["delivered"], "")
        figures.add(f"{name}, share error", row["share_error_pp"], "pp")
        figures.add(f"{name}, callers of leaves", 100 * row["leaf_callers"], "%")
    return text


def symbol(figures, length):
    small = ("tests/bench/walk/walk_bench", "1000") if length == QUICK else ()
    text = run(["tests/bench/symbol/symbol_bench", *small])
    above = ""
    for line in text.splitlines():
        row = re.match(r"(?:G\d+)? *(\S.*?)\s{2,}(-?[\d.]+) (.*)$", line)
        if row:
            is_detail = line[5:9] == "    "  # of the row above
            above = above if is_detail else row.group(1)
            name = f"{above}: {row.group(1)}" if is_detail else row.group(1)
            figures.add(f"symbol: {name}", float(row.group(2)), row.group(3).split("  ")[0].strip())
    return text


def heap(figures, length):
    text = run(["bash", "tests/bench/heap/heap.sh"])
    part = ""
    for line in text.splitlines():
        header = re.match(r"(\w+, \w+, depth \d+) ", line)
        row = re.match(r"  (\S.*?)\s{2,}([\d.]+) +([\d.]+) +(-?[\d.]+)(?: +(-?[\d.]+) us)?", line)
        if header:
            part = header.group(1)
        elif row and part:
            figures.add(f"heap: {part}, {row.group(1)}", float(row.group(2)), "ns a malloc and free")
            if row.group(5):
                figures.add(f"heap: {part}, {row.group(1)}, a sample", float(row.group(5)), "us")
    return text


def gateway(figures, length):
    with tempfile.NamedTemporaryFile("r") as out:
        text = run(["/usr/bin/python3", "tests/bench/gateway/gateway_bench.py", "--out", out.name, "--rounds",
                    "1" if length == QUICK else "3"])
        line = json.loads(out.readlines()[-1])
    rows = line["rows"]
    for name, value in line["found"].items():
        if name.endswith("_over_go"):
            figures.add(f"gateway: {name}", value, "ratio")
    for row, values in rows.items():
        name, what = row.split("/")
        for key, unit in (("rps", "requests/s"), ("p50_us", "us"), ("gb_s", "GB/s")):
            if key in values:
                figures.add(f"gateway: {name}, {'at ' if what.isdigit() else ''}{what}, {unit}", values[key], unit)
    for what in (row.split("/")[1] for row in rows if row.startswith("gateway/") and row != "gateway/stream"):
        added = rows[f"gateway/{what}"]["p50_us"] - rows[f"direct/{what}"]["p50_us"]
        figures.add(f"gateway: added to the direct call, at {what}", added, "us")
    return text


# name, function, file that it needs
PROGRAMS = (
    ("walk", walk, "tests/bench/walk/walk_bench"),
    ("handler", handler, "tests/bench/handler/handler_bench"),
    ("ticks", ticks, "tests/bench/ticks/ticks_bench"),
    ("overhead", overhead, "tests/bench/overhead/overhead.py"),
    ("accuracy", accuracy, "tests/bench/accuracy/accuracy.py"),
    ("heap", heap, "tests/bench/heap/heap.sh"),
    ("symbol", symbol, "tests/bench/symbol/symbol_bench"),
    ("gateway", gateway, "tests/bench/gateway/gateway_bench.py"),
)

WARM, COLD = "compact table, warm", "compact table, cold cache"
STEP, UNW = "libunwind init_local2 + step", "libunwind unw_backtrace, warm (not signal-safe)"
GCC = "libgcc _Unwind_Backtrace"

# figure, goal, whether less is better, the peers' figures to compare with
GOALS = (
    [(f"walk: {WARM}, a frame", 8, True, [f"walk: {peer}, a frame" for peer in (STEP, UNW, GCC)]),
     (f"walk: {COLD}, a frame", 20, True, []),
     (f"walk: {WARM}, depth 40", 700, True, [f"walk: {peer}, depth 40" for peer in (STEP, UNW, GCC)]),
     ("tables: libc.so.6, an FDE", 250, True, []),
     ("tables: libLLVM-14.so.1, an FDE", 250, True, []),
     ("tables: libLLVM-14.so.1, a row", 8, True, []),
     ("handler: a tick at depth 40", 700, True, [])]
    + [(f"overhead: sonde, {hz} Hz", goal, True,
        [f"overhead: {peer}, {hz} Hz" for peer in ("gperftools", "perf record -g", "perf record --call-graph dwarf")])
       for hz, goal in ((99, 0.4), (999, 2.6), (9999, 20))]
    + [("overhead: sonde, 9999 Hz, a sample over the bare tick", 5, True, [])]
    + [("gateway: p50_over_go", 1, True, []), ("gateway: rps_16_over_go", 1, False, []),
       ("gateway: rps_64_over_go", 1, False, []), ("gateway: stream_over_go", 1, False, []),
       ("gateway: gateway, stream, GB/s", 1, False, ["gateway: grpc-gateway, stream, GB/s"])]
    + [("overhead: sonde, 9999 Hz, delivered", 9500, False,
        ["overhead: gperftools, 9999 Hz, delivered", "overhead: perf record -g, 9999 Hz, delivered",
         "ticks: setitimer, delivered at 10 kHz", "ticks: timer_create, delivered at 10 kHz"])]
    + [(f"accuracy: sonde, steady, {hz} Hz, share error", goal, True,
        [f"accuracy: {peer}, steady, {hz} Hz, share error" for peer in ("gperftools", "perf record -g")])
       for hz, goal in ((99, 3.5), (999, 1.2))]
    + [(f"accuracy: sonde, steady, {hz} Hz, callers of leaves", 99, False,
        [f"accuracy: {peer}, steady, {hz} Hz, callers of leaves" for peer in ("gperftools", "perf record -g")])
       for hz in (99, 999)]
    + [(f"accuracy: sonde, 1 ms threads, {hz} Hz, delivered of expected", (0.9, 1.1), None,
        [f"accuracy: {peer}, 1 ms threads, {hz} Hz, delivered of expected"
         for peer in ("gperftools", "perf record -g")])
       for hz in (99, 999)]
    + [(f"accuracy: sonde, in step with the tick, {hz} Hz, delivered of expected", (0.95, 1.05), None,
        [f"accuracy: {peer}, in step with the tick, {hz} Hz, delivered of expected"
         for peer in ("gperftools", "perf record -g")])
       for hz in (99, 249)]
    + [(f"heap: jemalloc, small, depth 40, lg {lg}, our hook", goal, True,
        [f"heap: jemalloc, small, depth 40, lg {lg}, its own backtrace"])
       for lg, goal in ((16, 26), (12, 115))]
    + [("symbol: names, warm table, one core", 20, False, []),
       ("symbol: full with inlines, warm table, one core", 5, False, [])]
)


def reached(value, goal, less):
    if less is None:
        return goal[0] <= value <= goal[1]
    return value <= goal if less else value >= goal


def is_ahead(peer, ours, goal, less):
    """Whether a peer's figure is better than ours. If the goal is a range, the figure nearer to its middle is better."""
    if less is None:
        middle = (goal[0] + goal[1]) / 2
        return abs(peer - middle) < abs(ours - middle)
    return peer < ours if less else peer > ours


def derive(figures):
    """Adds the cost of a sample without that of a bare tick, which in a virtual machine is most of it."""
    bare, ours = figures.median("ticks: perf sigtrap, cost of a bare tick"), "overhead: sonde, 9999 Hz, a sample"
    if bare is not None and figures.median(ours) is not None:
        figures.add("overhead: sonde, 9999 Hz, a sample over the bare tick", figures.median(ours) - bare, "us")


def judge(figures):
    """Returns one line for each goal whose figure was measured."""
    lines = []
    for name, goal, less, others in GOALS:
        value = figures.median(name)
        if value is None:
            continue
        low, high = figures.bounds(name)
        beside = {other: figures.median(other) for other in others if figures.median(other) is not None}
        lines.append({"figure": name, "goal": goal, "less_is_better": less, "median": value, "lowest": low,
                      "highest": high, "reached": reached(value, goal, less), "peers": beside,
                      "ahead_of_us": [other for other, peer in beside.items() if is_ahead(peer, value, goal, less)],
                      "ratios": {other: peer / value for other, peer in beside.items() if value}})
    return lines


def show(figures, lines):
    print("\nmedian of all rounds")
    for name, row in sorted(figures.rows.items()):
        low, high = figures.bounds(name)
        print(f"  {name:<76} {figures.median(name):>12.3f}  {low:>12.3f} to {high:<12.3f} {row['unit']}")
    print("\ngoals")
    for line in lines:
        goal = " to ".join(str(part) for part in line["goal"]) if isinstance(line["goal"], tuple) else line["goal"]
        print(f"  {'ok ' if line['reached'] else 'NO '} {line['figure']:<72} {line['median']:>10.3f}  goal {goal}")
        for other, value in line["peers"].items():
            ratio = line["ratios"].get(other)
            times = f"{ratio:.2f} times ours" if ratio is not None else ""
            behind = "  AHEAD OF US" if other in line["ahead_of_us"] else ""
            print(f"        {other:<72} {value:>10.3f}  {times}{behind}")


def write(path, options, figures, lines, machine):
    document = {"machine": machine, "rounds": options.rounds, "quick": options.quick, "goals": lines,
                "figures": figures.rows, "output": figures.texts}
    with open(path, "w", encoding="utf-8") as out:
        json.dump(document, out, indent=1)
    print(f"\nall measurements: {path}")


def rounds(options, figures):
    """Runs every program once per round. Each round starts with a different program."""
    chosen = [each for each in PROGRAMS if not options.only or each[0] in options.only]
    for name, _, needed in chosen:
        if not os.path.exists(needed):
            print(f"{name} is left out: {needed} not found", file=sys.stderr)
    chosen = [each for each in chosen if os.path.exists(each[2])]
    for number in range(options.rounds):
        for at in range(len(chosen)):
            name, program, _ = chosen[(at + number) % len(chosen)]
            started = time.monotonic()
            try:
                figures.texts[name] = program(figures, QUICK if options.quick else FULL)
                outcome = ""
            except (RuntimeError, subprocess.TimeoutExpired, AttributeError) as error:
                outcome = f": {error}"  # a peer may hang; continue with the other programs
            print(f"round {number + 1} of {options.rounds}: {name}, {time.monotonic() - started:.0f} s{outcome}",
                  flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="run one short round, to check that everything works")
    parser.add_argument("--only", action="append", choices=[name for name, _, _ in PROGRAMS])
    parser.add_argument("--rounds", type=int, default=0, help="number of rounds (default 5, with --quick 1)")
    parser.add_argument("--out", default=os.path.join(os.environ.get("BUILD_WORKING_DIRECTORY", "."), "bench.json"))
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.out = os.path.join(os.environ.get("BUILD_WORKING_DIRECTORY", "."), options.out)
    machine, figures = peers.conditions(), Figures()
    print(", ".join(f"{key} {value}" for key, value in machine.items()), flush=True)
    rounds(options, figures)
    derive(figures)
    lines = judge(figures)
    show(figures, lines)
    write(options.out, options, figures, lines, machine)


main()
