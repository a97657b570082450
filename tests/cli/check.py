# SPDX-License-Identifier: Apache-2.0
"""The harness of the Python tests. Runs every function test_* of a script and prints the counts in the last line. The
script's arguments select tests by a part of the name."""

import concurrent.futures
import ctypes
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback


# Makes the path absolute for programs that a test starts in another directory.
if "TSAN_OPTIONS" in os.environ:
    os.environ["TSAN_OPTIONS"] = os.environ["TSAN_OPTIONS"].replace("suppressions=tests/",
                                                                    f"suppressions={os.getcwd()}/tests/")


class Skip(Exception):
    """Raised if the machine lacks something that a test needs; the text says what."""


def until(condition, seconds=60, what="the condition"):
    """Waits until condition() returns something true, and returns that. The time is for a machine that many share: a test that passes
    does not need it."""
    end = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come true within {seconds} s")
        time.sleep(0.02)


def refuse_call(number, error, first_argument=None):
    """A system call of x86-64 fails with this errno in this process and its children, for good; for Popen's preexec_fn. If
    first_argument is given, only calls with it fail."""
    load_number, load_argument = (0x20, 0, 0, 0), (0x20, 0, 0, 16)
    tests = [load_number, (0x15, 0, 1 if first_argument is None else 3, number)]
    if first_argument is not None:
        tests += [load_argument, (0x15, 0, 1, first_argument)]
    instructions = [*tests, (6, 0, 0, 0x00050000 | error), (6, 0, 0, 0x7fff0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in instructions))
    program = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", len(instructions), ctypes.addressof(code)))
    libc = ctypes.CDLL(None)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:  # no new privileges; a seccomp filter
        os._exit(99)


def equal(actual, expected, what="value"):
    assert actual == expected, f"{what} is {actual!r}, not {expected!r}"


def contains(text, part):
    shown = text if len(text) <= 4000 else f"{text[:4000]}... ({len(text)} characters)"
    assert part in text, f"{part!r} is not in {shown!r}"


def near(actual, expected, tolerance, what="value"):
    assert abs(actual - expected) <= tolerance, f"{what} is {actual}, not {expected} +- {tolerance}"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def short_folder():
    """Creates a directory in TMPDIR, whose path is short enough for unix sockets (tests/own_folder.sh)."""
    return tempfile.mkdtemp(prefix="x.")


def alive(pid):
    """Whether the process exists and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def memory_mb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as text:
        return int(next(line for line in text if line.startswith("VmRSS")).split()[1]) / 1024


def is_sanitized(pid):
    """Whether the process has a sanitizer, which makes its memory use meaningless."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as text:
        return any("libasan" in line or "libtsan" in line for line in text)


def children(pid):
    """Returns (pid, name) of the direct children."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as stat:
                head, tail = stat.read().rsplit(")", 1)
        except OSError:
            continue
        if int(tail.split()[1]) == pid:
            found.append((int(entry), head.split("(", 1)[1]))
    return found


def start(*command, **options):
    """A program that prints "what: ADDRESS" when it is ready, and that address. options: Popen's."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    return process, process.stdout.readline().split(": ", 1)[1].strip()


def stop(process):
    """Terminates a Popen, with SIGKILL if it must."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run(test):
    """The outcome of one (name, function)."""
    name, function = test
    started = time.monotonic()
    try:
        function()
    except Skip as reason:
        print(f"SKIP: {name}: {reason}\n", end="", flush=True)
        return "skipped"
    except Exception:  # pylint: disable=broad-except
        print(f"FAILED {name}\n{traceback.format_exc()}", end="", flush=True)
        return "failed"
    print(f"ok {name} ({time.monotonic() - started:.1f} s)\n", end="", flush=True)
    return "passed"


def main(namespace, at_once=1):
    """at_once: how many tests run side by side, for tests that share nothing and mostly wait."""
    wanted = sys.argv[1:]
    tests = [(name, function) for name, function in namespace.items()
             if name.startswith("test_") and callable(function) and (not wanted or any(part in name for part in wanted))]
    # Bazel divides the tests of a target with shard_count among several processes.
    tests = tests[int(os.environ.get("TEST_SHARD_INDEX", 0))::int(os.environ.get("TEST_TOTAL_SHARDS", 0)) or 1]
    if at_once == 1:
        outcomes = list(map(run, tests))
    else:
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            outcomes = list(pool.map(run, tests))
    print(*(f"{outcomes.count(outcome)} {outcome}" for outcome in ("passed", "failed", "skipped")), sep=", ")
    sys.exit(1 if "failed" in outcomes or not outcomes else 0)
