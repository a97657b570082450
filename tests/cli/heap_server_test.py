# SPDX-License-Identifier: Apache-2.0
"""`sonde run --heap` and `sonde heap` with redis."""

import json
import os
import subprocess

from tests.cli import check
from tests.e2e import stack

SOCKET = os.path.join(stack.WORK, "redis.sock")
REDIS = ("redis-server", "--port", "0", "--unixsocket", SOCKET, "--save", "", "--enable-debug-command", "yes")
READY = "ready to accept connections at"


def used_mb():
    """The memory that redis counts itself: the sizes of jemalloc's blocks, as in the samples."""
    lines = subprocess.run(["redis-cli", "-s", SOCKET, "info", "memory"], capture_output=True, text=True, timeout=60,
                           check=True).stdout.split()
    return next(int(line.split(":")[1]) for line in lines if line.startswith("used_memory:")) / 1e6


def fill():
    done = subprocess.run(["redis-cli", "-s", SOCKET, "debug", "populate", "80000", "key", "200"], capture_output=True,
                          text=True, timeout=60, check=True)
    check.equal(done.stdout.strip(), "OK")


def collapsed(*words):
    lines = stack.sonde("heap", "dump", *words, "-o", "-", "--format", "collapsed")[0].splitlines()
    return [(line.rsplit(" ", 1)[0].split(";"), int(line.rsplit(" ", 1)[1])) for line in lines]


def test_the_heap_of_redis_shows_who_allocated_it():
    with stack.Server(*REDIS, flags=("--heap",), ready=READY):
        check.contains(stack.sonde("heap", "status")[0], "heap profiling is off")
        check.contains(stack.sonde("heap", "on", "--sample", "16384")[0], "one sample per 16 KiB")
        check.contains(stack.sonde("heap", "on", status=4)[1], "switched on by sonde heap")
        before = used_mb()
        fill()
        filled = used_mb() - before
        stacks = collapsed()
        held = sum(count for frames, count in stacks if "debugCommand" in frames)
        check.near(held / 1e6, filled, filled * 0.2, "MB held by debugCommand")
        assert held > 0.9 * stack.total(stacks), stacks
        objects = sum(count for frames, count in collapsed("--type", "inuse_objects") if "debugCommand" in frames)
        near = 4 * 80000  # entry, key, object and value
        check.near(objects, near, near * 0.2, "objects held by debugCommand")
        for name in ("heap.svg", "heap.pb.gz", "heap.heapsnapshot", "redis.heap", "heap.legacy.heap"):
            path = os.path.join(stack.WORK, name)
            check.contains(stack.sonde("heap", "dump", "-o", path)[1], name)
            assert os.path.getsize(path) > 500, name
        check.contains(stack.sonde("top", os.path.join(stack.WORK, "heap.pb.gz"))[0], "zmalloc")
        stack.sonde("heap", "reset", "--sample", "65536")
        state = json.loads(stack.sonde("heap", "status", "--json")[0])
        check.equal((state["active"], state["sampleBytes"], state["owner"]), (True, "65536", "sonde heap"))
        check.contains(stack.sonde("heap", "off")[0], "heap profiling is off")
        check.contains(stack.sonde("heap", "off")[0], "was already off")


def test_periodic_dumps_are_listed_and_written():
    with stack.Server(*REDIS, flags=("--heap",), ready=READY):
        check.contains(stack.sonde("heap", "list")[0], "no saved dumps")
        check.contains(stack.sonde("heap", "on", "--interval", "1")[0], "one dump every 1 s")
        fill()
        names = check.until(lambda: [line.split()[0] for line in stack.sonde("heap", "list")[0].splitlines()
                                     if line.startswith("00000")], what="a saved dump")
        path = os.path.join(stack.WORK, "saved.pb.gz")
        stack.sonde("heap", "dump", "--name", names[-1], "-o", path)
        check.contains(stack.sonde("top", path)[0], "inuse_space")
        # Switching off keeps the dumps unless --delete-dumps is given.
        check.contains(stack.sonde("heap", "off")[0], " saved, ")
        check.contains(stack.sonde("heap", "list")[0], names[-1])
        stack.sonde("heap", "off", "--delete-dumps")
        check.contains(stack.sonde("heap", "list")[0], "no saved dumps")


def test_the_dumps_of_a_killed_server_are_listed_and_written():
    folder = os.path.join(stack.WORK, "left")
    os.makedirs(folder)
    service = f"unix:{folder}/grpc.sock"
    sonded = subprocess.Popen([f"{stack.PREFIX}/bin/sonded", "--socket", f"{folder}/guest.sock", "--grpc", service,
                               "--data-dir", f"{folder}/data"], env=stack.environment(), stdout=subprocess.PIPE, text=True)
    try:
        assert sonded.stdout.readline().startswith("grpc: ")
        redis = subprocess.Popen(
            REDIS, stdout=subprocess.DEVNULL,
            env={**stack.environment(), "LD_PRELOAD": f"{stack.PREFIX}/lib/libsonde.so", "SONDE_SOCKET": f"{folder}/guest.sock",
                 "MALLOC_CONF": "prof:true,prof_active:false"})
        try:
            ask = ("--service", service)
            check.until(lambda: "redis" in stack.sonde("targets", *ask)[0], what="redis at sonded")
            check.contains(stack.sonde("heap", "list", "--ended", *ask)[0], "no dumps of exited processes")
            stack.sonde("heap", "on", "--interval", "1", "--sample", "16384", *ask)
            fill()
            check.until(lambda: len(stack.sonde("heap", "list", *ask)[0].splitlines()) >= 3, what="three dumps")
        finally:
            redis.kill()
            redis.wait()
        lines = check.until(lambda: [line.split() for line in stack.sonde("heap", "list", "--ended", *ask)[0].splitlines()
                                     if line.startswith("redis-server")], what="the dumps of redis")
        name, pid, uuid, dump = lines[0][:4]
        check.equal((name, int(pid)), ("redis-server", redis.pid))
        path = os.path.join(folder, "left.collapsed")
        for target in (uuid, pid, name):
            stack.sonde("heap", "dump", target, "--ended", "--name", dump, "-o", path, *ask)
            with open(path, encoding="utf-8") as file:
                check.contains(file.read(), "debugCommand")
        check.contains(stack.sonde("heap", "dump", "other", "--ended", "--name", dump, "-o", path, *ask, status=1)[1],
                       f"no exited process left a heap profile {dump}")
        check.contains(stack.sonde("heap", "dump", "--ended", *ask, status=2)[1], "--name")
        check.equal(len(json.loads(stack.sonde("heap", "list", "--ended", uuid, "--json", *ask)[0])["dumps"]), len(lines))
    finally:
        sonded.terminate()
        sonded.wait()


def test_without_heap_the_error_names_the_setting():
    with stack.Server(*REDIS, ready=READY):
        check.contains(stack.sonde("heap", "on", "--backend", "jemalloc", status=4)[1],
                       "MALLOC_CONF=prof:true,prof_active:false")
        check.contains(stack.sonde("heap", "status")[0], "MALLOC_CONF=prof:true,prof_active:false")


stack.install()
check.main(globals())
