# SPDX-License-Identifier: Apache-2.0
"""The profilers that the benchmarks compare, each as a class: profile() profiles the demo server at a rate and returns the CPU time
that it took and the samples. Needs the demo and an installed Sonde."""

import json
import os
import re
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import time

from tests.cli import check
from tests.e2e import stack

DEMO = os.path.abspath("clients/demo/demo")
DELAY_S = 1.5  # the demo sleeps first, so that the profiler has time to attach


NOBODY = 65534


class Run:
    """The result of one run of the demo: its CPU time by its own clocks, the CPU time of the profiler's own processes while it ran,
    and samples as (leaf, caller) -> count."""

    def __init__(self, output, samples=None, profiler_cpu_s=0.0):
        words = re.search(r"cpu_ns (\d+), process_cpu_ns (\d+)", output)
        self.cpu_s = int(words.group(1)) / 1e9
        self.process_cpu_s = int(words.group(2)) / 1e9
        self.samples = samples or {}
        self.profiler_cpu_s = profiler_cpu_s

    def count(self):
        return sum(self.samples.values())

    def of(self, leaf):
        return sum(count for (name, _), count in self.samples.items() if name == leaf)

    def caller_share(self, leaf, caller):
        """The share of the samples in `leaf` whose caller is `caller`."""
        of_leaf = {pair: count for pair, count in self.samples.items() if pair[0] == leaf}
        return of_leaf.get((leaf, caller), 0) / max(sum(of_leaf.values()), 1)


def add(samples, leaf, caller, count):
    samples[leaf, caller] = samples.get((leaf, caller), 0) + count


