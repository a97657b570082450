# SPDX-License-Identifier: Apache-2.0
"""Sampling from outside, next to perf in the same run: CPU time and memory for a machine of 200 processes of 60 programs at 19 Hz,
threads that live for a millisecond, the callers of frameless leaves, and the time from Enter to the file. History of a machine that is
busy: with two CPUs that never wait, with programs of more than 100 MB (ClickHouse, Chromium, node), and during a build of 20,000 short
processes in ten minutes.

    bazel run -c opt //tests/bench/host -- [--rounds N] [--seconds S] [--part NAME]... [--out FILE.jsonl]"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import time

from tests.bench import peers
from tests.cli import check
from tests.e2e import stack
from tests.rpc.history import clickhouse_server

PROGRAMS, PROCESSES = 60, 200
FUNCTIONS = 1500  # of each program, so that its tables and names have the size of a small server's
PARTS_OF_TIME = 6
WARM_S, WARM_HZ = 15, 999  # in which nearly all processes are seen once
HISTORY_WARM_S = 60        # the same at 19 Hz


def memory_mb(pids):
    """The memory of the processes, of which shared pages count in parts."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                total += int(re.search(r"^Pss: +(\d+)", file.read(), re.M).group(1))
        except OSError:
            pass  # a worker that has ended meanwhile
    return total / 1024


def used_mb(folder):
    return sum(os.stat(os.path.join(folder, name)).st_blocks * 512 for name in os.listdir(folder)) / 1e6


def family(pid):
    return [pid] + [child for child, _ in check.children(pid)]


# --- the machine: 200 processes of 60 programs, which work a little ---

def source():
    lines = ["#include <time.h>", "#include <unistd.h>", "static volatile unsigned sink;"]
    for i in range(FUNCTIONS):
        lines.append(f"__attribute__((noinline)) void work_{i}(unsigned x) {{ char room[{8 * (i % 50 + 1)}]; "
                     f"for (unsigned k = 0; k < x; k++) room[k % sizeof room] = (char)k; sink += room[x % sizeof room] + {i}u; }}")
    calls = " ".join(f"case {i}: work_{i}(2000); break;" for i in range(0, FUNCTIONS, 10))
    lines.append(f"int main(void) {{ for (unsigned n = (unsigned)getpid();; n += 10) {{ for (int i = 0; i < 100; i++, n += 10) "
                 f"switch (n % {FUNCTIONS}u / 10 * 10) {{ {calls} }} usleep(200000); }} }}")
    return "\n".join(lines)


def build_programs(folder):
    """Builds one program, and copies that differ in their build-ids: for Sonde and perf they are other programs."""
    first = os.path.join(folder, "program")
    subprocess.run(["gcc", "-O1", "-fomit-frame-pointer", "-Wl,--build-id", "-x", "c", "-o", first, "-"], input=source(),
                   text=True, check=True)
    notes = subprocess.run(["readelf", "-n", first], capture_output=True, text=True, check=True).stdout
    build_id = bytes.fromhex(re.search("Build ID: ([0-9a-f]+)", notes).group(1))
    with open(first, "rb") as file:
        content = file.read()
    for number in range(PROGRAMS):
        with open(f"{first}-{number}", "wb") as file:
            file.write(content.replace(build_id, bytes([number]) + build_id[1:]))
        os.chmod(f"{first}-{number}", 0o755)
    return [f"{first}-{number}" for number in range(PROGRAMS)]


class Machine:
    def __init__(self):
        programs = build_programs(stack.WORK)
        self.processes = [subprocess.Popen([programs[i % PROGRAMS]]) for i in range(PROCESSES)]

    def cpu_s(self):
        return sum(peers.cpu_s(process.pid) for process in self.processes)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


