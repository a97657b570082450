# SPDX-License-Identifier: Apache-2.0
"""Locks of a program that knows for how long its threads wait for each, and who holds them."""

import json
import os
import pty
import re
import signal
import subprocess

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users import users

CONTENDED = os.path.join(stack.WORK, "contended")
FOLDER = os.path.join(stack.WORK, "locks")


def install():
    users.install()
    subprocess.run(["gcc", "-g", "-O1", "-pthread", "tests/e2e/machine/contended.c", "-o", CONTENDED], check=True)
    os.makedirs(FOLDER, exist_ok=True)


def environment():
    return {**stack.environment(), "XDG_RUNTIME_DIR": FOLDER, "SONDE_DATA_DIR": FOLDER}


def sonde(*words, status=0):
    done = subprocess.run([stack.SONDE, *words], env=environment(), cwd=FOLDER, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=120, check=False)
    check.equal(done.returncode, status, f"status of {words} ({done.stdout}{done.stderr})")
    return done.stdout, done.stderr


class Contended:
    """The program, which waits for go()."""

    def __init__(self, ms):
        self.process = subprocess.Popen([CONTENDED, str(ms)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        users.started.append(self.process)
        check.equal(self.process.stdout.readline(), "ready\n")
        self.pid = self.process.pid

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def stop(self):
        users.stop(self.process)


def begin(*words):
    """Starts a capture of 60 s, and waits until it has begun, which the client shows on a terminal."""
    terminal, end = pty.openpty()
    client = subprocess.Popen([stack.SONDE, *words, "-d", "60"], env=environment(), cwd=FOLDER, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=end, text=True, start_new_session=True)
    os.close(end)
    shown = ""
    while " s of 60" not in shown:
        try:
            shown += os.read(terminal, 4096).decode()
        except OSError as error:
            raise AssertionError(f"the client has ended: {shown}") from error
    return client, terminal


def finish(client, terminal):
    client.send_signal(signal.SIGINT)
    out = client.communicate(timeout=60)[0]
    os.close(terminal)
    check.equal(client.returncode, 0, f"status of sonde ({out})")
    return out


def waits_of(pid):
    """How often the threads have left their CPU."""
    sum_of = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/status", encoding="utf-8") as file:
            sum_of += int(re.search(r"\nvoluntary_ctxt_switches:\s+(\d+)", file.read())[1])
    return sum_of


def by_name(answer):
    return {f"{lock['kind']} {lock['name']}": lock for lock in answer["locks"]}


def owner_share(lock, tid):
    return sum(owner["ns"] for owner in lock["owners"] if owner["thread"].split()[0] == str(tid)) / lock["ns"]


def test_each_lock_has_its_name_time_and_owner():
    contended = Contended(2000)
    capture = begin("locks", str(contended.pid), "--all-waits", "--json")
    own = contended.go()
    answer = json.loads(finish(*capture))
    contended.stop()
    if "by looks" in answer["clockNote"]:
        raise check.Skip(f"short waits are only seen with BPF: {answer['clockNote']}")
    locks = by_name(answer)
    expected = (("mutex shop+0x8", "waiter", "holder", "take_order"),
                (f"read-write lock {own['table']} of read_table", "reader", "writer", "read_table"),
                ("condition variable work", "idle", None, "await_work"),
                ("semaphore tokens", "taker", None, "await_token"))
    for name, waiter, owner, function in expected:
        lock = locks.get(name)
        assert lock, f"{name} is not one of {locks.keys()}"
        check.equal(lock["function"], function)
        # Its clock also counts what the thread runs, and others wait for a moment for the same lock.
        print(f"  {name}: {lock['ns'] / own[waiter][0]:.3f}")
        check.near(lock["ns"], own[waiter][0], 0.05 * own[waiter][0] + 20e6, f"{name}: {lock} {own}")
        check.equal(lock["ownedNs"] > 0, owner is not None, name)
        if owner:
            assert owner_share(lock, own[owner][1]) > 0.9, f"{name}: {lock} {own}"


def test_what_waits_for_work_is_left_out_and_said():
    contended = Contended(60000)
    contended.process.stdin.write("go\n")
    contended.process.stdin.flush()
    out = sonde("locks", str(contended.pid), "-d", "0.7")[0]
    check.contains(out, "mutex shop+0x8\n")
    check.contains(out, "in take_order ")
    assert re.search(r"held by \d+ holder \d+ %", out), out
    assert "semaphore tokens" not in out, out
    check.contains(out, "waiting for work (condition variables, semaphores, ends of threads): ")
    contended.process.send_signal(signal.SIGKILL)  # a target that ends in the middle of its waits
    contended.stop()


def check_labels(path):
    """The labels of the profile, by Go's reader."""
    done = subprocess.run(["go", "tool", "pprof", "-tags", path], env={**stack.environment(), "PPROF_TMPDIR": FOLDER},
                          capture_output=True, text=True, timeout=120, check=True)
    for key, value in (("lock", r"mutex shop\+0x8"), ("lock_owner", r"\d+ holder")):
        values = re.search(rf"^ *{key}: +Total .*\n((?:.*\S.*\n)*)", done.stdout, re.MULTILINE)
        assert values and re.search(rf": +{value}$", values[1], re.MULTILINE), f"{key}: {done.stdout}"


def test_profiles_have_locks_and_owners_as_labels():
    service, (http, address) = users.sonded(), users.gateway()
    contended = Contended(60000)
    contended.process.stdin.write("go\n")
    contended.process.stdin.flush()
    by_cli, by_rest = os.path.join(FOLDER, "cli.pb.gz"), os.path.join(FOLDER, "rest.pb.gz")
    sonde("record", str(contended.pid), "--service", users.RPC, "-d", "0.5", "--mode", "off-cpu", "--locks", "-o", by_cli)
    url = f"http://{address}/t/{contended.pid}/debug/pprof/profile?seconds=1&mode=off-cpu&locks=1&output=proto"
    subprocess.run(["curl", "-fsS", "-o", by_rest, url], check=True, timeout=60)
    contended.process.kill()
    contended.stop()
    for part in (http, service):
        users.stop(part)
    check_labels(by_cli)
    check_labels(by_rest)


def test_a_target_that_is_killed_has_the_waits_until_then():
    contended = Contended(60000)
    client, terminal = begin("locks", str(contended.pid), "--json")
    contended.process.stdin.write("go\n")
    contended.process.stdin.flush()
    check.until(lambda: waits_of(contended.pid) > 200, what="200 waits")
    contended.process.kill()
    contended.stop()
    answer = json.loads(client.communicate(timeout=60)[0])
    os.close(terminal)
    check.equal(client.returncode, 0)
    assert "mutex shop+0x8" in by_name(answer), answer


def test_what_cannot_be_asked_is_refused_in_a_sentence():
    check.contains(sonde("locks", status=2)[1], "which process? give its pid or name")
    check.contains(sonde("locks", "a", "b", status=2)[1], 'unexpected argument "b"')
    check.contains(sonde("locks", "x.pb.gz", status=2)[1], "is a file: give a running process")
    check.contains(sonde("record", "1", "--locks", "-o", "x.svg", status=2)[1], "locks: only for mode WALL and OFF_CPU")
    check.contains(sonde("record", "1", "--mode", "off-cpu", "--locks", "--source", "guest", "-o", "x.svg", status=2)[1],
                   "locks: only seen from outside; use source auto or host")


if os.geteuid() == 0:
    install()
try:
    check.main(globals())
finally:
    for left in list(users.started):
        users.stop(left)
