# SPDX-License-Identifier: Apache-2.0
"""The history of processes that nobody prepared: one that lives, many that are over at once, one that its guest records, and those of
one's own where the kernel refuses to sample the whole machine."""

import json
import os
import re
import shutil
import subprocess
import time

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users import users

users.install()
RATE = 199


def program(name):
    """A demo under a name of its own, because all processes of this machine are recorded by name. It burns an eighth of a CPU."""
    path = os.path.join(stack.WORK, f"{name}-{os.getpid() % 10000}")
    shutil.copy("clients/demo/demo", path)
    return path


LONE, SHORT, GUEST, OWN = program("lone"), program("short"), program("guest"), program("own")


class Service:
    """A sonded with a history, as a user."""

    def __init__(self, uid, name, *flags):
        self.folder = os.path.join(stack.WORK, name)
        os.makedirs(self.folder, 0o700, exist_ok=True)
        os.chown(self.folder, uid, uid)
        self.log = open(os.path.join(stack.WORK, name + ".log"), "w+", encoding="utf-8")
        self.guest, self.address = f"{self.folder}/guest.sock", f"unix:{self.folder}/grpc.sock"
        self.process = subprocess.Popen(
            [*users.as_user(uid), os.path.join(stack.PREFIX, "bin/sonded"), "--socket", self.guest, "--grpc", self.address, "--data-dir",
             self.folder, "--history", "--history-hz", str(RATE), *flags], env=stack.environment(), stdout=subprocess.PIPE,
            stderr=self.log, text=True)
        assert "grpc: " in self.process.stdout.readline(), self.said()

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def history(self, *words):
        done = subprocess.run([stack.SONDE, "history", *words, "--service", self.address], env=stack.environment(), capture_output=True,
                              text=True, timeout=60, check=False)
        return done.stdout, done.stderr

    def total(self, path, *words):
        out, _ = self.history(os.path.basename(path), "-o", "-", "--format", "collapsed", *words)
        return sum(int(line.rsplit(" ", 1)[1]) for line in out.splitlines())

    def doctor(self):
        done = subprocess.run([stack.SONDE, "doctor", "--service", self.address], env=stack.environment(), capture_output=True, text=True,
                              timeout=60, check=False)
        return done.stdout

    def end(self):
        check.stop(self.process)
        self.process.stdout.close()
        self.log.close()


def start(path, seconds, before=(), **env):
    return subprocess.Popen([*before, path, "-t", "1", "-s", str(seconds), "--tick"], env={**stack.environment(), **env}, stdout=subprocess.PIPE,
                            text=True)


def cpu_ns(process):
    """What the demo's own clock says at its end."""
    return int(re.search(r"process_cpu_ns (\d+)", process.communicate(timeout=60)[0]).group(1))


def test_unprepared_processes_have_a_history_and_a_guest_is_not_counted_twice():
    service = Service(0, "machine")
    check.until(lambda: re.search(r"targets being recorded: [1-9]", service.doctor()), seconds=30, what="the first window")
    prepared = start(GUEST, 12, LD_PRELOAD=os.path.join(stack.PREFIX, "lib/libsonde.so"), SONDE_SOCKET=service.guest)
    lone = start(LONE, 12)
    check.until(lambda: re.search(r"; includes \d+ s of an open window", service.history(os.path.basename(LONE))[1]), seconds=20,
                what="the open window of a process that has just begun")
    used_by_short = sum(cpu_ns(start(SHORT, 1.5)) for _ in range(6))
    used = {LONE: cpu_ns(lone), GUEST: cpu_ns(prepared), SHORT: used_by_short}
    for path, ns in used.items():
        samples = ns / 1e9 * RATE
        tolerance = 4 / samples ** 0.5 + 0.05
        check.until(lambda path=path, ns=ns, tolerance=tolerance: abs(service.total(path) / ns - 1) < tolerance, seconds=30,
                    what=f"{ns} ns of {path} in the history (± {tolerance:.0%})")
    out, err = service.history(os.path.basename(LONE), "-o", "-", "--format", "collapsed")
    check.contains(out, ";on_worker;serve;")
    check.contains(err, "complete: ")
    assert "incomplete" not in err, err
    listed = json.loads(service.history("--list", "--json")[0])["services"]
    processes = {one["name"]: one["processes"] for one in listed}
    check.equal(processes[os.path.basename(LONE)], 1)
    assert processes[os.path.basename(SHORT)] <= 6, processes
    assert "not recorded" not in service.doctor(), service.doctor()
    service.end()


def test_only_guests_are_recorded_if_that_is_wanted():
    service = Service(0, "guests", "--history-guests")
    lone = start(LONE, 1)
    prepared = start(GUEST, 1, LD_PRELOAD=os.path.join(stack.PREFIX, "lib/libsonde.so"), SONDE_SOCKET=service.guest)
    cpu_ns(lone)
    cpu_ns(prepared)
    service.end()  # stores the open windows
    service = Service(0, "guests", "--history-guests")
    assert service.total(GUEST) > 0, service.said()
    check.equal(service.total(LONE), 0)
    service.end()


def test_where_the_kernel_refuses_the_machine_own_processes_are_recorded_and_doctor_says_who_is_not():
    with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
        paranoid = int(file.read())
    if paranoid <= 0:
        raise check.Skip("kernel.perf_event_paranoid lets every user sample the whole machine")
    may_own = paranoid <= 2
    service = Service(users.NOBODY, "refused")
    left_out = "those of other users: " if may_own else ""
    check.until(lambda: f"processes without the guest are not recorded: {left_out}sampling the whole machine needs" in service.doctor(),
                seconds=30, what="the refusal")
    # sonded looks for processes every other second.
    own = start(OWN, 60, before=users.as_user(users.NOBODY))
    other = start(LONE, 60)
    if may_own:
        check.until(lambda: service.total(OWN) > 0, seconds=50, what="the history of an own process")
    else:
        time.sleep(5)
        check.equal(service.total(OWN), 0)
    check.equal(service.total(LONE), 0)
    for process in (own, other):
        process.kill()
        process.communicate()
    service.end()


check.main(globals())
