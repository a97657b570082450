#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What REST adds to an RPC: bazel run -c opt //tests/bench/gateway -- [--rounds N] [--seconds S] [--out FILE].

Measures four servers, interleaved in one run: the RPC itself (our C client over a unix socket), the same RPC through
sonde-gateway, through Debian's golang-grpc-gateway in front of the same service, and the same bytes served by h2o alone. Then
streams a large result through each. Prints medians and goals; --out appends one JSON line. Needs wrk; the Go gateway needs
golang-go, golang-github-grpc-ecosystem-grpc-gateway-dev, golang-google-grpc-dev and protobuf-compiler, and is left out without
them. Absolute figures need a quiet machine; ratios do not."""

import argparse
import atexit
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

RUNFILES = os.getcwd()
FOLDER = tempfile.mkdtemp(prefix="x.")
CONCURRENCIES = (1, 16, 64)
RESULT_STACKS, RESULT_NAME = 20000, 4000  # 80 MB of collapsed text
RATIOS = {"p50_over_go": (1, "p50_us"), "rps_16_over_go": (16, "rps"), "rps_64_over_go": (64, "rps"),
          "stream_over_go": ("stream", "gb_s")}
GOALS = {"p50_over_go": ("<", 1.0), "rps_16_over_go": (">", 1.0), "rps_64_over_go": (">", 1.0), "stream_over_go": (">", 1.0),
         "stream_gb_s": (">=", 1.0)}
processes = []


def clean_up():
    for process in processes:
        process.kill()
        process.wait()
    shutil.rmtree(FOLDER, ignore_errors=True)


def start(*command):
    """Starts a server and returns the address it prints: "http: URL" or "grpc: ADDR"."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    processes.append(process)
    line = process.stdout.readline()
    assert ": " in line, f"{command[0]} did not start"
    return line.split(": ", 1)[1].strip()


def build_peer():
    """Generates and builds the Go gateway; None if its packages are missing."""
    sources = os.path.join(RUNFILES, "tests/bench/gateway")
    env = dict(os.environ, GOPATH=f"{FOLDER}/go:/usr/share/gocode", GO111MODULE="off", GOCACHE=f"{FOLDER}/cache", GOFLAGS="",
               HOME=FOLDER)
    os.makedirs(f"{FOLDER}/go/src")
    shutil.copyfile(f"{sources}/peer.go", f"{FOLDER}/peer.go")
    plugin, peer = f"{FOLDER}/protoc-gen-grpc-gateway", f"{FOLDER}/peer"
    steps = [["go", "build", "-o", plugin, "github.com/grpc-ecosystem/grpc-gateway/protoc-gen-grpc-gateway"],
             ["protoc", f"-I{os.path.realpath(RUNFILES)}/proto", f"--plugin=protoc-gen-grpc-gateway={plugin}",
              f"--go_out=plugins=grpc:{FOLDER}/go/src",
              f"--grpc-gateway_out=grpc_api_configuration={sources}/peer.yaml:{FOLDER}/go/src", "sonde/v1/profiler.proto"],
             ["go", "build", "-o", peer, f"{FOLDER}/peer.go"]]
    for step in steps:
        try:
            done = subprocess.run(step, env=env, capture_output=True, text=True, check=False, cwd=RUNFILES)
        except FileNotFoundError as missing:
            print(f"no peer: {missing}")
            return None
        if done.returncode != 0:
            print("no peer:", done.stderr.strip()[-300:])
            return None
    return peer


def rpc(address, concurrency, seconds):
    done = subprocess.run([f"{RUNFILES}/tests/bench/rpc/rpc_load", address, "ListTargets", str(concurrency), str(seconds)],
                          capture_output=True, text=True, check=True)
    row = json.loads(done.stdout)
    return {"rps": row["calls_per_s"], "p50_us": row["p50_us"], "p99_us": row["p99_us"]}


def micro(text):
    value, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return float(value) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def http(url, concurrency, seconds):
    done = subprocess.run(["wrk", "-t1", f"-c{concurrency}", f"-d{max(1, round(seconds))}s", "--latency", url],
                          capture_output=True, text=True, check=True)
    assert "Non-2xx" not in done.stdout, done.stdout
    found = dict(re.findall(r"^\s+(50|99)%\s+(\S+)", done.stdout, re.M))
    return {"rps": float(re.search(r"Requests/sec:\s+([\d.]+)", done.stdout).group(1)), "p50_us": micro(found["50"]),
            "p99_us": micro(found["99"])}


def stream(url):
    """The throughput of a body in GB/s, from its first to its last byte."""
    form = "%{http_code} %{size_download} %{time_starttransfer} %{time_total}"
    done = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", form, url], capture_output=True, text=True, check=True)
    code, size, began, ended = done.stdout.split()
    assert code == "200" and int(size) > 1 << 20, done.stdout
    return {"gb_s": int(size) / (float(ended) - float(began)) / 1e9, "bytes": int(size)}


