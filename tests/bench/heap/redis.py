# SPDX-License-Identifier: Apache-2.0
"""What heap profiling costs a server (H3): redis under redis-benchmark with jemalloc's sampling off and on, in turns.

    bazel run //tests/bench/heap:redis -- [--rounds N] [--requests N]

Prints each throughput, the ratio of the medians, and the median of the ratios of neighbours, which a drifting machine
disturbs less. Goal: within 1 %."""

import argparse
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


def switch(server, path):
    status, _, body = server.get(path)
    check.equal(status, 200, body.decode())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--requests", type=int, default=1200000)
    asked = parser.parse_args()
    stack.install()
    port, off, on = free_port(), [], []
    command = ("redis-server", "--port", port, "--save", "", "--dir", stack.WORK)
    with stack.Server(*command, flags=("--heap",), ready="Ready to accept connections") as server:
        requests_per_second(port, asked.requests)  # the keys are there from now on
        for number in range(asked.rounds):
            off.append(requests_per_second(port, asked.requests))
            switch(server, "/debug/pprof/heap_activate")
            on.append(requests_per_second(port, asked.requests))
            switch(server, "/debug/pprof/heap_deactivate")
            print(f"round {number + 1}: off {off[-1]:9.0f}  on {on[-1]:9.0f} requests/s", flush=True)
    pairs = statistics.median(after / before for before, after in zip(off, on))
    print(f"medians: on is {statistics.median(on) / statistics.median(off):.4f} of off; of pairs: {pairs:.4f}"
          "  (goal >= 0.99)")


main()
