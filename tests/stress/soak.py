#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The soak test: soak.py --gateway BIN --sonded BIN --guest SO --target BIN [--rounds N] [--targets N] [--crowds N] [--out FILE].

Runs rounds of clients of every kind, most of which disconnect at a bad moment. After each round, no capture or stream may be
left, and gateway, sonded and targets must have closed their descriptors; memory must not grow from round to round. Then it runs
a thousand captures at once, several times if --crowds says so: each target accepts 64 captures and refuses the next with 429."""

import argparse
import json
import os
import random
import resource
import selectors
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path[:0] = [os.path.abspath("clients/python"), os.path.abspath("tests/rest")]
import frames as h2  # noqa: E402
import sonde_client  # noqa: E402

WARM_ROUNDS = 3
CAPTURES_PER_TARGET = 64
GROWTH_MB = {"gateway": 6, "sonded": 12, "target": 2}  # allowed from the warm-up rounds to the last ones
LEAVE_AT = (0.1, 0.5, 0.99)  # seconds into a capture of one second, or into its answer


class Process:
    def __init__(self, kind, command, env=None, ready=None):
        self.kind = kind
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                      env={**os.environ, **(env or {})})
        self.said = ""
        while ready and not self.said.startswith(ready):
            self.said = self.child.stdout.readline()
            assert self.said, f"{command[0]} did not start"

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.child.pid}/fd"))

    def memory_mb(self):
        with open(f"/proc/{self.child.pid}/status", encoding="ascii") as text:
            return int(next(line for line in text if line.startswith("VmRSS")).split()[1]) / 1024

    def end(self, kill=False):
        if kill:
            self.child.kill()
        else:
            self.child.terminate()
        return self.child.wait(timeout=30)


class Stage:
    def __init__(self, options):
        self.folder = tempfile.mkdtemp(prefix="x.")
        guest = f"{self.folder}/guest"
        self.address = f"unix:{self.folder}/grpc"
        self.sonded = Process("sonded", [options.sonded, "--socket", guest, "--grpc", self.address, "--data-dir",
                                         f"{self.folder}/data"], ready="grpc: ")
        self.gateway = Process("gateway", [options.gateway, "--quiet", "--listen", "127.0.0.1:0", "--service", self.address],
                               ready="http: ")
        self.port = int(self.gateway.said.rsplit(":", 1)[1])
        self.names = [f"target{n}" for n in range(options.targets)]
        busy, idle = ["--threads", "1"], ["--delay", "3600"]
        self.targets = [Process("target", [options.target, *(idle if n else busy)],
                                {"LD_PRELOAD": options.guest, "SONDE_SOCKET": guest, "SONDE_NAME": name})
                        for n, name in enumerate(self.names)]
        try:
            until(lambda: self.ask("/v1/targets").count('"uuid"') == len(self.targets), "the targets attach")
        except BaseException:
            self.close()
            raise

    def everybody(self):
        return [self.gateway, self.sonded, *self.targets]

    def connect(self, receive_buffer=0):
        client = socket.socket()
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(20)
        client.connect(("127.0.0.1", self.port))
        return client

    def ask(self, path, more=""):
        with self.connect() as client:
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n".encode())
            return read_all(client).decode(errors="replace")

    def info(self):
        return json.loads(self.ask("/v1/info").split("\r\n\r\n", 1)[1])

    def close(self):
        for target in self.targets:
            target.end(kill=True)
        statuses = [self.gateway.end(), self.sonded.end()]
        shutil.rmtree(self.folder, ignore_errors=True)
        assert statuses == [0, 0], f"gateway and sonded ended with {statuses}"


def until(condition, what, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.05)


def read_all(client):
    got = b""
    while more := client.recv(1 << 16):
        got += more
    return got


def leave(client, dice):
    """Resets the connection, closes it, or shuts down one direction before closing it."""
    how = dice.random()
    if how < 0.5:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif how < 0.7:
        client.shutdown(socket.SHUT_WR)
        time.sleep(0.05)
    client.close()


def path_of(stage, dice, seconds=1):
    name = dice.choice(stage.names)
    return f"/t/{name}" + dice.choice([
        f"/debug/pprof/profile?seconds={seconds}", f"/debug/pprof/profile?seconds={seconds}&output=proto&frequency=999",
        f"/profile?duration={seconds}&pprof=false", f"/pprof/profile?seconds={seconds}"])


# The clients. Each function is one client; `dice` decides the details.

def reads_to_the_end(stage, dice):
    assert stage.ask(path_of(stage, dice)).startswith("HTTP/1.1 200"), "a whole capture failed"


def looks_around(stage, dice):
    name = dice.choice(stage.names)
    for path in dice.sample(["/", "/metrics", "/v1/targets", f"/t/{name}/debug/pprof/cmdline", "/healthz", "/nothing",
                             f"/t/{name}/debug/pprof/heap_list", f"/t/{name}/debug/prof/mem/status"], 3):
        stage.ask(path)


def leaves_a_capture(stage, dice):
    client = stage.connect()
    client.sendall(f"GET {path_of(stage, dice)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    time.sleep(dice.choice(LEAVE_AT))
    leave(client, dice)


def leaves_an_answer(stage, dice):
    client = stage.connect(receive_buffer=4096)
    client.sendall(f"GET {path_of(stage, dice)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    client.recv(dice.choice([1, 200, 4000]))
    time.sleep(dice.choice([0, 0.2]))
    leave(client, dice)


def leaves_a_live_stream(stage, dice):
    client = stage.connect(receive_buffer=4096)
    client.sendall(f"GET /t/{dice.choice(stage.names)}/v1/cpu/live?window=50 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    client.recv(100)
    time.sleep(dice.choice([0, 0.3, 0.8]))
    leave(client, dice)


def resets_over_http2(stage, dice):
    with h2.Connection(("127.0.0.1", stage.port)) as client:
        streams = range(1, 13, 2)
        client.say(b"".join(h2.get(n, path_of(stage, dice)) for n in streams))
        time.sleep(dice.choice(LEAVE_AT))
        client.say(b"".join(h2.reset(n) for n in streams if dice.random() < 0.7))
        if dice.random() < 0.5:
            time.sleep(0.3)


def cancels_over_grpc(stage, dice):
    service = sonde_client.Service(stage.address)
    target = {"name": dice.choice(stage.names)}
    streams = [service.CaptureCpu(target=target, duration_ms=1000), service.StreamCpu(target=target, window_ms=50),
               service.WatchTargets()]
    for stream in streams:
        if dice.random() < 0.7:
            next(iter(stream))
    time.sleep(dice.choice(LEAVE_AT))
    for stream in streams:
        if dice.random() < 0.6:
            stream.cancel()
    service.channel.close()


def dies_over_grpc(stage, dice):
    """Kills a client process while it reads a stream."""
    child = subprocess.Popen([sys.executable, sonde_client.__file__, "--service", stage.address, "live",
                              dice.choice(stage.names)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(dice.choice([0.3, 0.6, 1]))
    child.kill()
    child.wait()


def starts_a_session(stage, dice):
    name = dice.choice(stage.names)
    stage.ask(f"/t/{name}/profile_start")
    time.sleep(dice.choice([0, 0.3]))
    stage.ask(f"/t/{name}/profile_stop?pprof=false")


VISITS = [reads_to_the_end, looks_around, leaves_a_capture, leaves_a_capture, leaves_an_answer, leaves_a_live_stream,
          resets_over_http2, cancels_over_grpc, dies_over_grpc, starts_a_session]


def play_round(stage, number):
    failures = []

    def run(visit, seed):
        try:
            visit(stage, random.Random(seed))
        except (OSError, AssertionError, StopIteration) as failure:
            failures.append(f"{visit.__name__}: {failure!r}")

    threads = [threading.Thread(target=run, args=(visit, number * 1000 + n))
               for n, visit in enumerate(VISITS * 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def nothing_runs(stage):
    info = stage.info()
    return not info["capturesRunning"] and info["streamsRunning"] in (0, "0")


def measure(stage):
    """Descriptors and memory of each process, after all captures, streams and connections have ended."""
    until(lambda: nothing_runs(stage), "captures and streams end")
    until(lambda: stage.gateway.descriptors() < 64, "the gateway's connections end", 30)
    time.sleep(0.2)
    return [{"kind": process.kind, "descriptors": process.descriptors(), "memory_mb": process.memory_mb()}
            for process in stage.everybody()]


def kinds(rows, what, pick=max):
    return {kind: pick(row[what] for row in rows if row["kind"] == kind) for kind in ("gateway", "sonded", "target")}


def judge(rounds):
    """In the last rounds there may be no more descriptors than in the warm-up rounds, and only GROWTH_MB more memory."""
    warm, last = rounds[:WARM_ROUNDS], rounds[-2:]
    for kind, most in kinds(sum(warm, []), "descriptors").items():
        now = min(kinds(rows, "descriptors")[kind] for rows in last)
        assert now <= most + 2, f"{kind}: {now} descriptors at the end, {most} at the beginning"
    for kind, allowed in GROWTH_MB.items():
        before = max(kinds(rows, "memory_mb")[kind] for rows in warm)
        after = min(kinds(rows, "memory_mb")[kind] for rows in last)
        assert after <= before + allowed, f"{kind}: {after:.1f} MB at the end, {before:.1f} MB at the beginning"


def receive_heads(clients, seconds):
    """Returns the status of each answer, in the order in which they arrive."""
    waiting, statuses = selectors.DefaultSelector(), []
    for client in clients:
        waiting.register(client, selectors.EVENT_READ)
    end = time.monotonic() + seconds
    while waiting.get_map() and time.monotonic() < end:
        for key, _ in waiting.select(1):
            statuses.append(key.fileobj.recv(16)[9:12].decode())
            waiting.unregister(key.fileobj)
    return statuses


def thousand_at_once(stage):
    """Runs 64 captures of each target at once, checks that each target refuses a 65th, and returns the number of captures."""
    clients, want = [], len(stage.names) * CAPTURES_PER_TARGET
    for name in stage.names:
        for _ in range(CAPTURES_PER_TARGET):
            clients.append(stage.connect())
            clients[-1].sendall(f"GET /t/{name}/debug/pprof/profile?seconds=8 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    until(lambda: stage.info()["capturesRunning"] == want, f"{want} captures run", 8)
    refused = [stage.ask(f"/t/{name}/debug/pprof/profile?seconds=1")[9:12] for name in stage.names]
    assert refused == ["429"] * len(stage.names), refused
    statuses = receive_heads(clients, 60)
    assert statuses == ["200"] * want, {status: statuses.count(status) for status in statuses}
    for client in clients:
        client.close()
    return want


def play_crowd(stage):
    count = thousand_at_once(stage)
    rows = measure(stage)
    print(f"{count} captures at once, then MB", {kind: round(mb, 1) for kind, mb in kinds(rows, "memory_mb").items()},
          flush=True)
    return rows


def judge_crowds(quiet, crowds):
    """There may be no more descriptors than before the crowds; memory may grow little after the first one."""
    for kind, before in kinds(quiet, "descriptors").items():
        after = kinds(crowds[-1], "descriptors")[kind]
        assert after <= before + 2, f"{kind}: {after} descriptors after the crowds, {before} before"
    for kind, allowed in GROWTH_MB.items():
        grown = kinds(crowds[-1], "memory_mb")[kind] - kinds(crowds[0], "memory_mb")[kind]
        assert grown <= 2 * allowed, f"{kind} grew by {grown:.1f} MB from the first crowd to the last"


def main():
    parser = argparse.ArgumentParser()
    for name in ("gateway", "sonded", "guest", "target"):
        parser.add_argument("--" + name, required=True, type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--targets", type=int, default=16)
    parser.add_argument("--crowds", type=int, default=1)
    parser.add_argument("--out")
    options = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, limit[1]), limit[1]))
    stage, rounds = Stage(options), []
    try:
        for number in range(options.rounds):
            play_round(stage, number)
            rounds.append(measure(stage))
            rows = rounds[-1]
            print(f"round {number}: descriptors {kinds(rows, 'descriptors')}, MB",
                  {kind: round(mb, 1) for kind, mb in kinds(rows, "memory_mb", statistics.fmean).items()}, flush=True)
        judge(rounds)
        crowds = [play_crowd(stage) for _ in range(options.crowds)]
        judge_crowds(rounds[-1], crowds)
    finally:
        stage.close()
    if options.out:
        with open(options.out, "w", encoding="utf-8") as out:
            json.dump(rounds, out)
    print("no descriptors, captures or memory leaked")


main()
