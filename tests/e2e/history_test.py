# SPDX-License-Identifier: Apache-2.0
"""Continuous recording by a real sonded: its sums are the process's CPU time, its shares are those of a capture that runs at the
same time, and neither kill -9 nor a restart loses or doubles what was stored."""

import collections
import json
import os
import re
import shutil
import signal
import subprocess
import time

from tests.cli import check
from tests.e2e import stack

stack.install()
# A name of its own, because the CPU time of all processes on the machine is recorded by name.
NAME = f"demo-{os.getpid()}"
DEMO = os.path.join(stack.WORK, NAME)
shutil.copy("clients/demo/demo", DEMO)
SHARES = {"parse_header": 0.10, "compress_block": 0.20, "match_rules": 0.70}
SOCKET = os.path.join(stack.WORK, "guest.sock")
GRPC = "unix:" + os.path.join(stack.WORK, "grpc.sock")
RATE = 199
ATTACH_S = 2


class Service:
    def __init__(self):
        self.errors = open(os.path.join(stack.WORK, "sonded.log"), "a+", encoding="utf-8")
        self.process = subprocess.Popen(
            [os.path.join(stack.PREFIX, "bin/sonded"), "--socket", SOCKET, "--grpc", GRPC, "--data-dir",
             os.path.join(stack.WORK, "data"), "--history", "--history-hz", str(RATE)], env=stack.environment(),
            stdout=subprocess.PIPE, stderr=self.errors, text=True)
        assert "grpc: " in self.process.stdout.readline(), self.log()

    def log(self):
        self.errors.seek(0)
        return self.errors.read()

    def end(self, number):
        self.process.send_signal(number)
        self.process.wait(30)
        self.process.stdout.close()
        self.errors.close()


def start_demo(seconds, labels):
    """Works in step with the tick: an eighth of a fast CPU, more of a slow one. On a busy machine the guest takes a while to attach."""
    env = {**stack.environment(), "LD_PRELOAD": os.path.join(stack.PREFIX, "lib/libsonde.so"), "SONDE_SOCKET": SOCKET,
           "SONDE_LABELS": labels}
    return subprocess.Popen([DEMO, "-t", "1", "-s", str(seconds), "--delay", str(ATTACH_S), "--tick"], env=env, stdout=subprocess.PIPE, text=True)


def cpu_ns(demo):
    """What the demo's own clock says at its end."""
    out, _ = demo.communicate(timeout=60)
    return int(re.search(r"process_cpu_ns (\d+)", out).group(1))


def recorded(*words):
    """{stack: ns} of the demo. Stacks that look alike are one."""
    done = subprocess.run([stack.SONDE, "history", *words, "--format", "collapsed", "--from", "-1h",
                           "--service", GRPC], env=stack.environment(), capture_output=True, text=True, timeout=60, check=False)
    sums = collections.Counter()
    for line in done.stdout.splitlines():
        sums[line.rsplit(" ", 1)[0]] += int(line.rsplit(" ", 1)[1])
    return sums


def total(label=None):
    return sum(recorded(NAME, *(["--selector", f"run = '{label}'"] if label else [])).values())


def share(stacks, name):
    return sum(ns for frames, ns in stacks.items() if frames.endswith(name)) / max(sum(stacks.values()), 1)


def test_what_is_recorded_is_right_and_stays():
    service = Service()
    first = start_demo(12, "run=first")
    time.sleep(ATTACH_S + 1)  # the demo has begun
    captured, _ = stack.sonde("record", NAME, "-d", "4", "-F", "499", "--service", GRPC, "--format", "collapsed",
                              "-o", "-")
    used = cpu_ns(first)
    per_second = used / 12
    # The last window is stored when the process has ended.
    check.until(lambda: abs(total("first") / used - 1) < 0.1, what=f"{used} ns in the history; there are {total('first')}")
    stacks = recorded(NAME, "--selector", "run = 'first'")
    taken = {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in captured.splitlines()}
    samples = used / 1e9 * RATE
    for name, known in SHARES.items():
        noise = 4 * (known * (1 - known) / samples) ** 0.5 + 0.02
        check.near(share(stacks, name), known, noise, f"recorded share of {name}")
        check.near(share(taken, name), share(stacks, name), 2 * noise, f"captured and recorded share of {name}")
    host = sum(ns for frames, ns in recorded("--processes").items() if NAME in frames)
    # It is read every ten seconds, and what a process used since then when it ends is lost.
    assert 0.05 * used < host < 1.05 * used, f"the host's view has {host} of {used} ns"
    before = total("first")

    service.end(signal.SIGKILL)
    service = Service()
    check.equal(total("first"), before, "what was stored before kill -9")
    begin = time.time()
    second = start_demo(60, "run=second,no label")
    time.sleep(ATTACH_S + 3)
    check.until(lambda: f"SONDE_LABELS of {NAME}" in service.log() or total("second") > 0 or
                second.poll() is not None, seconds=30, what="a stored window")
    second.terminate()
    used = cpu_ns(second)
    service.end(signal.SIGTERM)  # stores the open windows
    service = Service()
    check.near(total("second") / used, 1, 0.15, "the second run's recorded share of its CPU time")
    check.equal(total("first"), before, "the first run after two restarts")
    check.contains(service.log(), f"SONDE_LABELS of {NAME}")
    check_questions(total())
    check_gate(per_second)
    check_annotated(begin)
    service.end(signal.SIGTERM)