def measure_steadily(table, tool, machine, pid, seconds):
    """Adds a row for a profiler that runs already and has seen the processes. The median of several parts of the time is steady
    even if files are still being read in one of them."""
    rows = []
    for _ in range(PARTS_OF_TIME):
        before, work, began = peers.family_cpu_s(pid), machine.cpu_s(), time.monotonic()
        time.sleep(seconds / PARTS_OF_TIME)
        took = time.monotonic() - began
        rows.append((100 * (peers.family_cpu_s(pid) - before) / took, 100 * (machine.cpu_s() - work) / took))
    own, work = (peers.median(column) for column in zip(*rows))
    table.row(part="machine", tool=tool, own_cpu_percent=own, lowest=min(row[0] for row in rows),
              highest=max(row[0] for row in rows), own_memory_mb=memory_mb(family(pid)), machine_cpu_percent=work)


def sonde_on_machine(table, machine, seconds):
    sonde = peers.PerfCpu()
    path = f"{sonde.folder}/machine.pb.gz"
    try:
        before = memory_mb(family(sonde.sonded.pid))
        record = subprocess.Popen([stack.SONDE, "record", "--all", "-F", "19", "-d", "3600", "-o", path, "--service",
                                   sonde.address], env=stack.environment(), stdout=subprocess.DEVNULL)
        stack.sonde("record", "--all", "-F", str(WARM_HZ), "-d", str(WARM_S), "-o", path, "--service", sonde.address)
        measure_steadily(table, "perf-cpu", machine, sonde.sonded.pid, seconds)
        record.send_signal(signal.SIGINT)
        check.equal(record.wait(60), 0, "the status of sonde record")
        assert os.path.getsize(path) > 0
        table.row(part="machine", tool="sonded, idle before", own_cpu_percent=0.0, lowest=0.0, highest=0.0,
                  own_memory_mb=before, machine_cpu_percent=0.0)
    finally:
        sonde.close()


def seconds_until_visible(address):
    """From the start of a process to the first answer of the history that has its samples."""
    name = f"seen-{os.getpid()}"
    path = os.path.join(stack.WORK, name)
    shutil.copy(peers.DEMO, path)
    process = subprocess.Popen([path, "--threads", "1"], stdout=subprocess.DEVNULL)
    began = time.monotonic()
    asked = [stack.SONDE, "history", name, "--from", "-1m", "-o", "-", "--format", "collapsed", "--service", address]
    try:
        while "match_rules" not in subprocess.run(asked, env=stack.environment(), capture_output=True, text=True, check=False).stdout:
            assert time.monotonic() - began < 60
        return time.monotonic() - began
    finally:
        process.kill()
        process.wait()


def history_on_machine(table, machine, seconds, rounds, out):
    folder = check.short_folder()
    address = f"unix:{folder}/grpc.sock"
    sonded = subprocess.Popen([f"{stack.PREFIX}/bin/sonded", "--socket", f"{folder}/guest.sock", "--grpc", address, "--data-dir",
                               f"{folder}/data", "--history"], env=stack.environment(), stdout=subprocess.PIPE, text=True)
    assert "grpc: " in sonded.stdout.readline()
    began = time.monotonic()
    try:
        time.sleep(HISTORY_WARM_S)
        measure_steadily(table, "sonded --history", machine, sonded.pid, seconds)
        times = [seconds_until_visible(address) for _ in range(rounds)]
        check.stop(sonded)  # the journal of the store is rewritten again and again while it runs
        peers.Table("host history", out).row(part="history", store_mb=used_mb(f"{folder}/data/history"), recorded_s=time.monotonic() - began,
                                             visible_after_s=peers.median(times), lowest=min(times), highest=max(times))
    finally:
        check.stop(sonded)
        shutil.rmtree(folder, ignore_errors=True)


def perf_on_machine(table, machine, seconds):
    perf = subprocess.Popen(["perf", "record", "-q", "-a", "-g", "-e", "cpu-clock", "-F", "19", "-o",
                             os.path.join(stack.WORK, "machine.data")], stderr=subprocess.DEVNULL)
    try:
        time.sleep(WARM_S)
        measure_steadily(table, "perf record -a -g", machine, perf.pid, seconds)
    finally:
        perf.send_signal(signal.SIGINT)
        perf.wait()


