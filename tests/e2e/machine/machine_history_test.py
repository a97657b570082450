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
from tests.e2e.machine.service import Service
from tests.e2e.users import users

users.install()
RATE = 199


def program(name):
    """A demo under a name of its own, because all processes of this machine are recorded by name. It burns an eighth of a CPU."""
    path = os.path.join(stack.WORK, f"{name}-{os.getpid() % 10000}")
    shutil.copy("clients/demo/demo", path)
    return path


LONE, SHORT, GUEST, OWN = program("lone"), program("short"), program("guest"), program("own")


def start(path, seconds, before=(), **env):
    return subprocess.Popen([*before, path, "-t", "1", "-s", str(seconds), "--tick"], env={**stack.environment(), **env}, stdout=subprocess.PIPE,
                            text=True)


def cpu_ns(process):
    """What the demo's own clock says at its end."""
    return int(re.search(r"process_cpu_ns (\d+)", process.communicate(timeout=60)[0]).group(1))


def test_unprepared_processes_have_a_history_and_a_guest_is_not_counted_twice():
    service = Service(0, "machine", RATE)
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


def test_chosen_processes_have_off_cpu_time_without_preparation():
    service = Service(0, "waits", RATE, "--history-off-cpu", f"service = '{os.path.basename(LONE)}'")
    waiting = "--event", "off-cpu", "--from", "-1m"
    check.until(lambda: re.search(r"targets being recorded: [1-9]", service.doctor()), seconds=30, what="the first window")
    chosen, other = start(LONE, 30), start(GUEST, 30)
    check.until(lambda: service.total(LONE, *waiting) > 3e9, seconds=28, what="3 s of waiting")
    check.equal(service.total(GUEST, *waiting), 0)
    assert service.total(GUEST) > 0, service.said()
    for process in (chosen, other):
        process.terminate()
        process.communicate(timeout=60)
    service.end()


def test_only_guests_are_recorded_if_that_is_wanted():
    service = Service(0, "guests", RATE, "--history-guests")
    lone = start(LONE, 1)
    prepared = start(GUEST, 1, LD_PRELOAD=os.path.join(stack.PREFIX, "lib/libsonde.so"), SONDE_SOCKET=service.guest)
    cpu_ns(lone)
    cpu_ns(prepared)
    service.end()  # stores the open windows
    service = Service(0, "guests", RATE, "--history-guests")
    assert service.total(GUEST) > 0, service.said()
    check.equal(service.total(LONE), 0)
    service.end()


def test_where_the_kernel_refuses_the_machine_own_processes_are_recorded_and_doctor_says_who_is_not():
    with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
        paranoid = int(file.read())
    if paranoid <= 0:
        raise check.Skip("kernel.perf_event_paranoid lets every user sample the whole machine")
    may_own = paranoid <= 2
    service = Service(users.NOBODY, "refused", RATE)
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