def annotated(*words):
    out, _ = stack.sonde("annotate", "match_rules", *words, "--service", GRPC, "--json")
    return json.loads(out)


def check_lines(found):
    """The function with 70 % of the time has one hot line. Of 60 samples, 0.4 is five deviations below."""
    hot = max(found["lines"], key=lambda line: line["self"])
    assert hot["file"].endswith("demo.c") and hot["self"] > 0.9 * found["self"] and found["self"] > 0.4, found
    assert sum(one["self"] for one in found["instructions"]) > 0.9 * found["self"], found


def check_annotated(begin):
    """The lines of a range of the history, of a process, and without the program's file. The second run began at `begin`."""
    found = annotated(NAME, "--from", "-1h")
    check_lines(found)
    check.near(found["self"], share(recorded(NAME), "match_rules"), 0.01, "the function's share")
    both = annotated(NAME, "--from", str(int(begin)), "--base-from", "-1h", "--base-until", str(int(begin)))
    check.near(both["baseSelf"], share(recorded(NAME, "--selector", "run = 'first'"), "match_rules"), 0.1, "its share in the earlier range")
    third = start_demo(60, "run=third")
    time.sleep(ATTACH_S)
    check_lines(annotated(str(third.pid), "-d", "1", "-F", "999"))
    third.kill()
    third.communicate()
    os.rename(DEMO, DEMO + ".away")
    _, err = stack.sonde("annotate", "match_rules", NAME, "--from", "-1h", "--service", GRPC, status=None)
    check.contains(err, f"{DEMO} does not exist here: copy it there from where it ran")


def check_gate(per_second):
    """The history of two values of a label is compared per second. A selector without data decides nothing."""
    words = ("gate", NAME, "--base", "run = 'first'", "--from", "-1h", "--service", GRPC, "--new")
    out, _ = stack.sonde(*words, "run = 'nothing'", status=11)
    check.contains(out, "history has nothing that matches --new in this range")
    out, _ = stack.sonde(*words, "run = 'second'", "--max-increase", "1000%", "--report", os.path.join(stack.WORK, "gate.json"),
                         status=None)
    with open(os.path.join(stack.WORK, "gate.json"), encoding="utf-8") as file:
        report = json.load(file)
    check.equal((report["per"], report["unit"]), ("second", "nanoseconds"))
    check.near(report["checks"][0]["before"] / per_second, 1, 0.3, "the gate's CPU time per second to the demo's own")


def check_questions(everything):
    """Which services spend time in a function, and what changed between two values of a label."""
    out, _ = stack.sonde("history", "--function", "compress_*", "--from", "-1h", "--json", "--service", GRPC)
    (use,) = [one for one in json.loads(out)["services"] if one["service"] == NAME]  # other demos may run
    check.equal(use["service"], NAME, "the service")
    # A window from outside, of the time before the guest was connected, may arrive between two questions.
    assert everything <= int(use["serviceTotal"]) <= total(), (everything, use, total())
    known = SHARES["compress_block"]
    noise = 4 * (known * (1 - known) / (everything / 1e9 * RATE)) ** 0.5 + 0.02
    check.near(int(use["total"]) / everything, known, noise, "the function's share")
    check.equal(use["self"], use["total"], "a function that calls nothing")
    check.contains(stack.sonde("history", "--function", "compress_*", "--service", GRPC)[0], NAME)
    check.equal(stack.sonde("history", "--function", "nothing", "--service", GRPC)[0], "no service has this function on a stack in this time (* = any characters)\n")
    words = ("diff", NAME, "--selector", "run = 'second'", "--base-selector", "run = 'first'", "--service", GRPC)
    out, err = stack.sonde(*words)
    for name in SHARES:
        check.contains(out, name)
    check.contains(err, "complete: ")
    check.contains(out, f"Base: {NAME}, run = 'first', ")
    check.contains(out, f"New: {NAME}, run = 'second', ")
    same, _ = stack.sonde(*words[:3], "run = 'first'", *words[4:])
    check.contains(same, "no difference")
    stack.sonde("diff", NAME, "--from", "-1h", "--service", GRPC, status=2)


check.main(globals())