def machine(tools, options):
    table = peers.Table("host machine", options.out)
    busy = Machine()
    try:
        sonde_on_machine(table, busy, options.seconds)
        history_on_machine(table, busy, options.seconds, options.rounds, options.out)
        perf_on_machine(table, busy, options.seconds)
    finally:
        busy.close()


# --- one process, with each tool in turn ---

def compare(tools, words, hz, rounds):
    runs = {tool.name: [] for tool in tools}
    for number in range(rounds):
        for tool in tools if number % 2 == 0 else reversed(tools):
            runs[tool.name].append(tool.profile(hz, words))
    return runs


def threads(tools, options):
    """Threads of a millisecond: samples times period over CPU time."""
    table = peers.Table("host threads", options.out)
    runs = compare(tools, ("--threads", "2", "--requests", "4000", "--short"), 99, options.rounds)
    for name, taken in runs.items():
        table.row(part="1 ms threads", tool=name, asked_hz=99,
                  delivered=peers.median(run.count() / (99 * run.process_cpu_s) for run in taken))


def leaves(tools, options):
    table = peers.Table("host leaves", options.out)
    runs = compare(tools, ("--threads", "2", "--requests", "40000"), 999, options.rounds)
    for name, taken in runs.items():
        table.row(part="frameless leaves", tool=name, asked_hz=999,
                  callers_percent=peers.median(100 * run.caller_share("match_rules", "apply_policy") for run in taken))


# --- from Enter to the file ---