def run_demo(words, env=None, before=()):
    done = subprocess.run([*before, DEMO, "--delay", str(DELAY_S), *words], env={**stack.environment(), **(env or {})},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Nothing:
    """The baseline: a run without a profiler."""
    name = "nothing"

    def profile(self, hz, words):
        return Run(run_demo(words))


def cpu_s(pid):
    """The CPU time of a running process."""
    return time.clock_gettime((~pid << 3) | 2)


def family_cpu_s(pid):
    """The CPU time of a process and of its children, also of those that have ended."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
        ended = stat.read().rsplit(")", 1)[1].split()[13:15]
    running = 0.0
    for child, _ in check.children(pid):
        try:
            running += cpu_s(child)
        except OSError:
            pass  # ended meanwhile: in the next reading
    return cpu_s(pid) + running + sum(map(int, ended)) / 100


class Sonde:
    """Ticks of the guest in the target."""
    name = "sonde"
    source = "guest"
    user = ()

    def __init__(self):
        self.folder = check.short_folder()
        os.chmod(self.folder, 0o755)
        if self.user:
            os.chown(self.folder, NOBODY, NOBODY)
        self.address = f"unix:{self.folder}/grpc.sock"
        self.sonded = subprocess.Popen(
            [*self.user, f"{stack.PREFIX}/bin/sonded", "--socket", f"{self.folder}/guest.sock", "--grpc", self.address,
             "--data-dir", f"{self.folder}/data"], env=stack.environment(), stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)
        assert self.sonded.stdout.readline().startswith("grpc: ")

    def attached(self, pid):
        listed = json.loads(stack.sonde("targets", "--json", "--service", self.address)[0])["targets"]
        return any(target["pid"] == pid for target in listed)

    def start(self, words):
        env = {**stack.environment(), "LD_PRELOAD": f"{stack.PREFIX}/lib/libsonde.so",
               "SONDE_SOCKET": f"{self.folder}/guest.sock"}
        demo = subprocess.Popen([DEMO, "--delay", str(DELAY_S), *words], env=env, stdout=subprocess.PIPE, text=True)
        check.until(lambda: self.attached(demo.pid), what="the attached demo")
        return demo

    def profile(self, hz, words):
        demo = self.start(words)
        stacks = f"{self.folder}/stacks.collapsed"
        before = family_cpu_s(self.sonded.pid)
        summary = stack.sonde("record", str(demo.pid), "-d", "3600", "-F", str(hz), "-o", stacks, "--source", self.source,
                              "--service", self.address, "--json", timeout=600)[0]
        used = family_cpu_s(self.sonded.pid) - before
        output, _ = demo.communicate(timeout=60)
        self.check(json.loads(summary))
        return Run(output, self.read(stacks), used)

    def check(self, summary):
        pass

    @staticmethod
    def read(path):
        samples = {}
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                frames, count = line.rsplit(" ", 1)
                frames = frames.split(";")
                add(samples, frames[-1], frames[-2] if len(frames) > 1 else "", int(count))
        return samples

    def close(self):
        check.stop(self.sonded)
        shutil.rmtree(self.folder, ignore_errors=True)


class PerfCpu(Sonde):
    """Samples from outside, by the clocks of all CPUs."""
    name = "perf-cpu"
    source = "host"

    def start(self, words):
        return subprocess.Popen([*self.user, self.demo(), "--delay", str(DELAY_S), *words], env=stack.environment(),
                                stdout=subprocess.PIPE, text=True)

    def demo(self):
        return DEMO

    def check(self, summary):
        check.equal(summary["clock"], self.name, "the clock")


class PerfTask(PerfCpu):
    """Samples from outside by an ordinary user, who may only sample his own processes, by the clocks of their threads."""
    name = "perf-task"
    user = ("setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups")

    def __init__(self):
        if os.geteuid() != 0:
            raise check.Skip("needs root to become another user")
        for folder in (stack.WORK, os.path.dirname(stack.WORK)):
            os.chmod(folder, os.stat(folder).st_mode | 0o711)
        super().__init__()
        shutil.copy(DEMO, self.demo())

    def demo(self):
        return f"{self.folder}/demo"  # bazel's folders are closed to other users


class Symbols:
    """The demo's functions by address, from nm."""

    def __init__(self):
        listing = subprocess.run(["nm", "-n", DEMO], capture_output=True, text=True, check=True).stdout
        self.rows = [(int(line[:16], 16), line.split()[2]) for line in listing.splitlines()
                     if re.match(r"[0-9a-f]{16} [tT] ", line)]

    def name(self, address):
        found = ""
        for start, name in self.rows:
            if start > address:
                break
            found = name
        return found


class Gperftools:
    """gperftools' libprofiler, preloaded: setitimer, and libunwind in the signal handler."""
    name = "gperftools"
    library = "/usr/lib/x86_64-linux-gnu/libprofiler.so.0"

    def __init__(self):
        if not os.path.exists(self.library):
            raise check.Skip("google-perftools is not installed")
        self.symbols = Symbols()

    def profile(self, hz, words):
        path = os.path.join(stack.WORK, "gperftools.prof")
        env = {"LD_PRELOAD": self.library, "CPUPROFILE": path, "CPUPROFILE_FREQUENCY": str(min(hz, 4000))}
        output = run_demo(words, env)
        with open(path, "rb") as profile:
            return Run(output, self.read(profile.read()))

    def read(self, data):
        """Words of 8 bytes: 0 3 0 period 0; then count depth pc...; the trailer 0 1 0; then /proc/self/maps."""
        at, samples, raw = 40, {}, []
        while True:
            count, depth = struct.unpack_from("<QQ", data, at)
            pcs = struct.unpack_from(f"<{depth}Q", data, at + 16)
            at += 16 + 8 * depth
            if count == 0:
                break
            raw.append((count, pcs))
        maps = data[at:].decode("utf-8", "replace").splitlines()
        base = next(int(line.split("-")[0], 16) for line in maps if line.endswith("/demo"))
        for count, pcs in raw:
            names = [self.symbols.name(pc - base) for pc in pcs[:2]] + [""]
            add(samples, names[0], names[1], count)
        return samples


class PerfRecord:
    """perf record -g: the kernel's ring buffer, and stacks by frame pointers."""
    name = "perf record -g"
    graph = ("-g",)
    most_hz = 10000

    def __init__(self):
        if not shutil.which("perf"):
            raise check.Skip("linux-perf is not installed")

    def profile(self, hz, words):
        path = os.path.join(stack.WORK, "perf.data")
        command = ("perf", "record", "-q", "-e", "cpu-clock", *self.graph, "-F", str(hz), "-o", path, "--")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        output = run_demo(words, before=command)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        script = subprocess.run(["perf", "script", "-i", path, "-F", "ip,sym"], capture_output=True, text=True,
                                check=True).stdout
        run = Run(output, self.read(script))
        run.profiler_cpu_s = used - run.process_cpu_s
        return run

    @staticmethod
    def read(script):
        samples = {}
        for block in script.split("\n\n"):
            frames = [line.split()[-1] for line in block.splitlines() if line.strip()]
            if frames:
                add(samples, frames[0], frames[1] if len(frames) > 1 else "", 1)
        return samples


class PerfDwarf(PerfRecord):
    """perf record with 8 KiB of each stack copied and unwound later. Above 1,000 Hz that is gigabytes of data."""
    name = "perf record --call-graph dwarf"
    graph = ("--call-graph", "dwarf,8192")
    most_hz = 1000


def contenders():
    """Returns Sonde with its sources and every peer that is installed, and prints which are missing."""
    found = [Sonde()]
    for peer in (PerfCpu, PerfTask, Gperftools, PerfRecord, PerfDwarf):
        try:
            found.append(peer())
        except check.Skip as reason:
            print(f"without {peer.name}: {reason}", file=sys.stderr)
    return found


def close(tools):
    for tool in tools:
        if hasattr(tool, "close"):
            tool.close()


def conditions():
    def read(path):
        try:
            with open(path, encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""
    model = re.search(r"model name\s*: (.*)", read("/proc/cpuinfo"))
    return {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "cores": os.cpu_count(),
            "cpu": model.group(1) if model else "", "kernel": os.uname().release, "load": os.getloadavg()[0],
            "perf_event_paranoid": read("/proc/sys/kernel/perf_event_paranoid")}


class Table:
    """Prints rows as they are added, and appends them to a file as JSON lines."""

    def __init__(self, name, path):
        self.name, self.conditions, self.shown = name, conditions(), False
        self.file = open(path, "a", encoding="utf-8") if path else None
        print(", ".join(f"{key} {value}" for key, value in self.conditions.items()))

    def row(self, **cells):
        if not self.shown:
            print("  ".join(f"{key:>16}" for key in cells))
            self.shown = True
        print("  ".join(f"{cell:>16.3f}" if isinstance(cell, float) else f"{cell!s:>16}" for cell in cells.values()),
              flush=True)
        if self.file:
            self.file.write(json.dumps({"bench": self.name, **cells, "conditions": self.conditions}) + "\n")
            self.file.flush()


median = statistics.median
