# SPDX-License-Identifier: Apache-2.0
"""A server whose address space is limited: Sonde leaves it most of what is free, or refuses with a sentence."""

import os
import resource
import subprocess

from tests.cli import check
from tests.e2e import stack

MIB = 1 << 20

stack.install()
PROGRAM = os.path.join(stack.WORK, "address_space")
subprocess.run(["gcc", "-O1", "-g", "-pthread", "-o", PROGRAM, "tests/e2e/heap/address_space.c"], check=True)


class Limited(stack.Server):
    """A server that may map `room` bytes more than it has now. The limit is one of resource.RLIMIT_*."""

    def __init__(self, limit, room, wants=0):
        self.go = os.path.join(stack.WORK, "go")
        super().__init__(PROGRAM, self.go, str(wants // MIB), ready="ready")
        line = "VmSize:" if limit == resource.RLIMIT_AS else "VmData:"
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            used = next(int(text.split()[1]) * 1024 for text in file if text.startswith(line))
        resource.prlimit(self.pid, limit, (used + room, resource.RLIM_INFINITY))

    def __exit__(self, *error):
        if os.path.exists(self.go):
            os.unlink(self.go)
        return super().__exit__(*error)

    def allocates(self):
        """What the server reports when it has allocated all that it wants."""
        with open(self.go, "w", encoding="ascii"):
            return check.until(lambda: [line for line in self.out if line.startswith("failed")], what="its report")[0].strip()


def refused(name, *words):
    check.contains(stack.sonde(*words, status=4)[1], f"address_space cannot be sampled: {name} leaves ")


def check_refusals(limit, name, heap_too):
    with Limited(limit, 60 * MIB):
        refused(name, "record", "--source", "guest", "-d", "1", "-o", os.path.join(stack.WORK, "cpu.pb.gz"))
        check.contains(stack.sonde("targets", "--json")[0], f"{name} leaves ")
        doctor = subprocess.run([stack.SONDE, "doctor"], env=stack.environment(), capture_output=True, text=True, timeout=60, check=False)
        check.contains(doctor.stdout, f"not sampled from inside yet: {name} leaves ")
        if heap_too:
            refused(name, "heap", "on")
            refused(name, "heap", "allocs", "-d", "1", "-o", os.path.join(stack.WORK, "allocs.pb.gz"))


def test_without_address_space_sonde_refuses_and_names_the_limit():
    check_refusals(resource.RLIMIT_AS, "RLIMIT_AS", True)


def test_blocked_threads_that_have_no_room_are_a_note():
    path = os.path.join(stack.WORK, "wall.md")
    with Limited(resource.RLIMIT_AS, 280 * MIB):
        stack.sonde("record", "--source", "guest", "--mode", "wall", "-d", "1", "-o", path)
        with open(path, encoding="utf-8") as file:
            check.contains(file.read(), "stacks of blocked threads: RLIMIT_AS leaves ")


def test_rlimit_data_is_looked_at():
    check_refusals(resource.RLIMIT_DATA, "RLIMIT_DATA", False)  # most of the sampler's table is shared memory


def test_a_capture_leaves_the_server_its_address_space():
    with Limited(resource.RLIMIT_AS, 400 * MIB, 250 * MIB) as server:
        stack.sonde("record", "--source", "guest", "-d", "1", "-o", os.path.join(stack.WORK, "cpu.pb.gz"))
        check.equal(server.allocates(), "failed: 0.")


def test_heap_profiling_leaves_the_server_its_address_space():
    with Limited(resource.RLIMIT_AS, 400 * MIB, 250 * MIB) as server:
        stack.sonde("heap", "on", "--sample", "4096")
        check.equal(server.allocates(), "failed: 0.")
        lines = stack.sonde("heap", "dump", "-o", "-", "--format", "collapsed")[0].splitlines()
        held = sum(int(line.rsplit(" ", 1)[1]) for line in lines if "take" in line)
        check.near(held / MIB, 250, 25, "MiB held by take")


check.main(globals())
