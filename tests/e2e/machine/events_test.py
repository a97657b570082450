# SPDX-License-Identifier: Apache-2.0
"""Counted events of a program that knows how many page faults its functions cause."""

import json
import os
import re
import subprocess

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users import users

FAULTS = os.path.join(stack.WORK, "faults")
KNOWN = ("page-faults", "minor-faults", "major-faults", "context-switches", "cpu-migrations", "cycles", "instructions",
         "cache-misses", "branch-misses", "growth")
SOFTWARE = (*KNOWN[:5], "growth")


def install():
    users.install()
    subprocess.run(["gcc", "-g", "-O1", "tests/e2e/machine/faults.c", "-o", FAULTS], check=True)


def sonde(*words, uid=0, status=0):
    folder = os.path.join(stack.WORK, f"of-{uid}")
    if not os.path.exists(folder):
        os.makedirs(folder, mode=0o700)
        os.chown(folder, uid, uid)
    env = {**stack.environment(), "XDG_RUNTIME_DIR": folder, "SONDE_DATA_DIR": folder}
    done = subprocess.run([*users.as_user(uid), stack.SONDE, *words], env=env, cwd=folder, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=120, check=False)
    check.equal(done.returncode, status, f"status of {words} ({done.stdout}{done.stderr})")
    return done.stdout, done.stderr


def record(steps, pause_us, *options, uid=0):
    """Returns the sums of a command's profile by function, their total, the command's own count, and the messages."""
    out = os.path.join(stack.WORK, f"of-{uid}", "out.collapsed")
    printed, err = sonde("record", "--event", "page-faults", *options, "-o", out, "--", FAULTS, str(steps), str(pause_us), uid=uid)
    with open(out, encoding="utf-8") as file:
        rows = [(line.rsplit(" ", 1)[0].split(";"), int(line.rsplit(" ", 1)[1])) for line in file]
    names = ("load_index", "load_cache", "touch", "[not sampled]")
    sums = {name: sum(count for frames, count in rows if name in frames) for name in names}
    return sums, sum(count for _, count in rows), int(printed), err


def need_events(name="page-faults"):
    with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
        level = int(file.read())
    if level > 2:
        raise check.Skip(f"kernel.perf_event_paranoid is {level}, so ordinary users have no {name}")


def test_each_function_has_its_page_faults():
    for uid in (0, users.NOBODY):
        if uid:
            need_events()
        sums, total, own, err = record(400, 5000, "--period", "1", uid=uid)
        check.equal(own >= 400 * 64, True, f"the program's own count {own}")
        # On a busy machine some happen while a table is being loaded, or are throttled.
        # A user's rings have no room for a second set, so while larger copies are arranged, nothing is counted.
        assert (0.9 if uid else 1) * own - 20 <= sums["touch"] + sums["[not sampled]"] <= own + 2000, f"{sums} of {own}: {err}"
        walked = sums["load_index"] + sums["load_cache"]
        assert walked > 0.5 * own, f"{sums} of {own}: {err}"
        check.near(sums["load_index"] / walked, 0.75, 0.03, f"share of load_index ({sums})")
        # Before and after the steps there are the faults of a program's start.
        assert (0.9 if uid else 1) * own <= total <= own + 2000, f"{total} of {own}: {err}"


def test_a_period_and_a_rate_keep_the_sum_and_the_shares():
    for options in (("--period", "64"), ("-F", "499"), ()):
        sums, total, own, err = record(4000, 200, *options)
        sampled = sums["load_index"] + sums["load_cache"]
        assert 0.99 * own <= total <= own + 2000, f"{options}: {total} of {own}: {err}"
        assert sampled > 0.5 * own, f"{options}: {sums} of {own}: {err}"
        check.near(sums["load_index"] / sampled, 0.75, 0.12, f"share of load_index with {options} ({sums})")


def test_max_overhead_limits_the_samples_of_an_event_that_happens_all_the_time():
    sums, total, own, err = record(40000, 0, "--period", "1", "--max-overhead", "1%")
    found = re.search(r"overhead ceiling: 1.00 % of the time of a CPU; .*; one sample for up to (\d+) events", err)
    assert found and int(found[1]) > 1, err
    check.near(total, own, 0.01 * own, f"sum {err}")
    check.equal(sums["load_index"] > sums["load_cache"], True, f"{sums}")


def test_the_units_of_a_profile_are_events():
    process = users.start(FAULTS, "0", "1000", stdout=subprocess.DEVNULL)
    pid = str(process.pid)
    check.contains(sonde("top", pid, "-d", "0.5", "--event", "page-faults")[0], "Type: page_faults")
    check.contains(sonde("top", pid, "-d", "0.5", "-e", "context-switches", "--period", "1")[0],
                   "# period: one sample for 1 context switches")
    out = os.path.join(stack.WORK, "of-0", "faults.svg")
    sonde("record", pid, "-d", "0.5", "--event", "page-faults", "-o", out)
    with open(out, encoding="utf-8") as file:
        assert re.search(r">[\d,]+ page faults · ", file.read())
    users.stop(process)


def test_events_lists_what_the_machine_has_and_why_not():
    events = json.loads(sonde("events", "--json")[0])["events"]
    check.equal(tuple(event["name"] for event in events), KNOWN)
    process = users.start(FAULTS, "0", "1000", stdout=subprocess.DEVNULL)
    for event in events:
        is_available = event.get("isAvailable", False)
        assert is_available or event["reason"], event
        assert is_available or event["name"] not in SOFTWARE, event
        status = 0 if is_available else 4
        err = sonde("record", str(process.pid), "-d", "0.1", "--event", event["name"], "-o", "x.svg", status=status)[1]
        if not is_available:
            check.contains(err, f"does not count {event['name']}")
    users.stop(process)
    text = sonde("events")[0].splitlines()
    check.equal(text[0].split(), ["EVENT", "AVAILABLE", "REASON"])
    check.equal([line.split()[0] for line in text[1:]], list(KNOWN))


def test_an_ordinary_user_is_told_what_is_missing():
    need_events()
    events = {event["name"]: event for event in json.loads(sonde("events", "--json", uid=users.NOBODY)[0])["events"]}
    check.contains(events["page-faults"]["reason"], "only in own processes and outside of the kernel")
    check.contains(events["context-switches"]["reason"], "it happens in the kernel, which needs CAP_PERFMON")
    process = users.start(*users.as_nobody(FAULTS, "0", "1000"), stdout=subprocess.DEVNULL)
    err = sonde("record", str(process.pid), "-d", "0.1", "--event", "context-switches", "-o", "x.svg", uid=users.NOBODY, status=4)[1]
    check.contains(err, "context-switches happen in the kernel, which needs CAP_PERFMON")
    users.stop(process)


def test_what_is_no_event_is_refused_with_the_list():
    check.contains(sonde("record", "1", "--event", "page-fault", status=2)[1], "event: \"page-fault\" is not page-faults, minor-faults")
    check.contains(sonde("record", "1", "--period", "5", status=2)[1], "period: only with event")
    check.contains(sonde("record", "1", "--event", "cycles", "--mode", "wall", status=2)[1], "event: not together with mode")


if os.geteuid() == 0:
    install()
try:
    check.main(globals())
finally:
    for left in list(users.started):
        users.stop(left)
