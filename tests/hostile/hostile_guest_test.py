# SPDX-License-Identifier: Apache-2.0
"""A program of another user attacks root's sonded with the descriptors that it passes as shared memory or dumps. sonded must hang
up, live, stay small, serve others and stop at once on SIGTERM."""

import http.client
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users import users

PROGRAMS = os.path.join(stack.WORK, "hostile")
FOLDER = os.path.join(stack.WORK, "nobody")
GROWTH_KB = 150 << 10  # of sonded's memory during an attack
STOP_S = 20


class Guest:
    """guest.py, run by nobody."""

    def __init__(self, way, kind):
        # A file whose read may block forever. Every user may open it where kernel.dmesg_restrict is 0.
        with open("/dev/kmsg", "rb", buffering=0) as kmsg:
            program = users.as_nobody(sys.executable, os.path.join(PROGRAMS, "guest.py"), users.GUESTS, way, kind, FOLDER)
            self.process = users.start(*program, env={**stack.environment(), "KMSG": str(kmsg.fileno())},
                                       pass_fds=(kmsg.fileno(),), stdout=subprocess.PIPE)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.expect("attached")

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())

    def expect(self, line):
        try:
            check.equal(self.lines.get(timeout=30), line, "what the guest said")
        except queue.Empty:
            raise AssertionError(f"the guest did not say {line!r}") from None


def ask(*words):
    """Runs `sonde heap`, whatever comes of it: the guest may be gone."""
    subprocess.run([stack.SONDE, "heap", *words, "--service", users.RPC], env=stack.environment(), capture_output=True,
                   stdin=subprocess.DEVNULL, timeout=60, check=False)


def use_table():
    """Makes sonded map the table, and read it after its file was cut."""
    ask("on", "attacker", "--backend", "interposed")
    if os.path.exists(os.path.join(FOLDER, "ordinary")):
        os.truncate(os.path.join(FOLDER, "ordinary"), 0)
    ask("dump", "attacker", "-o", os.path.join(stack.WORK, "stolen.heap"))


def use_dump():
    ask("dump", "attacker", "-o", os.path.join(stack.WORK, "stolen.heap"))


def use_gdump():
    process, host = users.gateway()
    try:
        connection = http.client.HTTPConnection(host, timeout=60)
        connection.request("POST", "/t/attacker/debug/prof/mem/gdump", body="activate=true",
                           headers={"Content-Type": "application/x-www-form-urlencoded"})
        check.equal(connection.getresponse().status, 200)
        connection.close()
    finally:
        users.stop(process)


def peak_kb(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmHWM:\s+(\d+)", status.read())[1])


def attack(way, kind, provoke):
    """Attaches the guest, and makes sonded ask it for the descriptor."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.mkdir(FOLDER)
    os.chmod(FOLDER, 0o777)
    service, guest = users.sonded("--everybody"), None
    try:
        guest = Guest(way, kind)
        before_kb = peak_kb(service)
        provoke()
        assert service.poll() is None, f"sonded ended with {service.returncode}"
        grown_kb = peak_kb(service) - before_kb
        assert grown_kb < GROWTH_KB, f"sonded grew by {grown_kb} KB"
        guest.expect("refused")
        users.targets()
        service.send_signal(signal.SIGTERM)
        check.equal(service.wait(STOP_S), 0, "sonded's exit status")
    finally:
        users.stop(service)
        if guest:
            users.stop(guest.process)


def test_an_ordinary_file_is_not_an_allocation_table():
    attack("table", "table", use_table)


def test_zeros_without_end_are_not_a_dump():
    attack("dump", "zero", use_dump)


def test_a_file_whose_read_blocks_is_not_a_dump():
    attack("dump", "kmsg", use_dump)


def test_a_fifo_is_not_a_dump():
    attack("dump", "fifo", use_dump)


def test_an_ordinary_file_is_not_a_dump():
    attack("dump", "file", use_dump)


def test_memory_that_can_still_change_is_not_a_dump():
    attack("dump", "unsealed", use_dump)


def test_a_dump_of_a_tebibyte_is_refused():
    attack("dump", "huge", use_dump)


def test_a_dump_of_holes_costs_sonded_no_memory():
    attack("dump", "holes", use_dump)


def test_zeros_without_end_are_not_a_dump_at_a_new_maximum():
    attack("gdump", "zero", use_gdump)


def test_a_file_whose_read_blocks_is_not_a_dump_at_a_new_maximum():
    attack("gdump", "kmsg", use_gdump)


def test_a_fifo_is_not_a_dump_at_a_new_maximum():
    attack("gdump", "fifo", use_gdump)


def test_an_ordinary_file_is_not_a_dump_at_a_new_maximum():
    attack("gdump", "file", use_gdump)


def test_memory_that_can_still_change_is_not_a_dump_at_a_new_maximum():
    attack("gdump", "unsealed", use_gdump)


def test_a_dump_of_holes_at_a_new_maximum_is_refused():
    attack("gdump", "holes", use_gdump)


users.install()
shutil.copytree("tests/hostile", PROGRAMS, ignore=lambda _, names: [name for name in names if not name.endswith(".py")])
check.main(globals())
