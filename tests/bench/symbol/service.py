# SPDX-License-Identifier: Apache-2.0
"""Resolves addresses through the whole service with warm tables: POST /debug/pprof/symbol with 1,000 addresses (G9), and
SymbolizeStream, whose answers are not decoded, because that would measure Python. Part of `bazel run //tests/bench/symbol`."""

import http.client
import os
import random
import re
import subprocess
import time

import grpc

from tests.cli import check
from tests.e2e import stack

UNIT = r"""
#include <algorithm>
#include <cstdio>
#include <map>
#include <regex>
#include <string>
#include <unistd.h>
template <int N> int work(int x) {
    std::map<std::string, int> m;
    for (int i = 0; i < x; i++)
        m[std::to_string(i % N)] += i;
    return std::regex_match("ab", std::regex("a+b*(c|d)" + std::to_string(N))) + (int)m.size();
}
int main(int argc, char **) {
    if (argc > 1)
        return work<3>(argc) + work<5>(argc) + work<7>(argc) + work<11>(argc);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
"""
POSTS, STREAMED, BATCH = 400, 1 << 20, 1 << 15
P99_MS = 5.0


def build():
    source, path = os.path.join(stack.WORK, "named.cc"), os.path.join(stack.WORK, "named")
    with open(source, "w", encoding="utf-8") as file:
        file.write(UNIT)
    subprocess.run(["g++", "-g", "-O2", source, "-o", path], check=True)
    return path


def draw(pid, path, count):
    """Random addresses in the program's own code."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        start, end = next(tuple(int(part, 16) for part in line.split()[0].split("-"))
                          for line in maps if " r-xp " in line and path in line)
    chance = random.Random(1)
    return [chance.randrange(start, end) for _ in range(count)]


def row(goal, what, value, unit, wanted=None):
    verdict = "" if wanted is None else f"<= {wanted:g}: {'met' if value <= wanted else 'MISSED'}"
    print(f"{goal:<4} {what:<60} {value:12.3f} {unit:<16} {verdict}".rstrip(), flush=True)


def cpu_s(pid):
    """The CPU time of a process so far, in seconds."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def helpers_cpu(server):
    return {name: cpu_s(pid) for name, pid in server.helpers().items()}


def measure_posts(server, wanted):
    body = "+".join(map(hex, wanted)).encode()
    times, before = [], helpers_cpu(server)
    connection = http.client.HTTPConnection(server.host, timeout=60)
    for _ in range(POSTS):
        started = time.monotonic()
        connection.request("POST", "/debug/pprof/symbol", body=body)
        response = connection.getresponse()
        answer = response.read()
        times.append(time.monotonic() - started)
        assert response.status == 200 and answer.count(b"\n") >= len(wanted)
    connection.close()
    for name, after in helpers_cpu(server).items():
        row("G9", f"POST of {len(wanted)} addresses, {name}", 1e3 * (after - before[name]) / POSTS, "ms CPU")
    row("", "    size of an answer (names of C++ templates are long)", len(answer) / 1e3, "kB")
    times.sort()
    row("G9", f"POST of {len(wanted)} addresses, p50 of {POSTS}", 1e3 * times[len(times) // 2], "ms")
    row("G9", f"POST of {len(wanted)} addresses, p99 of {POSTS}", 1e3 * times[len(times) * 99 // 100], "ms", P99_MS)


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def request(pid, wanted):
    """A SymbolizeRequest: target {pid}, addresses."""
    target, packed = b"\x10" + varint(pid), b"".join(map(varint, wanted))
    return b"\x0a" + varint(len(target)) + target + b"\x12" + varint(len(packed)) + packed


def measure_stream(address, pid, wanted):
    batch = request(pid, wanted)
    with grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)]) as channel:
        call = channel.stream_stream("/sonde.v1.Profiler/SymbolizeStream")
        started = time.monotonic()
        sizes = [len(answer) for answer in call(iter([batch] * (STREAMED // len(wanted))), timeout=120)]
        took = time.monotonic() - started
    row("", f"SymbolizeStream, batches of {len(wanted)}", STREAMED / took / 1e6, "M addresses/s")
    row("", "    its answers", sum(sizes) / STREAMED, "bytes/address")


def main():
    stack.install()
    path = build()
    with stack.Server(path, flags=("--grpc", "127.0.0.1:0"), ready="ready") as server:
        wanted = draw(server.pid, path, BATCH)
        stack.sonde("symbol", str(server.pid), hex(wanted[0]), "--wait-ms", "14000")
        measure_posts(server, wanted[:1000])
        grpc_line = check.until(lambda: next((line for line in server.err if line.startswith("grpc: ")), None),
                                what="the address of gRPC")
        measure_stream(re.match(r"grpc: (\S+)", grpc_line).group(1), server.pid, wanted)


main()
