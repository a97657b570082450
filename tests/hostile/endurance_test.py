# SPDX-License-Identifier: Apache-2.0
"""What root's sonded endures from other users' guests, and from its machine: hundreds of guests that send garbage, guests that
come and go, being stopped, and a data directory that is full or read-only. With "--long" first, many more rounds."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users.users import GUESTS, NOBODY, RPC, install, server, sonded, start, stop, targets
from tests.hostile import fake_guest

LONG = "--long" in sys.argv
if LONG:
    sys.argv.remove("--long")
ROUNDS, CYCLES, STOPPED_S = (20, 2000, 60) if LONG else (1, 200, 2)
CONNECTIONS, PROCESSES = 370, 10
GROWTH_MIB = 16  # what may stay resident after the guests have left: allocator caches and tables of closed targets
PROFILE = os.path.join(stack.WORK, "honest.collapsed")


def descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def captures_well():
    stack.sonde("record", "honest", "--service", RPC, "-d", "1", "-F", "499", "-o", PROFILE)
    with open(PROFILE, encoding="utf-8") as file:
        check.contains(file.read(), "burn")


class Scene:
    """sonded for everybody and an honest server of root's."""

    def __enter__(self):
        self.service, self.honest = sonded("--everybody"), server(uid=0, name="honest")
        check.until(lambda: "honest" in targets(), what="root's server")
        captures_well()
        self.fds, self.mib = descriptors(self.service), check.memory_mb(self.service.pid)
        return self

    def is_as_before(self):
        check.until(lambda: descriptors(self.service) <= self.fds + 2, what="closed descriptors")
        captures_well()
        assert self.honest.poll() is None and self.service.poll() is None
        grown = check.memory_mb(self.service.pid) - self.mib
        assert grown < GROWTH_MIB, f"sonded grew by {grown:.1f} MiB"

    def __exit__(self, *_):
        stop(self.honest)
        stop(self.service)


def random_scalar(dice):
    if dice.random() < 0.5:
        return dice.choice([0, 1, 2, 255, 1 << 31, (1 << 64) - 1, dice.getrandbits(64)])
    return dice.randbytes(dice.choice([0, 1, 16, 300, 5000]))


def random_value(dice, depth=0):
    kind = dice.random()
    if kind < 0.6 or depth == 3:
        return random_scalar(dice)
    if kind < 0.8:
        return [random_scalar(dice) for _ in range(dice.choice([1, 3, 50]))]
    return {dice.randrange(1, 12): random_value(dice, depth + 1) for _ in range(4)}


def some_memory(dice):
    fd = os.memfd_create("fuzz", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, dice.choice([0, 4096, 1 << 20]))
    return fd


def send_garbage(guest, dice):
    """Frames of every kind with random fields, some with descriptors, and then bytes that are no frame."""
    fds = []
    for _ in range(20):
        tag = dice.choice([fake_guest.RINGS, fake_guest.MAPS, fake_guest.CPU_STATE, fake_guest.CPU_ACCOUNT,
                           fake_guest.HEAP_ANSWER, fake_guest.HEAP_GDUMP, fake_guest.HELLO, 99])
        fields = {dice.randrange(1, 12): random_value(dice) for _ in range(dice.randrange(1, 6))}
        fds = [some_memory(dice)] if dice.random() < 0.3 else []
        guest.send(tag, fields, fds)
        for fd in fds:
            os.close(fd)
    guest.send_bytes(dice.randbytes(dice.choice([1, 4, 4000])))


def fuzz(seed, connections, report):
    """Opens the connections, keeps them all open, and sends garbage on each until sonded closes it."""
    dice, refused = random.Random(seed), 0
    guests = []
    for n in range(connections):
        guest = fake_guest.Guest(GUESTS)
        guest.socket.settimeout(5)
        try:
            guest.hello(name=f"fuzz{n}", f4=dice.randbytes(16))
            guests.append(guest)
        except OSError:
            refused += 1
    for guest in guests:
        try:
            send_garbage(guest, dice)
        except OSError:
            refused += 1
    report((len(guests), refused))


def test_hundreds_of_guests_that_send_garbage_harm_nobody():
    with Scene() as scene:
        for round_number in range(ROUNDS):
            puppets = [fake_guest.Puppet(NOBODY, fuzz, round_number * 1000 + n, CONNECTIONS // PROCESSES)
                       for n in range(PROCESSES)]
            try:
                captures_well()
                results = [puppet.result() for puppet in puppets]
            finally:
                for puppet in puppets:
                    puppet.kill()
            assert sum(connected for connected, _ in results) == CONNECTIONS, results
            assert sum(refused for _, refused in results) > 0, "sonded closed none of the connections"
            scene.is_as_before()


def come_and_go(cycles, report):
    for n in range(cycles):
        guest = fake_guest.Guest(GUESTS)
        guest.hello(name=f"cycle{n}")
        guest.close()
    report(cycles)


def test_guests_that_come_and_go_leave_nothing_behind():
    with Scene() as scene:
        puppet = fake_guest.Puppet(NOBODY, come_and_go, CYCLES)
        try:
            check.equal(puppet.result(), CYCLES)
        finally:
            puppet.kill()
        scene.is_as_before()


def test_a_stopped_sonded_continues_where_it_was():
    with Scene() as scene:
        scene.service.send_signal(signal.SIGSTOP)
        time.sleep(STOPPED_S)
        assert scene.honest.poll() is None
        scene.service.send_signal(signal.SIGCONT)
        scene.is_as_before()


def sonded_with_data_on(mount_options):
    """sonded in a mount namespace of its own, whose data directory is a file system mounted with these options."""
    data = os.path.join(stack.WORK, "small")
    shutil.rmtree(data, ignore_errors=True)
    os.makedirs(data, mode=0o700)
    script = f"mount -t tmpfs -o mode=700,{mount_options} none {data} && exec \"$0\" \"$@\""
    process = start("unshare", "-m", "sh", "-c", script, os.path.join(stack.PREFIX, "bin/sonded"), "--socket", GUESTS,
                    "--grpc", RPC, "--data-dir", data, env=stack.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if not process.stdout.readline().startswith("grpc: "):
        text = process.stderr.read()
        stop(process)
        if "permission denied" in text.lower():
            raise check.Skip(f"no mount namespace here: {text}")
        raise AssertionError(text)
    return process


def change_data(service, mount_options):
    subprocess.run(["nsenter", "-t", str(service.pid), "-m", "mount", "-o", f"remount,{mount_options}",
                    os.path.join(stack.WORK, "small")], check=True)


def survives_data_that_becomes(mount_options):
    service, honest = sonded_with_data_on("size=1m"), None
    try:
        change_data(service, mount_options)
        honest = server(uid=0, name="honest")
        check.until(lambda: "honest" in targets(), what="root's server")
        for _ in range(3):
            captures_well()
        assert service.poll() is None
    finally:
        for process in filter(None, (honest, service)):
            stop(process)


def test_captures_work_when_the_data_directory_is_full():
    survives_data_that_becomes("size=4k")


def test_captures_work_when_the_data_directory_becomes_read_only():
    survives_data_that_becomes("ro")


def test_a_data_directory_that_is_read_only_from_the_start_is_refused_with_a_reason():
    try:
        stop(sonded_with_data_on("ro"))
    except AssertionError as error:
        check.contains(str(error), "Read-only file system")
    else:
        raise AssertionError("sonded started")


install()
check.main(globals())