def medians(rows):
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def serve_small(peer):
    """Starts the service and the servers in front of it; returns a measuring function for each."""
    service = start(f"{RUNFILES}/tests/rpc/clients/fake_server", "--grpc", f"unix:{FOLDER}/small")
    ours = start(f"{RUNFILES}/gateway/sonde-gateway", "--quiet", "--listen", "127.0.0.1:0", "--service", service)
    with open(f"{FOLDER}/answer", "wb") as out:
        out.write(subprocess.run(["curl", "-s", f"{ours}/v1/targets"], capture_output=True, check=True).stdout)
    floor = start(f"{RUNFILES}/tests/bench/gateway/floor", f"{FOLDER}/answer")
    subjects = {"direct": lambda c, s: rpc(service, c, s),
                "gateway": lambda c, s: http(f"{ours}/v1/targets", c, s), "h2o": lambda c, s: http(floor, c, s)}
    if peer:
        go = start(peer, service)
        subjects["grpc-gateway"] = lambda c, s: http(f"{go}/v1/targets", c, s)
    return subjects


def serve_large(peer):
    service = start(f"{RUNFILES}/tests/rpc/clients/fake_server", "--grpc", f"unix:{FOLDER}/large", "--stacks", str(RESULT_STACKS),
                    "--name-len", str(RESULT_NAME))
    ours = start(f"{RUNFILES}/gateway/sonde-gateway", "--quiet", "--listen", "127.0.0.1:0", "--service", service)
    with open(f"{FOLDER}/body", "wb") as out:
        out.write(os.urandom(60 << 20))
    floor = start(f"{RUNFILES}/tests/bench/gateway/floor", f"{FOLDER}/body")
    subjects = {"gateway": f"{ours}/debug/pprof/profile?seconds=1&output=collapsed", "h2o": floor}
    if peer:
        subjects["grpc-gateway"] = start(peer, service) + \
            "/v1/capture?duration_ms=1000&no_progress=true&rendering.format=COLLAPSED"
    return subjects


def measure(options, peer):
    rows = {}
    small, large = serve_small(peer), serve_large(peer)
    for number in range(options.rounds):
        for concurrency in CONCURRENCIES:
            for name, subject in small.items():
                rows.setdefault((name, concurrency), []).append(subject(concurrency, options.seconds))
        for name, url in large.items():
            rows.setdefault((name, "stream"), []).append(stream(url))
        print(f"round {number + 1} of {options.rounds}, load {os.getloadavg()[0]:.1f}", flush=True)
    return {key: medians(found) for key, found in rows.items()}


def show(rows):
    print(f"\n{'':14}" + "".join(f"{f'c={c}: rps':>12}{'p50 us':>9}{'p99 us':>9}" for c in CONCURRENCIES) + f"{'stream GB/s':>13}")
    for name in ("direct", "gateway", "grpc-gateway", "h2o"):
        cells = [rows.get((name, c)) for c in CONCURRENCIES]
        if not any(cells):
            continue
        line = "".join(f"{cell['rps']:12.0f}{cell['p50_us']:9.0f}{cell['p99_us']:9.0f}" for cell in cells)
        flow = rows.get((name, "stream"))
        print(f"{name:14}{line}{flow['gb_s']:13.2f}" if flow else f"{name:14}{line}{'':>13}")


def goals(rows):
    """Prints each goal. The ratios are relative to the Go gateway in the same run, so without it they are not measured."""
    found = {"stream_gb_s": rows["gateway", "stream"]["gb_s"]}
    if ("grpc-gateway", 1) in rows:
        for name, (what, figure) in RATIOS.items():
            found[name] = rows["gateway", what][figure] / rows["grpc-gateway", what][figure]
    print()
    for name, (sign, goal) in GOALS.items():
        if name not in found:
            print(f"{name:20} not measured: the Go gateway is missing")
            continue
        met = found[name] < goal if sign == "<" else found[name] > goal if sign == ">" else found[name] >= goal
        print(f"{name:20} {found[name]:8.2f}  goal {sign} {goal}  {'met' if met else 'NOT met'}")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--out")
    options = parser.parse_args()
    out = os.path.join(os.environ.get("BUILD_WORKING_DIRECTORY", "."), options.out) if options.out else None
    if not shutil.which("wrk"):
        sys.exit("wrk is missing: apt-get install wrk")
    rows = measure(options, build_peer())
    show(rows)
    found = goals(rows)
    if out:
        with open(out, "a", encoding="utf-8") as file:
            file.write(json.dumps({"bench": "gateway", "unix_s": int(time.time()), "load": os.getloadavg()[0], "found": found,
                                   "rows": {f"{name}/{what}": row for (name, what), row in rows.items()}}) + "\n")


atexit.register(clean_up)
main()