def enter_with_sonde(pid):
    """Seconds beyond the capture's one, without a running sonded and without its tables on disk."""
    path = os.path.join(stack.WORK, "enter.collapsed")
    env = {**stack.environment(), "SONDE_DATA_DIR": check.short_folder()}
    began = time.monotonic()
    subprocess.run([stack.SONDE, "record", str(pid), "-d", "1", "-o", path], env=env, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    took = time.monotonic() - began - 1
    with open(path, encoding="utf-8") as file:
        check.contains(file.read(), "match_rules")
    return took


def enter_with_perf(pid):
    path = os.path.join(stack.WORK, "enter.data")
    began = time.monotonic()
    subprocess.run(["perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", "99", "-p", str(pid), "-o", path, "--", "sleep", "1"],
                   check=True, stderr=subprocess.DEVNULL)
    shown = subprocess.run(["perf", "report", "-i", path, "--stdio"], check=True, capture_output=True, text=True).stdout
    took = time.monotonic() - began - 1
    check.contains(shown, "match_rules")
    return took


def enter(tools, options):
    table = peers.Table("host enter", options.out)
    demo = subprocess.Popen([peers.DEMO, "--threads", "2"], stdout=subprocess.DEVNULL)
    try:
        taken = [(enter_with_sonde(demo.pid), enter_with_perf(demo.pid)) for _ in range(options.rounds)]
    finally:
        demo.kill()
        demo.wait()
    for name, times in zip(("sonde record", "perf record + report"), zip(*taken)):
        table.row(part="enter to file", tool=name, beyond_capture_s=peers.median(times), lowest=min(times), highest=max(times))


# --- history of a busy machine ---

BUILDS_AT_ONCE, BUILD_PROCESSES, BUILD_S = 2, 20000, 600


def start_large():
    """Whichever of the large programs are installed, at work for as long as the bench lasts."""
    folder = os.path.join(stack.WORK, "large")
    os.makedirs(folder, exist_ok=True)
    commands = {
        "chromium": ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}", "--remote-debugging-port=0",
                     "data:text/html,<script>setInterval(() => { for (let i = 0; i < 1e7; i++) Math.sin(i); }, 100)</script>"],
        "node": ["node", "-e", "setInterval(() => { for (let i = 0; i < 1e7; i++) Math.sin(i); }, 100)"],
    }
    return {name: subprocess.Popen(["nice", "-n", "19", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            for name, words in commands.items() if shutil.which(words[0])}


class Build:
    """A parallel build: short processes, one after the other, at the pace of 20,000 in ten minutes."""

    def __init__(self):
        source_file = os.path.join(stack.WORK, "unit.c")
        with open(source_file, "w", encoding="ascii") as file:
            file.write("\n".join(f"int f{i}(int x) {{ return x * {i}; }}" for i in range(200)))
        pause_s = BUILD_S / BUILD_PROCESSES * BUILDS_AT_ONCE * 4  # gcc is four processes: gcc, cc1, as, and what starts them
        line = f"while :; do gcc -c -O1 -o /dev/null {source_file}; sleep {pause_s}; done"
        self.loops = [subprocess.Popen(["bash", "-c", line], start_new_session=True) for _ in range(BUILDS_AT_ONCE)]

    def close(self):
        for loop in self.loops:
            os.killpg(loop.pid, signal.SIGKILL)
            loop.wait()


def rows_of(address):
    done = subprocess.run([stack.SONDE, "history", "--list", "--service", address], env=stack.environment(), capture_output=True, text=True,
                          check=False)
    return len(done.stdout.splitlines()) - 1


def history_beside(what, options, warm_s, close):
    """The rows of a sonded that records while the machine does `what`, and then ends that."""
    table = peers.Table(f"host history, {what}", options.out)
    folder = check.short_folder()
    address = f"unix:{folder}/grpc.sock"
    sonded = subprocess.Popen([f"{stack.PREFIX}/bin/sonded", "--socket", f"{folder}/guest.sock", "--grpc", address, "--data-dir",
                               f"{folder}/data", "--history"], env=stack.environment(), stdout=subprocess.PIPE, text=True)
    assert "grpc: " in sonded.stdout.readline()
    try:
        time.sleep(warm_s)
        before_mb, used, began = memory_mb(family(sonded.pid)), peers.family_cpu_s(sonded.pid), time.monotonic()
        time.sleep(options.seconds)
        took = time.monotonic() - began
        table.row(part=what, own_cpu_percent=100 * (peers.family_cpu_s(sonded.pid) - used) / took, own_memory_mb=memory_mb(family(sonded.pid)),
                  memory_before_mb=before_mb, services=rows_of(address))
        check.stop(sonded)
        peers.Table(f"host history, {what}, disk", options.out).row(part=what, store_mb=used_mb(f"{folder}/data/history"),
                                                                     recorded_s=time.monotonic() - began + warm_s)
    finally:
        check.stop(sonded)
        close()
        shutil.rmtree(folder, ignore_errors=True)


def busy(tools, options):
    burners = [subprocess.Popen([peers.DEMO, "--threads", "1"], stdout=subprocess.DEVNULL) for _ in range(2)]

    def close():
        for burner in burners:
            burner.kill()
            burner.wait()

    others = Machine()
    try:
        history_beside("two busy CPUs", options, options.warm, close)
    finally:
        others.close()


def large(tools, options):
    programs = start_large()
    try:
        server = clickhouse_server.ClickHouse()
        query = f"curl -s --data 'SELECT sum(sipHash64(number)) FROM numbers(10000000)' http://127.0.0.1:{server.port}/"
        programs["clickhouse"] = subprocess.Popen(["bash", "-c", f"while :; do {query}; sleep 0.2; done"], stdout=subprocess.DEVNULL,
                                                  start_new_session=True)
    except check.Skip:
        server = None

    def close():
        for program in programs.values():
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
        if server:
            server.kill()

    history_beside(f"large programs: {', '.join(programs)}", options, options.warm, close)


def build(tools, options):
    history_beside("build", options, options.warm, Build().close)


PARTS = {"enter": enter, "leaves": leaves, "threads": threads, "machine": machine, "busy": busy, "large": large, "build": build}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=60, help="how long the whole machine is sampled")
    parser.add_argument("--warm", type=int, default=HISTORY_WARM_S, help="how long history records before it is measured")
    parser.add_argument("--part", action="append", choices=PARTS, help="run only this part")
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    stack.install()
    tools = [tool for tool in peers.contenders() if not isinstance(tool, (peers.Gperftools, peers.PerfDwarf))]
    try:
        for name in options.part or PARTS:
            PARTS[name](tools, options)
    finally:
        peers.close(tools)


main()
