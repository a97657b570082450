# SPDX-License-Identifier: Apache-2.0
"""What heap profiling costs a server (H3): its throughput with jemalloc's sampling off and on, in turns. The server is redis, with
redis-benchmark, or h2o (the gateway's HTTP server, with jemalloc), with wrk.

    bazel run //tests/bench/heap:redis -- [--load redis|h2o] [--rounds N] [--requests N]

Prints the throughput and the CPU time per request, the ratio of the medians, and the median of the ratios of neighbouring rounds,
which varies less when the machine's speed drifts. CPU time depends least on other programs. Goal: within 1 %."""

import argparse
import glob
import re
import socket
import statistics
import subprocess

from tests.cli import check
from tests.e2e import stack


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def requests_per_second(port, requests):
    said = subprocess.run(["redis-benchmark", "-p", port, "-t", "set", "-n", str(requests), "-P", "16", "-c", "16",
                           "-r", "100000", "-d", "200", "-q"], capture_output=True, text=True, check=True).stdout
    return float(re.findall(r"([\d.]+) requests per second", said)[-1])


class Redis:
    """redis, with redis-benchmark setting keys of 200 bytes."""

    def __init__(self, requests):
        self.port, self.requests = free_port(), requests
        self.command = ("redis-server", "--port", self.port, "--save", "", "--dir", stack.WORK)
        self.ready = "Ready to accept connections"

    def measure(self):
        """Returns the requests per second and their number."""
        return requests_per_second(self.port, self.requests), self.requests


class H2o:
    """h2o, with wrk fetching a page of 45 kB over persistent connections."""

    def __init__(self, requests):
        self.port, self.ready = free_port(), None
        self.seconds = max(1, requests // 240000)
        self.command = (f"{stack.PREFIX}/bin/sonde-gateway", "--listen", f"127.0.0.1:{self.port}", "--service",
                        f"unix:{stack.WORK}/nobody")

    def measure(self):
        said = subprocess.run(["wrk", "-t1", "-c16", f"-d{self.seconds}s", f"http://127.0.0.1:{self.port}/openapi.yaml"],
                              capture_output=True, text=True, check=True).stdout
        return (float(re.search(r"Requests/sec:\s+([\d.]+)", said)[1]),
                int(re.search(r"(\d+) requests in", said)[1]))


def pid_of(server, load):
    """The pid of the server's process: the child with the port in its command line, because another gateway may run."""
    for pid, _ in check.children(server.process.pid):
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            if load.port in file.read():
                return pid
    return server.pid  # redis replaces its command line by its state


def cpu_us(pid):
    """CPU time of all living threads of a process, in us."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path, encoding="ascii") as file:
            total += int(file.read().split()[0]) / 1000
    return total


def measure(pid, load):
    """Returns the requests per second and the CPU time per request in us."""
    before = cpu_us(pid)
    rate, count = load.measure()
    return rate, (cpu_us(pid) - before) / count


def report(what, off, on, goal):
    pairs = statistics.median(after / before for before, after in zip(off, on))
    print(f"{what}: on is {statistics.median(on) / statistics.median(off):.4f} of off; of pairs: {pairs:.4f}  ({goal})")


def switch(server, path):
    status, _, body = server.get(path)
    check.equal(status, 200, body.decode())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", choices=("redis", "h2o"), default="redis")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--requests", type=int, default=1200000)
    asked = parser.parse_args()
    stack.install()
    load, off, on = (Redis if asked.load == "redis" else H2o)(asked.requests), [], []
    with stack.Server(*load.command, flags=("--heap",), ready=load.ready) as server:
        pid = pid_of(server, load)
        measure(pid, load)  # creates the keys
        switch(server, "/debug/pprof/heap_activate")  # builds the unwind tables
        measure(pid, load)
        switch(server, "/debug/pprof/heap_deactivate")
        for number in range(asked.rounds):
            off.append(measure(pid, load))
            switch(server, "/debug/pprof/heap_activate")
            on.append(measure(pid, load))
            switch(server, "/debug/pprof/heap_deactivate")
            print(f"round {number + 1}: off {off[-1][0]:9.0f}  on {on[-1][0]:9.0f} requests/s, {off[-1][1]:7.3f} and "
                  f"{on[-1][1]:7.3f} us of CPU per request", flush=True)
    report("requests/s", [rate for rate, _ in off], [rate for rate, _ in on], "goal >= 0.99")
    report("CPU per request", [cpu for _, cpu in off], [cpu for _, cpu in on], "goal <= 1.01")


main()
